"""Where a counterfactual sets out from: a model, theta, and agents with their first beliefs."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pomdpfit._errors import EstimationError, ModelError
from pomdpfit._estimate import Estimate
from pomdpfit._model import Model, require_model
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AbstractPrior, CommonPrior, KnownPrior, labels_of, prior_or_default
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import ArrayLike, Float, Int, Theta
from pomdpfit.counterfactuals._information import Starts
from pomdpfit.counterfactuals._wrapped import sizes


@dataclasses.dataclass(frozen=True, eq=False)
class Baseline:
    """A model at theta, the error of theta if it was estimated, and where agents start.

    With a prior that is a parameter, first beliefs move with theta; else they are `x0`.
    """

    model: Model
    theta: dict[str, Any]
    space: ParameterSpace
    estimate: Estimate | None
    grid: AbstractScheme | None
    z0: Int[np.ndarray, "m"]
    x0: Float[np.ndarray, "m S"]
    weight: Float[np.ndarray, "m"]
    common: CommonPrior | None = None

    def starts(self, theta: Theta) -> Starts:
        """First observations and beliefs at theta."""
        if self.common is None:
            return Starts(self.z0, self.x0, self.weight)
        x = np.broadcast_to(np.asarray(theta[self.common.name]), self.x0.shape)
        return Starts(self.z0, x, self.weight)


def read_baseline(
    source: Estimate | Model,
    at: Theta | None,
    z0: ArrayLike | int | None,
    prior: AbstractPrior | None,
    grid: AbstractScheme | None,
) -> Baseline:
    """The baseline of an estimate, or of a model `at` a theta, after all checks."""
    if isinstance(source, Estimate):
        return _of_estimate(source, at, z0, prior, grid)
    if not isinstance(source, Model | type):
        raise ModelError(
            "a counterfactual needs an estimate or a pf.Model, not "
            f"{type(source).__name__}. A fully observed bus is "
            "pf.models.EngineReplacement(conditions=1)."
        )
    require_model(source)
    if at is None:
        raise ModelError("a model needs its parameters: at=theta, for example at=model.example().")
    Z, S, _ = sizes(source)
    prior = prior_or_default(prior, S)
    space = source.space() | prior.space(labels_of(source, S))
    theta = space.check(at)
    z = _observations(0 if z0 is None else z0, Z)
    return _baseline(source, dict(theta), space, None, grid, z, prior, S)


def _of_estimate(
    estimate: Estimate,
    at: Theta | None,
    z0: ArrayLike | int | None,
    prior: AbstractPrior | None,
    grid: AbstractScheme | None,
) -> Baseline:
    model = estimate.model
    if model is None:
        raise EstimationError("a counterfactual needs the model: pf.load(path, model=model).")
    if not isinstance(model, Model):
        raise EstimationError(
            f"{type(model).__name__} is a fully observed baseline with a solver of its own: fit "
            "pf.models.EngineReplacement(conditions=1), or a pf.Model with one hidden state."
        )
    Z, S, _ = sizes(model)
    theta = {**estimate.theta, **_covariates(estimate.space, at)}
    theta = dict(estimate.space.check(theta))
    if estimate.space.covariates and z0 is None:
        raise ModelError("a model with covariates needs to be told where agents start: z0=...")
    grid = estimate.setting.grid if grid is None else grid
    z = estimate.panel.z[:, 0] if z0 is None else _observations(z0, Z)
    if prior is None and z0 is None:
        prior = estimate.setting.prior
        if not isinstance(prior, KnownPrior | CommonPrior):
            prior = KnownPrior(estimate.log_likelihood().belief[:, 0])
    elif prior is None:
        prior = prior_or_default(_shared(estimate.setting.prior), S)
    if isinstance(prior, KnownPrior) and isinstance(prior.belief, Mapping):
        prior = KnownPrior(np.asarray(prior.data(estimate.panel.agents, S)))
    return _baseline(model, theta, estimate.space, estimate, grid, z, prior, S)


def _baseline(  # the parts, with starts that occur more than once counted
    model: Model,
    theta: dict[str, Any],
    space: ParameterSpace,
    estimate: Estimate | None,
    grid: AbstractScheme | None,
    z: Int[np.ndarray, "N"],
    prior: AbstractPrior,
    states: int,
) -> Baseline:
    if isinstance(prior, CommonPrior) and prior.name not in theta:
        raise ModelError(f"theta lacks the prior's parameter {prior.name!r}.")
    x = np.asarray(prior.beliefs(theta, prior.data(range(len(z)), states)))
    rows = np.column_stack([z, np.broadcast_to(x, (len(z), states))])
    _, first, count = np.unique(rows, axis=0, return_index=True, return_counts=True)
    common = prior if isinstance(prior, CommonPrior) else None
    parts = z[first], rows[first, 1:], count / len(z)
    return Baseline(model, theta, space, estimate, grid, *parts, common)


def _shared(prior: AbstractPrior | None) -> AbstractPrior | None:
    """The estimate's prior where it says the same of every agent."""
    if isinstance(prior, CommonPrior):
        return prior
    if isinstance(prior, KnownPrior) and not isinstance(prior.belief, Mapping):
        return prior if np.ndim(prior.belief) == 1 else None
    return None


def _covariates(space: ParameterSpace, at: Theta | None) -> dict[str, ArrayLike]:
    """The values of covariates, each of which must be given."""
    at = {} if at is None else dict(at)
    other = [name for name in at if name not in space.covariates]
    if other:
        raise ModelError(
            f"an estimate brings its own parameters: at= is for covariates alone, not {other[0]!r}."
        )
    missing = [name for name in space.covariates if name not in at]
    if missing:
        raise ModelError(
            f"this model reads the covariate {missing[0]!r}: say at which value, as in "
            f"at={{{missing[0]!r}: 0.0}}."
        )
    return {name: np.asarray(value, dtype=float) for name, value in at.items()}


def _observations(z0: ArrayLike | int, observations: int) -> Int[np.ndarray, "m"]:
    z = np.atleast_1d(np.asarray(z0))
    if z.ndim != 1 or not len(z) or not np.issubdtype(z.dtype, np.integer):
        raise ModelError(f"z0 must be an observation or a list of them, not {z0!r}.")
    if z.min() < 0 or z.max() >= observations:
        bad = z.min() if z.min() < 0 else z.max()
        raise ModelError(f"z0 must lie in 0..{observations - 1}, but it is {bad}.")
    return z
