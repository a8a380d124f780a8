"""A smaller model's estimate as a point of a larger one: one hidden state becomes two alike.

If two states have the same rewards and the same law of (z', s'), where it does not matter into
which of the two s' falls, nobody can tell them apart, and the likelihood is that of the smaller
model. So the larger model contains the smaller one, and its climb can start beside it.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._model import Model
from pomdpfit._params import Parameter
from pomdpfit._priors import labels_of
from pomdpfit._types import Array, Theta
from pomdpfit.estimators._starts import draw_starts, off_the_bounds


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """A point of the larger model, and the most by which its primitives miss the smaller one's."""

    theta: dict[str, np.ndarray]
    gap: float


def split_state(
    small: AbstractLikelihood, theta: Theta, large: AbstractLikelihood, state: int
) -> Split | None:
    """The smaller model's theta with `state` split in two; None where the models are too unlike.

    Axes labelled by the hidden states are extended: a row is repeated, a probability of getting
    there is halved. Leaves that only the larger model has (or whose shape does not follow) are
    found by least squares, so that the primitives, summed over the two, are the smaller model's.
    """
    if not (isinstance(small.model, Model) and isinstance(large.model, Model)):
        return None
    point, others = _extended(small, theta, large, state)
    lump = np.repeat(np.eye(small.states), _copies(small.states, state), axis=0)
    target = _primitives(small.model, dict(theta), jnp.eye(small.states))
    here = _primitives(large.model, point, jnp.asarray(lump))
    if target[0].shape != here[0].shape or not np.array_equal(target[0], here[0]):
        return None  # other successors: another process
    parent = np.argmax(lump, axis=1)
    goal = (target[1][..., parent, :], target[2][:, parent, :])
    if any(a.shape != b.shape for a, b in zip(goal, here[1:], strict=True)):
        return None
    scale = 1.0 / max(1.0, float(np.abs(goal[1]).max()))

    def miss(tree: Theta) -> np.ndarray:
        _, P, r = _primitives(large.model, tree, jnp.asarray(lump))
        return np.concatenate([np.ravel(P - goal[0]), scale * np.ravel(r - goal[1])])

    if others and np.abs(miss(point)).max() > 1e-12:
        from scipy.optimize import least_squares

        view = large.space.only(others)
        point = off_the_bounds(large.space, point)
        at = lambda v: {**point, **_arrays(view.from_unconstrained(v, point))}
        found = least_squares(lambda v: miss(at(v)), np.asarray(view.to_unconstrained(point)))
        point = at(found.x)
    return Split(point, float(np.abs(miss(point)).max()))


def beside(
    likelihood: AbstractLikelihood, theta: Theta, share: float, seed: int
) -> dict[str, np.ndarray]:
    """theta moved by `share` of the way to a point drawn far and wide.

    Two states that are exactly alike have equal scores and would stay alike for ever.
    """
    far = draw_starts(likelihood.space, theta, 1, seed)[0]
    free = likelihood.space.free_leaves
    own = _arrays(theta)
    return {
        name: (1 - share) * leaf + share * far[name] if name in free else leaf
        for name, leaf in own.items()
    }


def _copies(states: int, state: int) -> np.ndarray:
    """How often each state of the smaller model stands in the larger one."""
    return np.where(np.arange(states) == state, 2, 1)


def _extended(
    small: AbstractLikelihood, theta: Theta, large: AbstractLikelihood, state: int
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """theta leaf by leaf in the larger space, and the free leaves for which there was no rule."""
    names = labels_of(small.model, small.states), labels_of(large.model, large.states)
    copies = _copies(small.states, state)
    point, others = {}, []
    for name, p in large.space.parameters.items():
        old, value = small.space.parameters.get(name), None
        if old is not None and not p.fixed:
            value = _extended_leaf(np.asarray(theta[name]), old, p, names, copies)
        if value is None:
            value = np.asarray(p.value)
            others += [] if p.fixed else [name]
        point[name] = value
    own = set(large.model.parameters())
    return point, tuple(name for name in others if name in own)  # not x0: any will do


def _extended_leaf(
    value: np.ndarray,
    old: Parameter,
    new: Parameter,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    copies: np.ndarray,
) -> np.ndarray | None:
    """One leaf, if its axes are labelled in both models."""
    for axis, labels in enumerate(old.labels or ()):
        if labels != names[0] or axis >= len(new.labels or ()) or new.labels[axis] != names[1]:  # type: ignore[index]
            continue
        if axis == value.ndim - 1 and new.constraint.sums(new.shape):
            value = value / copies
        value = np.repeat(value, copies, axis=axis)
    return value if value.shape == new.shape else None


@eqx.filter_jit
def _primitives(model: Model, theta: Theta, lump: Array) -> tuple[Array, Array, Array]:
    """Successors, P(z', lump of s' | z, s, a) and r."""
    primitives = model.primitives(theta)
    kernel = primitives.kernel
    return (
        jnp.asarray(kernel.successors),
        jnp.asarray(kernel.probability) @ lump,
        primitives.reward,
    )


def _arrays(tree: Theta) -> dict[str, np.ndarray]:
    return {name: np.asarray(leaf) for name, leaf in tree.items()}
