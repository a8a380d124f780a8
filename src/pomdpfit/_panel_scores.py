"""The log-likelihood of a panel and its scores at one theta, as functions."""

import warnings

import pandas as pd

from pomdpfit._errors import ConvergenceWarning
from pomdpfit._evaluate import Likelihood
from pomdpfit._log_likelihood import COARSE_PRIOR, LogLikelihood
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AbstractPrior
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Theta
from pomdpfit.solvers import AbstractSolver


def log_likelihood(
    model: Model,
    theta: Theta,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
) -> LogLikelihood:
    """The log-likelihood of a panel at theta, by agent and period."""
    found = Likelihood(model, panel, prior=prior, grid=grid, solver=solver)(theta)
    if found.prior_error is not None and found.prior_error > COARSE_PRIOR:
        warnings.warn(
            "the grid behind pf.StationaryPrior is coarse: with half its cells the first belief of "
            f"an agent changes by {found.prior_error:.1e}. Give it more nodes.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found


def score(
    model: Model,
    theta: Theta,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    space: ParameterSpace | None = None,
) -> pd.Series:
    """The gradient of the log-likelihood in the free natural parameters."""
    likelihood = Likelihood(model, panel, prior=prior, grid=grid, solver=solver, space=space)
    return likelihood.gradient(theta)[1]


def score_obs(
    model: Model,
    theta: Theta,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    space: ParameterSpace | None = None,
) -> pd.DataFrame:
    """Each agent's contribution to the score: one row an agent, one column a free parameter."""
    likelihood = Likelihood(model, panel, prior=prior, grid=grid, solver=solver, space=space)
    return likelihood.scores(theta)[1]
