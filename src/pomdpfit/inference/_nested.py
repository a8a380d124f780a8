"""Whether one fit is a special case of another: more is held, shared or known, or less hidden."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import fingerprint, prior_fingerprint
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AgentPriors, CommonPrior, KnownPrior
from pomdpfit._types import ArrayLike, Float
from pomdpfit.baselines import BusEngine
from pomdpfit.models.engine_replacement import EngineReplacement
from pomdpfit.models.grouped import Grouped
from pomdpfit.models.tabular import Tabular

_ZERO = 1e-12  # of an equation that holds by itself


def same_model(first: Estimate, second: Estimate) -> bool:
    """Whether both are of one model and one prior, known or not: code is never stored.

    A model of one's own that was not handed over is known by the fingerprint that `fit` took of
    it; a fit that was saved without one by its parameters.
    """
    if _prior(first) != _prior(second):
        return False
    marks = {_mark(first), _mark(second)}
    return len(marks) == 1 or ("" in marks and same_parameters(first, second))


def same_parameters(first: Estimate, second: Estimate) -> bool:
    """Whether both have the same parameters, whatever is held or estimated."""
    return _described(first.space) == _described(second.space)


def nested(small: Estimate, large: Estimate) -> bool:
    """Whether `small` is `large` under linear restrictions that hold or fix some parameters.

    Both are of one model, but that in `small` the discount may be another, groups may share what
    they have of their own in `large`, and a new engine's law or the common prior may be known.
    """
    if small.df_model >= large.df_model:
        return False
    image = _image(small, large)
    if image is None:
        return False
    held, more = _equations(large), _equations(small)
    R, q = held[:, :-1], held[:, -1]
    # What the large one holds, in the parameters of the small one: R (E theta + e) = q.
    held = np.column_stack([R @ image[:, :-1], q - R @ image[:, -1]])
    held = held[np.abs(held).max(axis=1, initial=0.0) > _ZERO]
    # It follows from what the small one holds if it adds no rank.
    return _rank(more) == _rank(np.vstack([more, held]))


def same_restrictions(first: Estimate, second: Estimate) -> bool:
    """Whether two fits of one model hold the same parameters, at the same values."""
    one, other = _equations(first), _equations(second)
    return _rank(one) == _rank(other) == _rank(np.vstack([one, other]))


def without_chi_square(small: Estimate, large: Estimate) -> str:
    """Why a special case has a likelihood ratio without a chi-square law; empty if it is none."""
    if _fewer_states(small, large):
        return (
            "it has fewer hidden states, and where these suffice the parameters of the others are "
            "not identified, so that the likelihood ratio is not chi-square either. "
            "pf.choose_states simulates its law; pf.compare ranks by AIC and BIC"
        )
    if _own_priors_alone(small, large):
        return (
            "a prior of each agent's own holds every other, and there are as many of them as "
            "agents, so that the likelihood ratio is not chi-square either. pf.compare ranks by "
            "AIC and BIC"
        )
    return ""


def _own_priors_alone(small: Estimate, large: Estimate) -> bool:
    """Whether `large` is the same model with a prior of each agent's own, and holds no more."""
    priors = [isinstance(e.setting.prior, AgentPriors) for e in (small, large)]
    if priors != [False, True] or _mark(small) != _mark(large) or large.restrictions:
        return False
    held = [name for name, p in large.space.parameters.items() if p.fixed]
    return all(
        small.space.parameters[name].fixed and np.array_equal(small.theta[name], large.theta[name])
        for name in held
    )


def values_on_bounds(small: Estimate, large: Estimate) -> list[str]:
    """Entries that `large` estimates and that a special case of it puts on their bounds."""
    values = small.space.to_series(small.theta).to_dict()
    for name, belief in (_known_prior(small, large) or {}).items():
        names = large.space.parameters[name].entry_names(name).ravel()
        values |= dict(zip(names, np.ravel(belief), strict=True))
    ends = large._bounds().items()
    return [n for n, between in ends if values.get(n) in between and n not in small.boundary]


def _image(small: Estimate, large: Estimate) -> Float[np.ndarray, "n m+1"] | None:
    """E and e with theta_large = E theta_small + e wherever `small` is; None if there is none."""
    known = _known_prior(small, large)
    apart = _kept_apart(small, large)
    if known is None or apart is None:
        return None
    own, law = apart
    known |= law | {name: large.theta[name] for name in large.space.covariates}
    count, at, start = len(small.space.names), {}, 0
    for name, p in small.space.parameters.items():
        size = int(np.prod(p.shape))
        at[name] = np.arange(start, start + size).reshape(p.shape)
        start += size
    blocks = []
    for name, p in large.space.parameters.items():
        block = np.zeros((int(np.prod(p.shape)), count + 1))
        if name in at and at[name].shape == (p.shape[1:] if name in own else p.shape):
            block[np.arange(len(block)), np.broadcast_to(at[name], p.shape).ravel()] = 1.0
        elif name in known:
            block[:, -1] = np.ravel(known[name])
        else:
            return None
        blocks.append(block)
    return np.vstack(blocks)


def _known_prior(small: Estimate, large: Estimate) -> dict[str, ArrayLike] | None:
    """What a prior of `small` fixes of that of `large`; None if the one is no case of the other."""
    if _prior(small) == _prior(large):
        return {}
    belief = _one_belief(small)
    if isinstance(large.setting.prior, CommonPrior) and belief is not None:
        return {large.setting.prior.name: belief}
    return None


def _one_belief(estimate: Estimate) -> Float[np.ndarray, "S"] | None:
    """The known prior that all agents have."""
    prior = estimate.setting.prior
    if not isinstance(prior, KnownPrior):
        return None
    belief = prior.belief
    given = list(belief.values()) if isinstance(belief, Mapping) else belief
    rows = np.atleast_2d(np.asarray(given, dtype=float))
    return rows[0] if (rows == rows[0]).all() else None


def _kept_apart(small: Estimate, large: Estimate) -> tuple[set, dict[str, ArrayLike]] | None:
    """Parameters that groups of `large` alone have of their own, and what `small` knows of it."""
    marks = {_mark(small), _mark(large)}
    if len(marks) == 1 or ("" in marks and same_parameters(small, large)):
        return set(), {}
    less, more, own = small.model, large.model, set()
    if isinstance(more, Grouped):
        own = set(more.own)
        if isinstance(less, Grouped):
            if less.groups != more.groups:
                return None
            own -= set(less.own)
            less = less.model
        more = more.model
    law: dict[str, ArrayLike] = {}
    if type(less) is type(more) is EngineReplacement and (less.new, more.new) == ("good", "free"):
        law, more = {"new": np.eye(more.conditions)[0]}, _with(more, new="good")
    if less is None or more is None or type(less) is not type(more):
        return None
    if hasattr(less, "default_discount"):
        less, more = (_with(model, default_discount=0.0) for model in (less, more))
    return (own, law) if fingerprint(less) == fingerprint(more) else None


def _with(model: Any, **fields: Any) -> Any:
    """A copy with other values of some fields, to be compared and not solved."""
    model = copy.copy(model)
    for name, value in fields.items():
        object.__setattr__(model, name, value)
    return model


def _fewer_states(small: Estimate, large: Estimate) -> bool:
    """Whether `small` is a ready model with fewer hidden states, for which `large` has room."""
    one, other = _family(small.model), _family(large.model)
    if one is None or other is None or one[0] != other[0] or one[1] >= other[1]:
        return False
    hidden = {"stay", "condition", "new"} if one[1] == 1 else set()
    held = {name for name, p in large.space.parameters.items() if p.fixed} - hidden
    if large.restrictions or held - {"discount"}:
        return False
    discounts = [e.space.parameters["discount"] for e in (small, large)]
    if discounts[1].fixed:
        values = [float(e.theta["discount"]) for e in (small, large)]
        if not discounts[0].fixed or values[0] != values[1]:
            return False
    if one[1] == 1 or isinstance(large.setting.prior, CommonPrior | AgentPriors):
        return True
    x0 = [_one_belief(e) for e in (small, large)]
    if x0[0] is None or x0[1] is None:
        return False
    return np.array_equal(np.pad(x0[0], (0, len(x0[1]) - len(x0[0]))), x0[1])


def _family(model: Any) -> tuple[tuple, int] | None:
    """What a ready model shares with others that differ in their hidden states; how many it has."""
    if type(model) is BusEngine:
        return ("engine", model.bins, model.increments, model.reset, "collect"), 1
    if type(model) is EngineReplacement:
        return ("engine", model.bins, model.increments, model.reset, model.top), model.conditions
    if type(model) is Tabular:
        return ("tabular", model.observations, model.actions), model.states
    return None


def _mark(estimate: Estimate) -> str:
    """The fingerprint of the model at hand, or that of the fit where there is none."""
    if estimate.model is None:
        return estimate.model_mark
    return fingerprint(estimate.model)


def _prior(estimate: Estimate) -> str:
    return prior_fingerprint(estimate.setting.prior, estimate.panel)


def _described(space: ParameterSpace) -> dict[str, tuple]:
    return {name: (p.shape, p.constraint, p.labels) for name, p in space.parameters.items()}


def _equations(estimate: Estimate) -> Float[np.ndarray, "m n+1"]:
    """Rows (R, q) with R theta = q: leaves and entries that are held, ties, rows that sum to 1."""
    space = estimate.space
    unit, values = np.eye(len(space.names)), space.to_series(estimate.theta).to_numpy()
    fixed = [space.parameters[name].fixed for name in space.owners]
    blocks = [np.column_stack([unit[fixed], values[fixed]])]
    start = 0
    for parameter in space.parameters.values():
        size = int(np.prod(parameter.shape))
        for row in parameter.constraint.sums(parameter.shape):
            blocks.append(np.append(unit[start + row].sum(axis=0), 1.0)[None])
        start += size
    parsed = estimate.parsed_restrictions
    if parsed is not None:
        blocks.append(np.column_stack([parsed.matrix, parsed.value]))
    return np.vstack(blocks)


def _rank(rows: Float[np.ndarray, "m n"]) -> int:
    """With rows of one length: an equation means the same in any units."""
    return int(np.linalg.matrix_rank(rows / np.linalg.norm(rows, axis=1, keepdims=True)))
