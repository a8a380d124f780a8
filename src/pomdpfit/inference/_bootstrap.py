"""Bootstrap: the estimate again on resampled or simulated panels, side by side, never lost.

A replicate depends on the seed and its own number alone. Agents are resampled by weights (how
often each was drawn), so that nothing is compiled anew. Finished chunks are written to a folder as
they come; a run that was stopped goes on from there and ends in the same bytes.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path as FilePath

import numpy as np
import pandas as pd

from pomdpfit._batch import Batch, chosen_width
from pomdpfit._checkpoint import open_checkpoint
from pomdpfit._engine import find_engine
from pomdpfit._entries import free_entries
from pomdpfit._errors import EstimationError, InferenceWarning, PomdpfitError
from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import fingerprint, setting_fingerprint
from pomdpfit._panel import Panel
from pomdpfit._parallel import run_as_finished
from pomdpfit._progress import RESUMED, Progress, callback, long_running, silent, with_keywords
from pomdpfit._restrictions import Restrictions
from pomdpfit.estimators._paths import Path, run_path
from pomdpfit.estimators._together import run_together
from pomdpfit.inference._bootstrap_chunks import read_chunk, write_chunk
from pomdpfit.inference._bootstrap_draws import Bootstrap
from pomdpfit.inference._few_agents import FEW, clustered_note


@long_running
def bootstrap(
    estimate: Estimate,
    replicates: int = 200,
    *,
    parametric: bool = False,
    seed: int = 0,
    n_jobs: int | None = None,
    batch: int | None = None,
    checkpoint: str | FilePath | None = None,
    chunk: int | None = None,
    progress: Progress | bool | None = None,
) -> Bootstrap:
    """Estimate again `replicates` times, each from the estimate as a start.

    parametric  panels simulated at the estimate instead of agents drawn with replacement
    checkpoint  a folder: finished chunks are kept there, and a later call with the same estimate,
                seed and options goes on from them
    chunk       how many replicates are finished and kept together: 10, or 16 batches
    n_jobs      processes, as in joblib: 1 for this one, -1 for one a core; if not given, what
                joblib.parallel_config says (loky, dask, ray), or this process
    batch       how many replicates one compiled program answers at a time, in each process; 1 for
                one after the other. If not given: 1 on a CPU, in several processes, and with
                covariates, a finite horizon or priors that are found by iteration; on other
                devices what their memory holds, up to 512
    progress    as in `fit`

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
    agents = estimate.panel.scored_agents
    if not parametric and agents < 2:
        raise EstimationError(
            "a bootstrap over agents needs at least 2 agents with scored rows, but there is "
            f"{agents}: every replicate would be the same. Use parametric=True."
        )
    if not parametric and agents < FEW:
        warnings.warn(clustered_note(agents), InferenceWarning, stacklevel=3)  # past long_running
    likelihood = estimate.setting.likelihood(estimate.space)
    width = chosen_width(likelihood, replicates, n_jobs, batch)
    if chunk is None:
        chunk = 10 if width == 1 else 16 * width
    tell = callback(progress)
    chunks = [range(k, min(k + chunk, replicates)) for k in range(0, replicates, chunk)]
    folder = None
    if checkpoint is not None:
        manifest = _manifest(estimate, parametric, seed, chunk, width)
        folder = open_checkpoint(FilePath(checkpoint), manifest, "bootstrap")
    entries = len(estimate.information.entries)
    found = {k: read_chunk(folder, k, part, entries) for k, part in enumerate(chunks)}
    missing = [k for k, rows in found.items() if rows is None]
    there, what = len(chunks) - len(missing), "bootstrap"
    if there:
        tell(f"{RESUMED}{there} of {len(chunks)} chunks of the bootstrap are in {folder}", 1, 1)
    say, failed = with_keywords(tell), sum(map(_failures, found.values()))
    say(what, there, len(chunks), failed=failed)
    # What is told in another process nobody hears.
    inner = tell if find_engine(n_jobs).here else None
    tasks = ((k, chunks[k], inner) for k in missing)
    shared = (estimate, parametric, seed, width)
    finished = run_as_finished(_run_chunk, shared, tasks, n_jobs)
    for done, (_, (k, rows)) in enumerate(finished, 1):
        found[k] = rows
        if folder is not None:
            write_chunk(folder, k, rows)
        failed += _failures(rows)
        say(what, there + done, len(chunks), failed=failed)
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
    panel = estimate.panel
    scored = panel.scored if isinstance(panel, Panel) else np.ones(panel.agent_count, dtype=bool)
    agents = int(scored.sum())  # those without scored rows are not drawn
    return rng.multinomial(agents, scored / agents).astype(float), None


def _failures(rows: list[dict] | None) -> int:
    return sum(row["reason"] != "" for row in rows or ())


def _failed(b: int, error: PomdpfitError) -> dict:
    return {"replicate": b, "reason": f"{type(error).__name__}: {error}"}


def _row(estimate: Estimate, restrictions: Restrictions | None, b: int, path: Path) -> dict:
    """What is kept of a replicate."""
    climbs = path.decisive(estimate.setting.estimator)
    bad = [climb for climb in climbs if not climb.converged]
    space = estimate.space
    entries = free_entries(space, space.free_leaves, path.theta, restrictions)
    phi = entries.flatten(path.theta)
    value = float(sum(climb.value for climb in climbs))
    return {
        "replicate": b,
        "values": phi.tolist() if np.isfinite(phi).all() else None,
        "llf": value if np.isfinite(value) else None,  # JSON has no word for the others
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
            "llf": np.array([row.get("llf") for row in rows], dtype=float),  # None becomes NaN
            "converged": [row["reason"] == "" for row in rows],
            "steps": [row.get("steps", 0) for row in rows],
            "boundary": [row.get("boundary", []) for row in rows],
            "reason": [row["reason"] for row in rows],
        },
        index,
    )
    agents = estimate.panel.scored_agents
    return Bootstrap(draws, info, estimate.params, parametric, seed, agents)


def _manifest(estimate: Estimate, parametric: bool, seed: int, chunk: int, batch: int) -> dict:
    """All that the replicates depend on."""
    return {
        **setting_fingerprint(estimate.setting),
        "estimate": fingerprint(estimate.theta),
        "restrictions": "; ".join(estimate.restrictions),
        "parametric": parametric,
        "seed": seed,
        "chunk": chunk,
        "batch": batch,
    }
