"""Priors of parameters: NumPyro distributions, one for each parameter that is free.

The prior of `pf.Likelihood`, the belief x0 with which agents start, is another thing (and, with
`pf.CommonPrior`, a parameter that has a prior of this kind).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pomdpfit._constraints import Interval, Positive, Simplex
from pomdpfit._errors import EstimationError, ModelError
from pomdpfit._optional import import_extra
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._precision import in_float64

_WIDE = 10.0
_FAR = (-30.0, 0.0, 30.0)  # on the real line, onto which a prior's support is mapped


def require_numpyro() -> Any:
    """NumPyro, or an error that names the extra."""
    return import_extra("numpyro", "bayes", "a posterior")


@in_float64
def default_priors(space: ParameterSpace) -> dict[str, Any]:
    """One distribution for each free parameter, by its constraint.

    Simplex   Dirichlet(1, ..., 1) for each row: uniform
    Interval  Uniform(low, high)
    Positive  HalfNormal(10 u), u = max(1, |example|): the unit is read off the model's example
    Real      Normal(0, 10 u)
    """
    require_numpyro()
    return {name: _default(space.parameters[name]) for name in space.free_leaves}


def _default(p: Parameter) -> Any:
    import numpyro.distributions as dist

    constraint, shape = p.constraint, p.shape
    unit = _WIDE * np.maximum(1.0, np.abs(np.asarray(p.value)))
    if isinstance(constraint, Simplex):
        rows = dist.Dirichlet(np.ones(shape[-1]))
        return rows.expand(shape[:-1]).to_event(len(shape) - 1)
    if isinstance(constraint, Interval):
        each = dist.Uniform(np.full(shape, constraint.low), np.full(shape, constraint.high))
    elif isinstance(constraint, Positive):
        each = dist.HalfNormal(unit)
    else:
        each = dist.Normal(np.zeros(shape), unit)
    return each.to_event(len(shape))


def checked_priors(space: ParameterSpace, priors: Mapping[str, Any]) -> dict[str, Any]:
    """A prior for every free parameter, of its shape and inside its constraint."""
    if not isinstance(priors, Mapping):
        raise EstimationError(
            f"priors must map parameters to NumPyro distributions, not be a {type(priors).__name__}"
            ". (The belief that agents start with is the argument prior.)"
        )
    if not space.free_leaves:
        raise EstimationError("every parameter is fixed: there is nothing to sample.")
    space.require_known(list(priors))
    for name in priors:
        if name not in space.free_leaves:
            raise EstimationError(
                f"{name!r} is fixed and takes no prior: let it go with free=[{name!r}]."
            )
    chosen = {**default_priors(space), **priors}
    return {name: _fitted(name, space.parameters[name], chosen[name]) for name in space.free_leaves}


def _fitted(name: str, p: Parameter, prior: Any) -> Any:
    """The prior in the shape of its parameter, or an error."""
    import numpyro.distributions as dist

    if not isinstance(prior, dist.Distribution):
        raise EstimationError(
            f"the prior of {name!r} must be a NumPyro distribution, not {prior!r}."
        )
    if prior.is_discrete:
        raise EstimationError(f"the prior of {name!r} must be continuous: NUTS needs its gradient.")
    whole = tuple(prior.batch_shape) + tuple(prior.event_shape)
    if whole != p.shape:
        lead = p.shape[: len(p.shape) - len(prior.event_shape)]
        if prior.batch_shape or lead + tuple(prior.event_shape) != p.shape:
            raise EstimationError(
                f"the prior of {name!r} has shape {whole}, but the parameter has {p.shape}."
            )
        prior = prior.expand(lead)
    prior = prior.to_event(len(prior.batch_shape))
    _refuse_outside(name, p, prior)
    return prior


def _refuse_outside(name: str, p: Parameter, prior: Any) -> None:
    """Look at the far ends of the support: a prior must not reach where the parameter cannot be."""
    from numpyro.distributions import biject_to

    transform = biject_to(prior.support)
    for far in _FAR:
        value = np.asarray(transform(np.full(transform.inverse_shape(p.shape), far)))
        try:
            p.constraint.check(value, p.entry_names(name))
        except ModelError as error:
            raise EstimationError(
                f"the prior of {name!r} reaches values that the parameter cannot have: {error}"
            ) from error
