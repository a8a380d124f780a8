"""Label switching: hidden states have no names in the data, only in the model.

Listing the states in another order, P -> P[order][order], r -> r[order], x0 -> x0[order], changes
nothing that is seen. Whether the other order is another theta of the same model is found by
solving for it.
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._model import Model, Primitives
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import CommonPrior, labels_of
from pomdpfit._types import Float
from pomdpfit.identification.rank._evidence import Question
from pomdpfit.identification.rank._primitive_moves import parts

MOST_STATES = 4  # whose orders are tried
_STEPS = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Mirror:
    """The same model with its hidden states in another order, as a theta."""

    order: tuple[str, ...]
    theta: dict[str, np.ndarray]


def mirrors(
    question: Question, beliefs: Float[np.ndarray, "k S"] | None
) -> tuple[Mirror, ...] | None:
    """Every order of the hidden states that is a theta too; None where there are too many to try.

    The order is the same at every observation, and known priors must not change by it.
    """
    model, theta = question.model, question.theta
    own = {name: np.asarray(theta[name], dtype=float) for name in model.parameters()}
    primitives = model.primitives(own)
    S = primitives.states
    if S > MOST_STATES:
        return None
    found = []
    labels = labels_of(model, S)
    for order in itertools.permutations(range(S)):
        if order == tuple(range(S)):
            continue
        if beliefs is not None and np.abs(beliefs[:, list(order)] - beliefs).max() > 1e-12:
            continue
        other = _solve(model, own, question.space, _reordered(primitives, order))
        if other is not None:
            rest = {n: np.asarray(v) for n, v in theta.items() if n not in other}
            if isinstance(question.prior, CommonPrior):
                name = question.prior.name
                rest[name] = rest[name][list(order)]
            found.append(Mirror(tuple(labels[k] for k in order), {**other, **rest}))
    return tuple(found)


def _reordered(primitives: Primitives, order: tuple[int, ...]) -> dict[str, np.ndarray]:
    here = {name: np.asarray(part) for name, part in parts(primitives).items()}
    turn = list(order)
    here["kernel"] = here["kernel"][..., turn, :][..., turn]
    for name in ("reward", "terminal"):
        if name in here:
            here[name] = here[name][:, turn]
    return here


def _solve(
    model: Model, theta: dict[str, np.ndarray], space: ParameterSpace, target: dict
) -> dict[str, np.ndarray] | None:
    """theta with these primitives, by Gauss and Newton's steps; None if there is none nearby."""
    own = space.only(model.parameters())
    available = model.available()

    def gap(vector: jax.Array) -> jax.Array:
        here = parts(model.primitives(own.from_vector(vector, theta)))
        apart = {name: here[name] - target[name] for name in here}
        if available is not None:  # what cannot be chosen does not count
            mask = jnp.asarray(available)
            apart["kernel"] = jnp.where(mask[:, :, None, None, None], apart["kernel"], 0.0)
            apart["reward"] = jnp.where(mask[:, None, :], apart["reward"], 0.0)
        return jnp.concatenate([jnp.ravel(part) for part in apart.values()])

    both = jax.jit(lambda vector: (gap(vector), jax.jacfwd(gap)(vector)))
    vector = np.asarray(own.to_vector(theta))
    for _ in range(_STEPS):
        residual, slope = (np.asarray(part) for part in both(vector))
        if not np.isfinite(slope).all():
            return None
        if np.abs(residual).max() < 1e-10:
            return _checked(own, vector, theta)
        vector = vector - np.linalg.lstsq(slope, residual, rcond=None)[0]
    return None


def _checked(own: ParameterSpace, vector: np.ndarray, theta: dict) -> dict[str, np.ndarray] | None:
    moved = {name: np.asarray(leaf) for name, leaf in own.from_vector(vector, theta).items()}
    try:
        own.check(moved)
    except ModelError:
        return None
    return moved
