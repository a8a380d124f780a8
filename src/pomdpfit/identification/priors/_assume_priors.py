"""prior_set(): estimates under every x0 that is thought possible."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pomdpfit._errors import EstimationError
from pomdpfit._grid import node_count, nodes
from pomdpfit._model import Model, checked_primitives, require_model
from pomdpfit._panel import Panel
from pomdpfit._priors import AbstractPrior, CommonPrior, labels_of
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._schemes import AbstractScheme
from pomdpfit._setting import Setting
from pomdpfit._types import ArrayLike, Float, Theta
from pomdpfit.estimators import Joint
from pomdpfit.estimators._base import AbstractEstimator, split_leaves
from pomdpfit.estimators._fit import prepare
from pomdpfit.identification.memory._corner_distances import checked_corners
from pomdpfit.identification.priors._prior_fits import (
    ASSUMED,
    BESIDE,
    KNOWN,
    Candidate,
    Means,
    PriorFit,
    candidates,
    fit_all,
    scored_periods,
)
from pomdpfit.identification.priors._prior_set import PriorSet

_WHAT = "unknown prior"


@long_running
def prior_set(
    model: Model,
    panel: Panel,
    estimator: AbstractEstimator | None = None,
    *,
    beliefs: int | ArrayLike = 5,
    periods: int | Sequence[int] | None = None,
    known: AbstractPrior | None = None,
    beside: Sequence[AbstractPrior] = (CommonPrior(),),
    start: Theta | None = None,
    starts: int = 1,
    fixed: Mapping[str, ArrayLike | float] | None = None,
    grid: AbstractScheme | None = None,
    skip: int = 0,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> PriorSet:
    """Estimate the model under one x0 after another: the set that an unknown prior allows.

    beliefs  how many x0 on each edge of the simplex, or the x0 themselves, one a row
    periods  how many first periods to score: one number or several; by default all
    known    the prior that deviations are measured from (Figure 2's known x0)
    beside   rules for x0 to fit beside: pf.CommonPrior(), pf.AgentPriors(), pf.StationaryPrior()
    fixed    parameters held at a value, as in pf.fit
    skip     first periods that are not scored, but in which beliefs forget

    The longest panel is fitted from `start` (the model's example by default), the next shorter
    one from what the known prior, or the most likely x0, has given there. `n_jobs` fits of one
    length run at a time, as in `bootstrap`; the numbers do not depend on it.
    """
    require_model(model)
    tell = callback(progress)
    states = checked_primitives(model, model.example()).states
    estimator = Joint() if estimator is None else estimator
    each = candidates(_beliefs(beliefs, states), known, beside, panel.agent_count)
    lengths = _lengths(periods, skip, panel)
    means = Means(estimator, starts, dict(fixed or {}), grid, seed)
    groups = _groups(model, panel, means, each)
    total, done, found = len(lengths) * len(each), 0, []
    for length in lengths:
        scored = scored_periods(panel, length, skip)
        heard = lambda count, before=done: tell(_WHAT, before + count, total)
        fits = fit_all(model, scored, each, means, start, n_jobs, heard)
        done += len(fits)
        start = _next_start(fits, length, by_stages=estimator.by_stages)
        found.append((length, fits))
    labels = labels_of(model, states)
    return PriorSet(
        estimates=_table(found[::-1], labels, [name for g in groups.values() for name in g]),
        groups=groups,
        states=labels,
        estimator=type(estimator).__name__,
        by_stages=estimator.by_stages,
        agents=panel.agent_count,
        skip=skip,
        seed=seed,
    )


def _beliefs(beliefs: int | ArrayLike, states: int) -> Float[np.ndarray, "k S"]:
    if states == 1:
        raise EstimationError("with a single hidden state there is only one prior: use pf.fit.")
    if not isinstance(beliefs, int | np.integer):
        return checked_corners(beliefs, states)
    if beliefs < 2:
        raise EstimationError(
            f"beliefs must be at least 2 to an edge of the simplex, but it is {beliefs}. To assume "
            "one belief, hand it over as a row: beliefs=[[0.5, 0.5]]."
        )
    if node_count(states, int(beliefs) - 1) > 10_000:
        raise EstimationError(
            f"{beliefs} beliefs an edge make {node_count(states, int(beliefs) - 1):,} priors on "
            f"{states} hidden states, and as many fits. Use fewer, or rows of your own."
        )
    return nodes(states, int(beliefs) - 1)


def _lengths(periods: int | Sequence[int] | None, skip: int, panel: Panel) -> list[int]:
    """The numbers of periods, longest first."""
    T = panel.z.shape[1]
    if periods is None:
        asked = [T]
    else:
        asked = [periods] if isinstance(periods, int | np.integer) else list(periods)
    bad = [k for k in asked if not (isinstance(k, int | np.integer) and skip < k <= T)]
    if skip < 0 or bad or not asked:
        raise EstimationError(
            f"periods must be whole numbers above skip={skip} (zero or more) and at most {T}, the "
            f"length of the panel, but they are {periods}."
        )
    return sorted({int(k) for k in asked}, reverse=True)


def _groups(
    model: Model, panel: Panel, means: Means, each: Sequence[Candidate]
) -> dict[str, tuple[str, ...]]:
    """Entries of dynamics and rewards; before any long work, what no fit could serve is refused."""
    for k, candidate in enumerate(each):
        if candidate.kind == ASSUMED and k > 0 and each[k - 1].kind == ASSUMED:
            continue  # one of them stands for all
        setting = Setting(model, panel, candidate.prior, means.grid, None, means.estimator)
        likelihood, restrictions = prepare(setting, means.fixed, (), ())
        means.estimator.check(likelihood, restrictions)
    own = model.space().parameters
    leaves = dict(zip(("dynamics", "rewards"), split_leaves(likelihood), strict=True))
    return {
        group: tuple(e for n in names if n in own for e in own[n].entry_names(n).flat)
        for group, names in leaves.items()
        if any(n in own for n in names)
    }


def _next_start(fits: Sequence[PriorFit], length: int, *, by_stages: bool) -> Theta:
    """Where the next shorter panel starts from."""
    alive = [one for one in fits if one.theta is not None and one.candidate.kind != BESIDE]
    if not alive:
        raise EstimationError(f"with {length} periods no prior has a likelihood: {fits[0].reason}")
    first = alive[0]
    if first.candidate.kind != KNOWN:
        value = lambda one: (one.converged, one.llf_observation if by_stages else one.llf)
        first = max(alive, key=value)
    assert first.theta is not None
    return first.theta


def _table(
    found: Sequence[tuple[int, Sequence[PriorFit]]], labels: Sequence[str], names: Sequence[str]
) -> pd.DataFrame:
    rows = []
    for length, fits in found:
        for one in fits:
            x0 = np.full(len(labels), np.nan) if one.x0 is None else one.x0
            rows.append(
                {"periods": length, "kind": one.candidate.kind, "prior": one.candidate.name}
                | {f"x0({s})": float(p) for s, p in zip(labels, x0, strict=True)}
                | {name: float(one.params.get(name, np.nan)) for name in names}
                | {
                    "llf": one.llf,
                    "llf_observation": one.llf_observation,
                    "converged": one.converged,
                    "reason": one.reason,
                }
            )
    return pd.DataFrame(rows)
