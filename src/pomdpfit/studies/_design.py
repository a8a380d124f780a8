"""design(): a Monte Carlo over agents and periods, resumable and open to enlargement."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._checkpoint import open_checkpoint
from pomdpfit._errors import EstimationError
from pomdpfit._fingerprint import fingerprint
from pomdpfit._fixed import refuse_other_start
from pomdpfit._kept_rows import are_numbers, read_rows, write_rows
from pomdpfit._model import require_model
from pomdpfit._parallel import run_as_finished
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import RESUMED, Progress, callback, long_running, with_keywords
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import ArrayLike, Theta
from pomdpfit._version import __version__
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._joint import Joint
from pomdpfit.solvers import AbstractSolver
from pomdpfit.studies._collect import collected
from pomdpfit.studies._study import Cell, Study
from pomdpfit.studies._study_design import StudyDesign

_Place = tuple[Cell, range]


@long_running
def design(
    model: Any,
    theta: Theta,
    *,
    agents: Sequence[int],
    periods: Sequence[int],
    replications: int = 100,
    estimator: AbstractEstimator | None = None,
    prior: AbstractPrior | None = None,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    fixed: Mapping[str, ArrayLike | float] | None = None,
    free: Sequence[str] = (),
    constraints: str | Sequence[str] = (),
    z0: int | Sequence[int] = 0,
    starts: int = 1,
    skip_hessian: bool = False,
    information: int = 1000,
    seed: int = 0,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
    chunk: int = 5,
    progress: Progress | bool | None = None,
) -> StudyDesign:
    """How many agents, over how many periods, for a standard error of ...?

    For every number of agents and periods, `replications` panels are simulated at theta and
    estimated as they would be in earnest.

    theta        what is true: all parameters, those of the prior included
    estimator, prior, grid, solver, fixed, free, constraints, skip_hessian  as in `fit`
    z0           the first observation of all agents, or several that they take in turn
    starts       points that each fit starts from: the truth, and drawn ones beyond the first. With
                 one what is seen is the sampling error of the maximum near the truth, not the risk
                 of ending in another one
    information  agents of one large panel whose scores at theta give the information, and so
                 standard errors without a single estimate; 0 for none
    n_jobs       processes; by default what `joblib.parallel_config` says, or this one
    checkpoint   a folder: what is finished is kept there `chunk` replications at a time, and a
                 later call goes on from it. More agents, periods or replications may be asked for
                 then; another model, theta, estimator, seed or version is refused

    A replication depends on the seed, its cell and its own number alone, but for the last bits:
    panels of a small study are padded to the largest, so that they share one compiled program.
    """
    require_model(model, fully_observed=True)
    cells = _cells(list(agents), list(periods))
    least = {"replications": (replications, 2), "chunk": (chunk, 1), "starts": (starts, 1)}
    least |= {"seed": (seed, 0), "information": (information, 0)}
    for name, (value, lowest) in least.items():
        if not isinstance(value, int | np.integer) or value < lowest:
            raise EstimationError(f"{name} must be a whole number of at least {lowest}: {value!r}.")
    estimator = Joint() if estimator is None else estimator
    first = (int(z0),) if isinstance(z0, int | np.integer) else tuple(int(z) for z in z0)
    texts = (constraints,) if isinstance(constraints, str) else tuple(constraints)
    held = {"fixed": dict(fixed or {}), "free": tuple(free), "constraints": texts}
    means = {"prior": prior, "grid": grid, "solver": solver}
    theta = {name: np.asarray(leaf, dtype=float) for name, leaf in theta.items()}
    study = Study(model, theta, means, held, estimator, starts, skip_hessian, first, seed)
    likelihood, entries = study.entries()
    refuse_other_start(likelihood.space, theta, held["fixed"])
    study = _whole(study, likelihood.space.check(theta))
    truth = pd.Series(entries.flatten(study.theta), list(entries.names), name="truth")
    study = study.sharing_shape(cells, len(truth))
    tell = callback(progress)
    folder = None
    if checkpoint is not None:
        folder = open_checkpoint(Path(checkpoint), _manifest(study, chunk), "design")
    known = _information(study, sorted({T for _, T in cells}), information, folder, tell)
    rows = _replications(study, cells, replications, chunk, len(truth), n_jobs, folder, tell)
    title = f"Design of a study: {type(model).__name__}, {type(estimator).__name__}"
    return collected(rows, known, truth, seed, title)


def _whole(study: Study, theta: Mapping[str, Any]) -> Study:
    """The study at theta after its checks, as plain arrays."""
    return dataclasses.replace(study, theta={n: np.asarray(v) for n, v in theta.items()})


def _cells(agents: Sequence[int], periods: Sequence[int]) -> list[Cell]:
    """All pairs, once each, in order."""
    for name, values in (("agents", agents), ("periods", periods)):
        whole = all(isinstance(value, int | np.integer) and value > 0 for value in values)
        if not (values and whole):
            raise EstimationError(
                f"{name} must list whole numbers of at least 1, such as [100, 200], not {values!r}."
            )
    return sorted({(int(N), int(T)) for N in agents for T in periods})


def _replications(
    study: Study,
    cells: Sequence[Cell],
    replications: int,
    chunk: int,
    width: int,
    n_jobs: int | None,
    folder: Path | None,
    tell: Progress,
) -> list[dict]:
    """The rows of all cells in order; those in the folder are not done again."""
    starts = range(0, replications, chunk)
    parts = [(cell, range(r, min(r + chunk, replications))) for cell in cells for r in starts]
    found = {part: _read(folder, part, width) for part in parts}
    missing = [part for part, rows in found.items() if rows is None]
    done = sum(len(rows) for rows in found.values() if rows is not None)
    failed = sum(_failed(rows) for rows in found.values() if rows is not None)
    what, total, say = "replications", len(cells) * replications, with_keywords(tell)
    if done:
        tell(f"{RESUMED}{done} of {total} replications of the design are in {folder}", 1, 1)
    say(what, done, total, failed=failed)
    # In this order the first results are of all cells.
    missing.sort(key=lambda part: part[1].start)
    tasks = ((part,) for part in missing)
    for _, (part, rows) in run_as_finished(_run_part, (study,), tasks, n_jobs):
        found[part] = rows
        if folder is not None:
            write_rows(_path(folder, part), rows)
        done, failed = done + len(rows), failed + _failed(rows)
        say(what, done, total, failed=failed)
    return [row for part in parts for row in found[part] or ()]


def _run_part(study: Study, part: _Place) -> tuple[_Place, list[dict]]:
    return part, study.replications(*part)


def _failed(rows: Sequence[dict]) -> int:
    return sum(row["reason"] != "" for row in rows)


def _path(folder: Path, part: _Place) -> Path:
    (N, T), which = part
    return folder / f"chunk-agents-{N}-periods-{T}-from-{which.start:05d}.json"


def _read(folder: Path | None, part: _Place, width: int) -> list[dict] | None:
    """What is kept of a part; one of a study with fewer replications is done again."""
    if folder is None:
        return None
    (N, T), which = part

    def whole(rows: list) -> bool:
        for r, row in enumerate(rows, which.start):
            place = {"agents": N, "periods": T, "replication": r}
            if not (isinstance(row, dict) and place.items() <= row.items()):
                return False
            if not isinstance(row.get("reason"), str):
                return False
            if row["reason"] == "" and not are_numbers(row.get("values"), width):
                return False
        return True

    said = f"the replications from {which.start} on of {N} agents and {T} periods"
    rows = read_rows(_path(folder, part), whole, said)
    return rows[: len(which)] if rows is not None and len(rows) >= len(which) else None


def _information(
    study: Study, periods: Sequence[int], agents: int, folder: Path | None, tell: Progress
) -> list[dict]:
    """A row for each number of periods, kept as the others are."""
    rows: list[dict] = []
    total = len(periods)
    if not agents:
        return rows
    for done, T in enumerate(periods):
        tell("information at theta", done, total)
        path = None if folder is None else folder / f"chunk-information-{agents}-periods-{T}.json"
        here = lambda rows, T=T: len(rows) == 1 and rows[0].get("periods") == T
        kept = None if path is None else read_rows(path, here, f"the information of {T} periods")
        if kept is None:
            kept = [study.information_errors(agents, T)]
            if path is not None:
                write_rows(path, kept)
        rows += kept
    tell("information at theta", total, total)
    return rows


def _manifest(study: Study, chunk: int) -> dict[str, Any]:
    """All that a replication depends on; agents, periods and replications may grow."""
    return {
        "model": fingerprint(study.model),
        "theta": fingerprint(study.theta),
        **{name: fingerprint(value) for name, value in study.means.items()},
        "estimator": fingerprint(study.estimator),
        **{name: fingerprint(value) for name, value in study.held.items()},
        "z0": list(study.z0),
        "starts": int(study.starts),
        "skip_hessian": study.skip_hessian,
        "seed": int(study.seed),
        "chunk": int(chunk),
        "version": __version__,
    }
