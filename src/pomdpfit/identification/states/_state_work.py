"""The work of `choose_states`: fits to the panel, its cost foretold, folds, simulated panels."""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pomdpfit._engine import find_engine
from pomdpfit._estimate import Estimate
from pomdpfit._parallel import run_all
from pomdpfit._progress import Progress
from pomdpfit.identification.states._split_state import Split
from pomdpfit.identification.states._state_choice import StatesCost
from pomdpfit.identification.states._state_fits import (
    MISSED,
    fit_states,
    held_out,
    replicate,
    splits_of,
)
from pomdpfit.identification.states._state_plan import Plan


@dataclasses.dataclass(frozen=True, eq=False)
class Begun:
    """The fits to the panel, the first fold and the first simulated panel of each kind."""

    estimates: dict[int, Estimate]
    folds: dict[int, dict]
    replicates: dict[int, dict]
    cost: StatesCost
    notes: tuple[str, ...]


def begin(plan: Plan, tell: Progress) -> Begun:
    """All fits to the panel, then one fold and one replicate of each kind, timed."""
    began = time.perf_counter()
    estimates, notes = _estimates(plan, tell)
    numbers = list(estimates)
    folds = {k: _fold(plan, estimates[k], 0) for k in numbers} if plan.folds else {}
    replicates = {}
    if plan.bootstrap:
        for k in numbers[:-1]:
            # The first one also compiles what simulates.
            estimates[k].simulate(plan.seed)
            replicates[k] = replicate(estimates[k], estimates[k + 1], plan.starts, 0, plan.seed)
    jobs = find_engine(plan.n_jobs).jobs
    table = _cost(plan, estimates, folds, replicates, jobs)
    cost = StatesCost(table, time.perf_counter() - began, jobs)
    tell(str(cost), 0, cost.fits)
    return Begun(estimates, folds, replicates, cost, notes)


def _cost(
    plan: Plan,
    estimates: dict[int, Estimate],
    folds: dict[int, dict],
    replicates: dict[int, dict],
    jobs: int,
) -> pd.DataFrame:
    """Tasks to come, the fits that each takes, and seconds by the first of each kind."""
    rows = {}
    for k, row in folds.items():
        rows[f"folds, |S| = {k}"] = (len(plan.folds) - 1, 1, row["seconds"])
    for k, row in replicates.items():
        rows[f"bootstrap, {k} against {k + 1}"] = (plan.bootstrap - 1, 2, row["seconds"])
    table = pd.DataFrame.from_dict(rows, "index", columns=["tasks", "fits", "each"])
    table["fits"] *= table["tasks"]
    table["seconds"] = table["tasks"] * table["each"] / jobs
    if jobs != 1:  # every process compiles for itself
        table.loc["compilation"] = [0, 0, 0.0, sum(e.seconds for e in estimates.values())]
    return table


def _estimates(plan: Plan, tell: Progress) -> tuple[dict[int, Estimate], tuple[str, ...]]:
    """The fits to the panel, each started beside the one before."""
    estimates: dict[int, Estimate] = {}
    notes = []
    for done, (k, setting) in enumerate(plan.settings.items()):
        tell("fits to the panel", done, len(plan.settings))
        likelihood = setting.likelihood()
        smaller = estimates.get(k - 1)
        splits: tuple[Split, ...] = ()
        if smaller is not None:
            small = smaller.setting.likelihood(smaller.space)
            splits = splits_of(small, smaller.theta, likelihood)
            if not splits:
                notes.append(
                    f"{k} states could not be started from the estimate with {k - 1}: the models "
                    "are too unlike for a state to be split. Drawn starts alone were used."
                )
        estimate = fit_states(setting, plan.starts.paths(likelihood, splits), plan.seed)
        if smaller is not None and first_part_ratio(smaller, estimate) < MISSED:
            more = plan.starts.more().paths(likelihood, splits)
            again = fit_states(setting, more, plan.seed)
            estimate = max(estimate, again, key=_first_part)
        estimates[k] = estimate
    tell("fits to the panel", len(plan.settings), len(plan.settings))
    return estimates, tuple(notes)


def _first_part(estimate: Estimate) -> float:
    """What a larger model must not have less of: of two stages the first."""
    by_stages = estimate.setting.estimator.by_stages
    return estimate.llf_observation if by_stages else estimate.llf


def first_part_ratio(small: Estimate, large: Estimate) -> float:
    """2 (l_large - l_small), of two stages that of the first."""
    return 2 * (_first_part(large) - _first_part(small))


# ---- agents left out ---------------------------------------------------------------------------


def _fold(plan: Plan, estimate: Estimate, fold: int) -> dict:
    """The maxima of the whole panel are the starts."""
    points = [estimate.space.from_series(row) for _, row in estimate.modes.iterrows()]
    return held_out(estimate, points, plan.folds[fold])


def cross_validate(
    plan: Plan, begun: Begun, tell: Progress
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The held-out log-likelihood of each agent by |S|, and what went wrong."""
    panel = next(iter(plan.settings.values())).panel
    cv = pd.DataFrame(index=pd.Index(panel.agents, name="agent", tupleize_cols=False))
    reasons: list[str] = []
    for k, first in begun.folds.items():
        what, total = f"folds, |S| = {k}", len(plan.folds)
        tell(what, 1, total)
        tasks = ((fold,) for fold in range(1, total))
        heard = lambda done, what=what, total=total: tell(what, done + 1, total)
        shared = (plan, begun.estimates[k])
        rows = [first, *run_all(_fold, shared, tasks, plan.n_jobs, heard)]
        values = np.empty(len(cv))
        for out, row in zip(plan.folds, rows, strict=True):
            values[out] = row["terms"]
        cv[k] = values
        bad = [row["reason"] for row in rows if row["reason"]]
        if bad:
            reasons.append(f"{len(bad)} of {total} folds with {k} states: {bad[0]}.")
    return cv, tuple(reasons)


# ---- simulated panels --------------------------------------------------------------------------


def simulate_ratios(
    plan: Plan, begun: Begun, alpha: float, every: bool, tell: Progress
) -> pd.DataFrame:
    """Simulated likelihood ratios, a row each, up to the first |S| that is not rejected."""
    rows: list[dict] = []
    for k, first in begun.replicates.items():
        what = f"bootstrap, {k} against {k + 1}"
        tell(what, 1, plan.bootstrap)
        shared = (begun.estimates[k], begun.estimates[k + 1], plan.starts)
        tasks = ((b, plan.seed) for b in range(1, plan.bootstrap))
        heard = lambda done, what=what: tell(what, done + 1, plan.bootstrap)
        found = [first, *run_all(replicate, shared, tasks, plan.n_jobs, heard)]
        rows += found
        observed = 2 * (begun.estimates[k + 1].llf - begun.estimates[k].llf)
        if not every and bootstrap_pvalue([row["lr"] for row in found], observed) > alpha:
            break
    columns = ["states", "replicate", "lr", "converged", "reason", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def bootstrap_pvalue(draws: Sequence[float] | pd.Series, observed: float) -> float:
    """(1 + #{LR* >= LR}) / (B + 1) over the draws that there are."""
    known = np.asarray(draws, dtype=float)
    known = known[np.isfinite(known)]
    return float((1 + (known >= observed).sum()) / (len(known) + 1))
