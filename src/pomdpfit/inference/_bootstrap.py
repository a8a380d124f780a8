"""Bootstrap: the estimate again on resampled or simulated panels, side by side, never lost.

A replicate depends on the seed and its own number alone. Agents are resampled by weights (how
often each was drawn), so that nothing is compiled anew. Finished chunks are written to a folder as
they come; a run that was stopped goes on from there and ends in the same bytes.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._batch import Batch, chosen_width
from pomdpfit._entries import free_entries
from pomdpfit._errors import EstimationError, PomdpfitError
from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import (
    difference,
    model_fingerprint,
    panel_fingerprint,
    theta_fingerprint,
)
from pomdpfit._parallel import run_parallel
from pomdpfit._precision import in_float64
from pomdpfit._progress import Progress, silent
from pomdpfit._restrictions import Restrictions
from pomdpfit._version import __version__
from pomdpfit._write import write_atomically
from pomdpfit.estimators._paths import Path, run_path
from pomdpfit.estimators._together import run_together


@dataclasses.dataclass(frozen=True, eq=False)
class Bootstrap:
    """Draws of an estimator: one row a replicate, one column an entry of `params`.

    Replicates that failed stay as rows of NaN, with their reason in `failed`.
    """

    draws: pd.DataFrame
    info: pd.DataFrame
    estimate: pd.Series
    parametric: bool
    seed: int

    @property
    def failed(self) -> pd.Series:
        """Reasons, by replicate."""
        return self.info.loc[self.info["reason"] != "", "reason"]

    @property
    def used(self) -> pd.DataFrame:
        """The draws that converged, on a boundary or not."""
        return self.draws[self.info["converged"]]

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the draws."""
        return self.used.cov()

    @property
    def bse(self) -> pd.Series:
        """Standard deviation of the draws."""
        return self.used.std().rename("std err")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Percentile intervals: they stay inside the bounds."""
        return pd.DataFrame(
            {"lower": self.used.quantile(alpha / 2), "upper": self.used.quantile(1 - alpha / 2)}
        )

    @property
    def at_bound(self) -> pd.Series:
        """The share of draws in which an entry lies on its bound."""
        rows = self.info.loc[self.used.index, "boundary"]
        share = {name: pd.Series([name in row for row in rows]).mean() for name in self.draws}
        return pd.Series(share, name="at bound", dtype=float)

    def summary(self) -> pd.DataFrame:
        """Estimate, bias, standard error, percentile interval and share on the bound."""
        frame = pd.DataFrame({"estimate": self.estimate, "std err": self.bse})
        frame.insert(1, "bias", self.used.mean() - self.estimate)
        return pd.concat([frame, self.conf_int(), self.at_bound], axis=1)

    def to_json(self) -> str:
        """Everything, exactly: the same draws give the same bytes."""
        return json.dumps(
            {
                "format": "pomdpfit-bootstrap",
                "columns": list(self.draws.columns),
                "draws": [[_finite(v) for v in row] for row in self.draws.to_numpy()],
                "info": [
                    {name: _finite(value) for name, value in row.items()}
                    for row in self.info.reset_index().to_dict("records")
                ],
                "estimate": self.estimate.tolist(),
                "parametric": self.parametric,
                "seed": self.seed,
            },
            sort_keys=True,
        )

    def save(self, path: str | FilePath) -> None:
        """Write `to_json` to a file, whole or not at all."""
        write_atomically(FilePath(path), self.to_json().encode())


def _finite(value: Any) -> Any:
    """None in the place of what JSON has no word for."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


@in_float64
def bootstrap(
    estimate: Estimate,
    replicates: int = 200,
    *,
    parametric: bool = False,
    seed: int = 0,
    n_jobs: int = 1,
    batch: int | None = None,
    checkpoint: str | FilePath | None = None,
    chunk: int | None = None,
    progress: Progress | None = None,
) -> Bootstrap:
    """Estimate again `replicates` times, each from the estimate as a start.

    parametric  panels simulated at the estimate instead of agents drawn with replacement
    checkpoint  a folder: finished chunks are kept there, and a later call with the same estimate,
                seed and options goes on from them
    chunk       how many replicates are finished and kept together: 10, or 16 batches
    n_jobs      processes, as in joblib
    batch       how many replicates one compiled program answers at a time, in each process; 1 for
                one after the other. If not given: 1 where there are several processes, covariates,
                a finite horizon or priors that are found by iteration; on a CPU 8 for small models
                (1200 unknowns, 20000 rows) and else 1; on other devices what their memory holds,
                up to 512

    Replicates do not depend on each other, but for the last bit, which depends on the batch.
    """
    if estimate.setting.estimator is None or estimate.model is None:
        raise EstimationError("a bootstrap needs the model: pf.load(path, model=model).")
    if replicates < 2:
        raise EstimationError(f"a bootstrap needs at least 2 replicates, not {replicates}.")
    if (chunk is not None and chunk < 1) or seed < 0:
        raise EstimationError(
            f"chunk must be at least 1 and seed at least 0, but they are {chunk} and {seed}."
        )
    likelihood = estimate.setting.likelihood(estimate.space)
    width = chosen_width(likelihood, replicates, n_jobs, batch)
    if chunk is None:
        chunk = 10 if width == 1 else 16 * width
    tell = silent if progress is None else progress
    chunks = [range(k, min(k + chunk, replicates)) for k in range(0, replicates, chunk)]
    folder = None
    if checkpoint is not None:
        folder = _opened(FilePath(checkpoint), _manifest(estimate, parametric, seed, chunk, width))
    entries = len(estimate.information.entries)
    found = {k: _read(folder, k, part, entries) for k, part in enumerate(chunks)}
    missing = [k for k, rows in found.items() if rows is None]
    what = f"bootstrap ({len(chunks) - len(missing)} of {len(chunks)} chunks were there)"
    tell(what, len(chunks) - len(missing), len(chunks))
    inner = tell if n_jobs == 1 else None  # what is told in another process nobody hears
    tasks = ((k, chunks[k], inner) for k in missing)
    shared = (estimate, parametric, seed, width)
    for done, (k, rows) in enumerate(run_parallel(_run_chunk, shared, tasks, n_jobs), 1):
        found[k] = rows
        if folder is not None:
            write_atomically(folder / _name(k), json.dumps(rows, sort_keys=True).encode())
        tell(what, len(chunks) - len(missing) + done, len(chunks))
    rows = [row for k in range(len(chunks)) for row in (found[k] or ())]
    return _collected(rows, estimate, parametric, seed)


def _run_chunk(
    estimate: Estimate,
    parametric: bool,
    seed: int,
    width: int,
    k: int,
    part: Sequence[int],
    tell: Progress | None,
) -> tuple[int, list[dict]]:
    """The replicates of one chunk, side by side or one after the other."""
    likelihood = estimate.setting.likelihood(estimate.space)
    restrictions = estimate.parsed_restrictions
    warm = likelihood.terms(estimate.theta).start
    if width > 1:
        batch, tell = Batch(likelihood, width), tell or silent
        return k, _together(estimate, batch, restrictions, warm, part, parametric, seed, tell)
    rows = []
    for b in part:
        try:
            rows.append(_replicate(estimate, likelihood, restrictions, warm, b, parametric, seed))
        except PomdpfitError as error:  # one bad panel must not cost the others
            rows.append(_failed(b, error))
    return k, rows


def _replicate(estimate, likelihood, restrictions: Restrictions | None, warm, b, parametric, seed):  # type: ignore[no-untyped-def]
    weights, panel = _drawn(estimate, likelihood, b, parametric, seed)
    if panel is not None:
        likelihood = estimate.setting.likelihood(estimate.space, panel)
    start = Path((str(b),), dict(estimate.theta), warm=warm)
    path = run_path(likelihood, estimate.setting.estimator, start, restrictions, weights)
    return _row(estimate, restrictions, b, path)


def _together(  # type: ignore[no-untyped-def]
    estimate, batch: Batch, restrictions: Restrictions | None, warm, part, parametric, seed, tell
):
    """All replicates of a chunk in batches."""
    failed, drawn = {}, {}
    for b in part:
        try:
            drawn[b] = _drawn(estimate, batch.likelihood, b, parametric, seed)
        except PomdpfitError as error:
            failed[b] = _failed(b, error)
    starts = [Path((str(b),), dict(estimate.theta), warm=warm) for b in drawn]
    weights = None if parametric else [w for w, _ in drawn.values()]
    panels = [batch.arrays(panel) for _, panel in drawn.values()] if parametric else None
    paths = run_together(
        batch, estimate.setting.estimator, starts, restrictions, weights, panels, tell
    )
    found = {b: _row(estimate, restrictions, b, path) for b, path in zip(drawn, paths, strict=True)}
    return [failed[b] if b in failed else found[b] for b in part]


def _drawn(estimate, likelihood, b, parametric, seed):  # type: ignore[no-untyped-def]
    """What replicate b is fitted to: how often each agent counts, or a simulated panel."""
    rng = np.random.default_rng([seed, b])
    if parametric:
        return None, likelihood.simulate(estimate.theta, int(rng.integers(2**31)))
    agents = estimate.panel.agent_count
    return rng.multinomial(agents, np.full(agents, 1.0 / agents)).astype(float), None


def _failed(b: int, error: PomdpfitError) -> dict:
    return {"replicate": b, "reason": f"{type(error).__name__}: {error}"}


def _row(estimate: Estimate, restrictions: Restrictions | None, b: int, path: Path) -> dict:
    """What is kept of a replicate."""
    climbs = path.decisive(estimate.setting.estimator)
    bad = [climb for climb in climbs if not climb.converged]
    space = estimate.space
    entries = free_entries(space, space.free_leaves, path.theta, restrictions)
    phi = entries.flatten(path.theta)
    return {
        "replicate": b,
        "values": phi.tolist(),
        "llf": float(sum(climb.value for climb in climbs)),
        "boundary": [entries.names[j] for j in np.flatnonzero(entries.at_bound(phi))],
        "steps": sum(climb.steps for climb in path.climbs),
        "reason": f"{bad[0].result.name}: {bad[0].result.advice()}" if bad else "",
    }


def _collected(rows: Sequence[dict], estimate: Estimate, parametric: bool, seed: int) -> Bootstrap:
    names = list(estimate.information.entries)
    index = pd.Index([row["replicate"] for row in rows], name="replicate")
    empty = [np.nan] * len(names)
    values = [empty if row["reason"] else row["values"] for row in rows]
    draws = pd.DataFrame(values, index, names)
    info = pd.DataFrame(
        {
            "llf": [row.get("llf", np.nan) for row in rows],
            "converged": [row["reason"] == "" for row in rows],
            "steps": [row.get("steps", 0) for row in rows],
            "boundary": [row.get("boundary", []) for row in rows],
            "reason": [row["reason"] for row in rows],
        },
        index,
    )
    return Bootstrap(draws, info, estimate.params, parametric, seed)


# ---- checkpoint --------------------------------------------------------------------------------


def _manifest(estimate: Estimate, parametric: bool, seed: int, chunk: int, batch: int) -> dict:
    """All that the replicates depend on."""
    return {
        **{f"panel: {n}": h for n, h in panel_fingerprint(estimate.panel).items()},
        "estimate": theta_fingerprint(estimate.theta),
        "model": model_fingerprint(estimate.model),
        "prior": model_fingerprint(estimate.setting.prior),
        "grid": repr(estimate.setting.grid),
        "solver": model_fingerprint(estimate.setting.solver),
        "estimator": model_fingerprint(estimate.setting.estimator),
        "restrictions": "; ".join(estimate.restrictions),
        "parametric": parametric,
        "seed": seed,
        "chunk": chunk,
        "batch": batch,
        "version": __version__,
    }


def _opened(folder: FilePath, manifest: dict) -> FilePath:
    """The folder with its manifest, refused if it belongs to another bootstrap."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "manifest.json"
    if not path.exists():
        write_atomically(path, json.dumps(manifest, sort_keys=True, indent=1).encode())
        return folder
    try:
        there = json.loads(path.read_text())
    except ValueError as error:
        raise EstimationError(f"{path} cannot be read as a manifest: {error}") from error
    if not isinstance(there, dict):
        raise EstimationError(f"{path} cannot be read as a manifest: it is not an object.")
    changed = difference(manifest, there)
    if changed:
        raise EstimationError(
            f"the checkpoint in {folder} belongs to another bootstrap: {', '.join(changed)} "
            "changed. Use another folder, or delete this one."
        )
    return folder


def _name(k: int) -> str:
    return f"chunk-{k:05d}.json"


def _read(folder: FilePath | None, k: int, part: Sequence[int], width: int) -> list[dict] | None:
    """A finished chunk, or None; one of a run with fewer replicates is done again."""
    if folder is None or not (folder / _name(k)).exists():
        return None
    try:
        rows = json.loads((folder / _name(k)).read_text())
    except ValueError as error:
        raise EstimationError(f"{folder / _name(k)} is damaged: {error}. Delete it.") from error
    if not (isinstance(rows, list) and rows and _whole(rows, part[0], width)):
        raise EstimationError(
            f"{folder / _name(k)} is damaged: it does not hold the replicates from {part[0]} on. "
            "Delete it."
        )
    return rows[: len(part)] if len(rows) >= len(part) else None


def _whole(rows: list, first: int, width: int) -> bool:
    """Whether rows are what `_replicate` returns, one after the other."""
    for b, row in enumerate(rows, first):
        if not (isinstance(row, dict) and row.get("replicate") == b):
            return False
        if not isinstance(row.get("reason"), str):
            return False
        values = row.get("values")
        if row["reason"] == "" and not (isinstance(values, list) and len(values) == width):
            return False
    return True
