"""How many hidden states: |S| = 1, 2, 3, ... compared by every means there is.

AIC, BIC, the likelihood of agents that were left out, and a likelihood ratio whose law is
simulated. |S| = 1 is the MDP, so this is also the test of the MDP against the POMDP.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._panel import Panel
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.identification.states._state_choice import StateChoice, StatesCost
from pomdpfit.identification.states._state_fits import MISSED
from pomdpfit.identification.states._state_plan import GridOf, ModelOf, PriorOf, make_plan
from pomdpfit.identification.states._state_work import (
    begin,
    bootstrap_pvalue,
    cross_validate,
    first_part_ratio,
    simulate_ratios,
)


@long_running
def choose_states(
    model: ModelOf,
    panel: Panel,
    *,
    states: Sequence[int] = (1, 2, 3),
    prior: PriorOf | None = None,
    estimator: AbstractEstimator | None = None,
    grid: GridOf | None = None,
    starts: int = 5,
    folds: int = 5,
    bootstrap: int = 99,
    alpha: float = 0.05,
    every: bool = False,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> StateChoice:
    """Fit |S| = 1, 2, 3, ... hidden states to a panel and compare them.

    model      from a number of states to a model: lambda k: EngineReplacement(conditions=k)
    prior      from a number of states to a prior; CommonPrior by default, none for one state
    grid       from a number of states to a belief grid
    estimator  pf.Joint() by default
    starts     points each fit with hidden states starts from, beside the smaller estimate with
               each of its states split in two
    folds      groups of agents, each left out once; 0 for none
    bootstrap  panels simulated at k states, on which k and k + 1 are fitted; 0 for none
    alpha      the test goes up from the smallest |S| and stops where p > alpha, unless `every`
    n_jobs     processes for folds and simulated panels, as in `bootstrap`

    The cost of folds and bootstrap is told to `progress` before they begin, and is in `cost`;
    `pf.states_cost` gives it alone.
    """
    tell = callback(progress)
    if not 0 < alpha < 1 or (bootstrap and bootstrap + 1 < 1 / alpha - 1e-9):
        raise EstimationError(
            f"with bootstrap={bootstrap} the smallest p-value is 1 / {bootstrap + 1}, which alpha="
            f"{alpha:g} cannot reject: simulate at least 1 / alpha - 1 panels."
        )
    plan = make_plan(
        model, panel, states, prior, estimator, grid, starts, folds, bootstrap, seed, n_jobs
    )
    begun = begin(plan, tell)
    cv, doubts = cross_validate(plan, begun, tell)
    lr = simulate_ratios(plan, begun, alpha, every, tell)
    table = _table(begun.estimates, cv, lr)
    notes = (*begun.notes, *_of_estimates(begun.estimates), *doubts, *_of_ratios(table, lr))
    lr = lr.drop(columns="seconds")
    return StateChoice(table, begun.estimates, lr, cv, begun.cost, alpha, seed, notes)


@long_running
def states_cost(
    model: ModelOf,
    panel: Panel,
    *,
    states: Sequence[int] = (1, 2, 3),
    prior: PriorOf | None = None,
    estimator: AbstractEstimator | None = None,
    grid: GridOf | None = None,
    starts: int = 5,
    folds: int = 5,
    bootstrap: int = 99,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> StatesCost:
    """What `choose_states` would cost: the panel's fits, one fold and one simulated panel timed."""
    tell = callback(progress)
    plan = make_plan(
        model, panel, states, prior, estimator, grid, starts, folds, bootstrap, seed, n_jobs
    )
    return begin(plan, tell).cost


# ---- what is told ------------------------------------------------------------------------------


def _table(estimates: dict[int, Estimate], cv: pd.DataFrame, lr: pd.DataFrame) -> pd.DataFrame:
    """A row for each |S|."""
    rows = {}
    for k, e in estimates.items():
        gain = cv[k] - cv[k - 1] if k in cv and k - 1 in cv else None
        draws = lr.loc[lr["states"] == k, "lr"]
        ratio = 2 * (estimates[k + 1].llf - e.llf) if k + 1 in estimates else np.nan
        rows[k] = {
            "llf": e.llf,
            "parameters": e.df_model,
            "aic": e.aic,
            "bic": e.bic,
            "cv": cv[k].sum() if k in cv else np.nan,
            "cv_se": _total_error(cv[k]) if k in cv else np.nan,
            "cv_gain": gain.sum() if gain is not None else np.nan,
            "cv_gain_se": _total_error(gain) if gain is not None else np.nan,
            "lr": ratio,
            "p_value": bootstrap_pvalue(draws, ratio) if len(draws) else np.nan,
            "converged": e.converged,
            "ended": e.result.name.lower().replace("_", " "),
            "maxima": int(e.modes["converged"].sum()),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("states")


def _total_error(terms: pd.Series) -> float:
    """The standard error of a sum over agents."""
    return float(np.sqrt(len(terms)) * terms.std()) if np.isfinite(terms).all() else np.nan


def _of_estimates(estimates: dict[int, Estimate]) -> tuple[str, ...]:
    """Fits that did not converge, and maxima that were missed."""
    notes = [
        f"The fit with {k} states is no proper maximum ({e.result.name.lower()}): {e.reason}"
        for k, e in estimates.items()
        if not e.converged
    ]
    if next(iter(estimates.values())).setting.estimator.by_stages:
        notes.append(
            "Two-stage estimates do not maximise the whole likelihood: a ratio may be negative, "
            "and AIC and BIC are only approximate. The bootstrap p-value holds all the same."
        )
    for k, e in estimates.items():
        if k + 1 in estimates and first_part_ratio(e, estimates[k + 1]) < MISSED:
            notes.append(
                f"MISSED MAXIMUM: {k + 1} states have a lower log-likelihood than {k}, which "
                "cannot be: a higher maximum was not found, even from twice as many starts. Raise "
                f"starts; what is said of {k + 1} states is not to be used."
            )
    return tuple(notes)


def _of_ratios(table: pd.DataFrame, lr: pd.DataFrame) -> tuple[str, ...]:
    """Simulated panels whose fits failed or did not converge, and what they could change."""
    notes = []
    for k in lr["states"].unique():
        rows = lr[lr["states"] == k]
        lost, doubtful = rows["lr"].isna(), ~rows["converged"].astype(bool)
        if lost.any():
            above = (rows["lr"] >= table["lr"][k]).sum() + lost.sum()
            worst = (1 + above) / (len(rows) + 1)
            notes.append(
                f"{int(lost.sum())} of {len(rows)} panels simulated with {k} states could not be "
                f"fitted and do not count; if all of them did, against {k}, p would be {worst:.3f}."
            )
        if (doubtful & ~lost).any():
            why = rows.loc[doubtful & ~lost, "reason"].value_counts()
            told = ", ".join(f"{n} {reason}" for reason, n in why.items())
            notes.append(f"Of the panels simulated with {k} states, counted all the same: {told}.")
    return tuple(notes)
