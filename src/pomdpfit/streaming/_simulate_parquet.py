"""Data sets larger than memory, drawn from a model."""

import os
from pathlib import Path

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._schemes import AbstractScheme
from pomdpfit._simulate import Drawer, prepare
from pomdpfit._types import ArrayLike, Theta
from pomdpfit.streaming._scan import PanelScan
from pomdpfit.streaming._write_parquet import require_empty, write_rows

_FILE_ROWS = 2**21


@long_running
def simulate_parquet(
    model: Model,
    theta: Theta,
    path: str | os.PathLike[str],
    *,
    agents: int,
    periods: int,
    seed: int,
    prior: AbstractPrior | None = None,
    z0: ArrayLike | int = 0,
    grid: AbstractScheme | None = None,
    agents_per_file: int | None = None,
    progress: Progress | bool | None = None,
) -> PanelScan:
    """Simulate to a folder of Parquet files, one after the other, and scan it.

    The agents are those of `pf.simulate` with the same seed, and have the same rows. Columns are
    agent, time, z and a, and the model's covariates. A file holds two million rows unless
    `agents_per_file` says otherwise.
    """
    drawer = prepare(model, theta, agents, periods, seed, prior, z0, grid, None)
    if agents_per_file is None:
        agents_per_file = max(1, _FILE_ROWS // (periods + 1))
    if agents_per_file < 1:
        raise PanelError(f"agents_per_file must be at least 1, not {agents_per_file}.")
    agents_per_file = min(agents_per_file, agents)
    folder = Path(path)
    require_empty(folder)
    tell = callback(progress)
    firsts = range(0, agents, agents_per_file)
    digits = len(str(len(firsts)))
    tell("simulate", 0, len(firsts))
    labels = model.group_labels() if "group" in drawer.covariates else None
    for number, first in enumerate(firsts):
        # Always as many agents, so that one program draws them all.
        rows = _rows(drawer, first, agents_per_file, agents)
        if labels is not None:
            rows["group"] = np.full(len(rows["z"]), labels[int(drawer.covariates["group"])])
        write_rows(folder / f"part-{number:0{digits}d}.parquet", rows)
        tell("simulate", number + 1, len(firsts))
    return Panel.scan_parquet(
        folder,
        agent="agent",
        time="time",
        observation="z",
        action="a",
        covariates=tuple(name for name in drawer.covariates if labels is None or name != "group"),
        group=None if labels is None else "group",
        groups=labels,
    )


def _rows(drawer: Drawer, first: int, count: int, agents: int) -> dict[str, np.ndarray]:
    """Columns of agents first, ..., first + count - 1, as far as there are so many."""
    there = min(count, agents - first)
    z, a, _, _ = (np.asarray(part)[:there] for part in drawer.draw(first, count))
    T = z.shape[1]
    last = np.zeros_like(z, dtype=bool)
    last[:, -1] = True
    choices = np.ma.MaskedArray(np.pad(a, ((0, 0), (0, 1))), last)
    everywhere = lambda value: np.full(there * T, value)
    return {
        "agent": np.repeat(np.arange(first, first + there), T),
        "time": np.tile(np.arange(T), there),
        "z": z.ravel(),
        "a": choices.ravel(),
        **{name: everywhere(value) for name, value in drawer.covariates.items()},
    }
