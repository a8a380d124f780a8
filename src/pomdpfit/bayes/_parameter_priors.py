"""Priors of parameters: NumPyro distributions, one for each parameter that is free.

The prior of `pf.Likelihood`, the belief x0 with which agents start, is another thing (and, with
`pf.CommonPrior`, a parameter that has a prior of this kind).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pomdpfit._constraints import Interval, Positive, Simplex
from pomdpfit._errors import EstimationError, ModelError
from pomdpfit._estimate import Estimate
from pomdpfit._optional import import_extra
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._precision import in_float64

_WIDE = 10.0  # in units of an estimate and its standard error
_FAR = (-30.0, 0.0, 30.0)  # on the real line, onto which a prior's support is mapped


def require_numpyro() -> Any:
    """NumPyro, or an error that names the extra."""
    return import_extra("numpyro", "bayes", "a posterior")


@in_float64
def default_priors(
    space: ParameterSpace, estimate: Estimate | None = None, fixed_entries: Sequence[str] = ()
) -> dict[str, Any]:
    """One distribution for each free parameter, by its constraint.

    Simplex   Dirichlet(1, ..., 1) for each row: uniform
    Interval  Uniform(low, high)
    Positive  HalfNormal(10 u), u = sqrt(estimate^2 + standard error^2), entry by entry
    Real      Normal(0, 10 u)

    The data give the last two their scale and nothing else. As it is ten standard errors or more,
    and ten times the estimate, each entry so scaled moves a posterior mean by at most 0.005
    standard errors and a standard deviation by at most 0.5 percent (for a normal likelihood).
    Without an estimate, or a standard error, there is no such scale, and no default.

    `fixed_entries` are entries that are not estimated: their prior is without influence.
    """
    require_numpyro()
    return {
        name: _default(name, space.parameters[name], estimate, fixed_entries)
        for name in space.free_leaves
    }


def has_scale(p: Parameter) -> bool:
    """Whether its default prior needs a scale: its range is not bounded on both sides."""
    return not isinstance(p.constraint, Simplex | Interval)


def _default(
    name: str, p: Parameter, estimate: Estimate | None, fixed_entries: Sequence[str]
) -> Any:
    import numpyro.distributions as dist

    constraint, shape = p.constraint, p.shape
    if isinstance(constraint, Simplex):
        rows = dist.Dirichlet(np.ones(shape[-1]))
        return rows.expand(shape[:-1]).to_event(len(shape) - 1)
    if isinstance(constraint, Interval):
        each = dist.Uniform(np.full(shape, constraint.low), np.full(shape, constraint.high))
        return each.to_event(len(shape))
    scale = _WIDE * _units(name, p, estimate, fixed_entries)
    if isinstance(constraint, Positive):
        each = dist.HalfNormal(scale)
    else:
        each = dist.Normal(np.zeros(shape), scale)
    return each.to_event(len(shape))


def _units(
    name: str, p: Parameter, estimate: Estimate | None, fixed_entries: Sequence[str]
) -> np.ndarray:
    """sqrt(estimate^2 + standard error^2) of each entry; one for those that are fixed."""
    entries = p.entry_names(name)
    free = ~np.isin(entries, list(fixed_entries))
    why = "there is no estimate to take it from"
    units = np.where(free, np.nan, 1.0)
    if estimate is not None and not estimate.converged:
        why = f"the fit has not converged ({estimate.reason})"
    elif estimate is not None:
        why = "the estimate has no standard error there (it is on a bound, or not identified)"
        errors = estimate.standard_errors(plain_kind(estimate)).reindex(entries.ravel()).to_numpy()
        values = estimate.params.reindex(entries.ravel()).to_numpy()
        units = np.where(free, np.hypot(values, errors).reshape(p.shape), units)
    unknown = ~np.isfinite(units)
    if unknown.any():
        raise EstimationError(
            f"{', '.join(entries[unknown])} has no default prior: its scale would be that of an "
            f"estimate and its standard error, but {why}. Give a prior of your own: "
            f"priors={{{name!r}: numpyro.distributions.{_example_of(p)}}}."
        )
    return units


def plain_kind(estimate: Estimate) -> str:
    """The covariance that is closest to a posterior's: no sandwich."""
    return "opg" if estimate.information.hessian is None else "hessian"


def _example_of(p: Parameter) -> str:
    return "HalfNormal(...)" if isinstance(p.constraint, Positive) else "Normal(..., ...)"


def checked_priors(
    space: ParameterSpace,
    priors: Mapping[str, Any],
    estimate: Estimate | None = None,
    fixed_entries: Sequence[str] = (),
) -> dict[str, Any]:
    """A prior for every free parameter, of its shape and inside its constraint."""
    given = check_given(space, priors)
    rest = space.only(name for name in space.free_leaves if name not in given)
    chosen = {**default_priors(rest, estimate, fixed_entries), **given}
    return {name: chosen[name] for name in space.free_leaves}


def check_given(space: ParameterSpace, priors: Mapping[str, Any]) -> dict[str, Any]:
    """The priors that were given, in the shapes of their parameters, or an error."""
    require_numpyro()
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
    return {name: _fitted(name, space.parameters[name], prior) for name, prior in priors.items()}


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


def prior_moments(p: Parameter, prior: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each entry; not a number where there are none."""
    try:
        mean, variance = np.asarray(prior.mean), np.asarray(prior.variance)
    except (NotImplementedError, AttributeError):
        return np.full(p.shape, np.nan), np.full(p.shape, np.nan)
    finite = np.isfinite(mean) & np.isfinite(variance)
    return np.where(finite, mean, np.nan), np.sqrt(np.where(finite, variance, np.nan))


def prior_texts(p: Parameter, prior: Any) -> np.ndarray:
    """The prior of each entry in words, such as Normal(0, 25); a Dirichlet stands with its row."""
    import numpyro.distributions as dist

    while isinstance(prior, dist.Independent | dist.ExpandedDistribution):
        prior = prior.base_dist
    texts = np.full(p.shape, type(prior).__name__, dtype=object)
    arguments = [getattr(prior, argument, None) for argument in prior.arg_constraints]
    row = isinstance(prior, dist.Dirichlet)
    if any(value is None for value in arguments) or (prior.event_dim and not row):
        return texts
    each = [np.broadcast_to(np.asarray(value, dtype=float), p.shape) for value in arguments]
    for index in np.ndindex(p.shape):
        numbers = each[0][index[:-1]] if row else [value[index] for value in each]
        texts[index] += f"({', '.join(f'{number:.4g}' for number in numbers)})"
    return texts
