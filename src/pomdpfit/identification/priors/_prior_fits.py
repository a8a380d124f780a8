"""One panel fitted again and again, each time under another prior."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import ConvergenceWarning, EstimationError, Result
from pomdpfit._estimate import Estimate
from pomdpfit._panel import Panel
from pomdpfit._parallel import run_all
from pomdpfit._priors import AbstractPrior, KnownPrior
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import ArrayLike, Float, Theta
from pomdpfit.estimators import fit
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._verdict import curvature
from pomdpfit.inference._few_agents import spanned

ASSUMED, KNOWN, BESIDE = "assumed", "known", "beside"


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A prior to fit under, and what it is called in tables."""

    kind: str
    name: str
    prior: AbstractPrior
    x0: Float[np.ndarray, "S"] | None = None  # where it is one assumed belief for all


@dataclasses.dataclass(frozen=True, eq=False)
class Means:
    """How each fit is made."""

    estimator: AbstractEstimator
    starts: int
    fixed: dict[str, ArrayLike | float]
    grid: AbstractScheme | None
    seed: int


@dataclasses.dataclass(frozen=True, eq=False)
class PriorFit:
    """What one fit has found; `theta` is None where no start had a likelihood."""

    candidate: Candidate
    params: pd.Series
    theta: dict[str, np.ndarray] | None
    x0: Float[np.ndarray, "S"] | None
    llf: float
    llf_observation: float
    converged: bool
    reason: str


def scored_periods(panel: Panel, periods: int, skip: int = 0) -> Panel:
    """The panel with its first `periods` periods scored, but for `skip` of them.

    Arrays keep their shape, so that compiled code serves every length; beliefs are updated in what
    is skipped.
    """
    period = np.broadcast_to(np.arange(panel.z.shape[1]), panel.z.shape)
    mask = (period >= skip) & (period < periods)
    return panel.score(choice=mask, observation=mask)


def candidates(
    assumed: Float[np.ndarray, "k S"],
    known: AbstractPrior | None,
    beside: Sequence[AbstractPrior],
    agents: int,
) -> list[Candidate]:
    """The known prior first, then those assumed, then the rules beside them.

    An assumed x0 is written out for every agent: then what was compiled for the known prior, which
    has a row for each, serves the others too.
    """
    found = [] if known is None else [Candidate(KNOWN, "known", known)]
    for x0 in assumed:
        name = "(" + ", ".join(f"{p:.4g}" for p in x0) + ")"
        found.append(Candidate(ASSUMED, name, KnownPrior(np.tile(x0, (agents, 1))), x0))
    return found + [Candidate(BESIDE, type(prior).__name__, prior) for prior in beside]


def fit_all(
    model: Any,
    panel: Panel,
    each: Iterable[Candidate],
    means: Means,
    start: Theta | None,
    n_jobs: int | None,
    heard: Callable[[int], None],
) -> list[PriorFit]:
    """A fit under each prior, all from the same start; `heard` is told how many are there."""
    tasks = ((one,) for one in each)
    return run_all(_fit_one, (model, panel, means, start), tasks, n_jobs, heard)


def _fit_one(
    model: Any, panel: Panel, means: Means, start: Theta | None, candidate: Candidate
) -> PriorFit:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the table says so
            estimate = fit(
                model,
                panel,
                means.estimator,
                prior=candidate.prior,
                start=start,
                starts=means.starts,
                fixed=means.fixed,
                grid=means.grid,
                seed=means.seed,
                skip_hessian=True,
            )
    except EstimationError as error:
        nothing = pd.Series(dtype=float)
        return PriorFit(candidate, nothing, None, candidate.x0, -np.inf, -np.inf, False, str(error))
    x0, doubt = _estimated_x0(estimate, candidate), _doubt(estimate)
    own = estimate.model.space().parameters
    entries = [e for n, p in own.items() for e in p.entry_names(n).flat if e in estimate.params]
    return PriorFit(
        candidate,
        estimate.params[entries],
        {name: np.asarray(leaf) for name, leaf in estimate.theta.items() if name in own},
        x0,
        estimate.llf,
        estimate.llf_observation,
        doubt == "",
        doubt,
    )


def _doubt(estimate: Estimate) -> str:
    """Why a fit does not count; empty if it does.

    Without second derivatives a flat direction shows in the scores: where no agent has any, the
    entry has stayed at its start, and would pass for an estimate.
    """
    if not estimate.converged:
        return estimate.reason
    information = estimate.information
    if len(information.names) == 0 or not (information.hessian is not None or spanned(estimate)):
        return ""  # scores of no more agents than parameters show nothing
    result, where = curvature(information)
    return "" if result is Result.CONVERGED else f"flat {where} {result.advice()}"


def _estimated_x0(estimate: Estimate, candidate: Candidate) -> Float[np.ndarray, "S"] | None:
    """x0 as assumed, or estimated where it is one parameter; the mean where agents have theirs."""
    if candidate.x0 is not None:
        return candidate.x0
    if estimate.agent_priors is not None:
        return np.asarray(estimate.agent_priors).mean(axis=0)
    own = estimate.model.space().parameters
    extra = [leaf for name, leaf in estimate.theta.items() if name not in own]
    return np.asarray(extra[0]) if len(extra) == 1 else None
