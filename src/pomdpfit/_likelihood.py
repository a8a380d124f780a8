"""The log-likelihood and its derivatives, as compiled programs.

What theta makes of the model (`_problem`) and what the panel makes of that (`_score_panel`) are
compiled apart, and their derivatives joined by the chain rule: so every program is small, and
serves all that is asked of it. Observation terms need no value; where they alone are asked for, it
is None and nothing is solved.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from pomdpfit._problem import Moves, Problem
from pomdpfit._score_panel import Terms, pull_score, push_score, score
from pomdpfit._stage import Data, Stage, Value
from pomdpfit._types import Array, Float, Theta

_TOGETHER = 64  # entries of theta along which the value is differentiated at once


def evaluate(problem: Problem, theta: Theta, value: Value, data: Data) -> Terms:
    """The terms at theta."""
    return _score(_stage(problem, theta, value, data), data)


def pull(
    problem: Problem, free: dict, fixed: dict, value: Value, data: Data, weights: Array
) -> tuple[Terms, dict]:
    """The terms at theta = free | fixed, and the gradient in `free` of their weighted sum."""
    terms, back = _pull_score(_stage(problem, free | fixed, value, data), data, weights)
    by = None if value is None else _multipliers(problem, free, fixed, value, data, back)
    return terms, _pull_stage(problem, free, fixed, value, data, back, by)[0]


class Lagrangian(NamedTuple):
    """log l + lambda' (T(theta, v) - v), with weighted agents.

    At the solution its derivative in v is zero. So second derivatives of log l along theta are
    those of the Lagrangian along (theta, v(theta)), to first order in v.
    """

    problem: Problem
    weights: Array
    by: Value

    def slope(self, free: dict, fixed: dict, value: Value, data: Data) -> tuple[dict, Value]:
        """In theta, and in v."""
        stage = _stage(self.problem, free | fixed, value, data)
        _, back = _pull_score(stage, data, self.weights)
        return _pull_stage(self.problem, free, fixed, value, data, back, self.by)


def lagrangian(
    problem: Problem, free: dict, fixed: dict, value: Value, data: Data, weights: Array
) -> Lagrangian:
    """With the multipliers at theta = free | fixed."""
    if value is None:
        return Lagrangian(problem, weights, None)
    _, back = _pull_score(_stage(problem, free | fixed, value, data), data, weights)
    return Lagrangian(problem, weights, _multipliers(problem, free, fixed, value, data, back))


def push(
    problem: Problem,
    free: dict,
    fixed: dict,
    value: Value,
    data: Data,
    parts: Callable[[Terms], Array] = Terms.by_part,
) -> tuple[Terms, Float[Array, "e N *T 2"]]:
    """The terms, and the derivative of their parts (by agent or row) in each entry of `free`."""
    moves = unit_moves(problem, free, fixed, value, data)
    return _push_score(_stage(problem, free | fixed, value, data), moves.stage, data, parts)


@eqx.filter_jit
def _stage(problem: Problem, theta: Theta, value: Value, data: Data) -> Stage:
    return problem.stage(theta, value, data)


@eqx.filter_jit
def _multipliers(problem, free, fixed, value, data, back):  # type: ignore[no-untyped-def]
    return problem.multipliers(free, fixed, value, data, back)


@eqx.filter_jit
def _pull_stage(problem, free, fixed, value, data, back, by):  # type: ignore[no-untyped-def]
    return problem.pull(free, fixed, value, data, back, by)


_score, _pull_score, _push_score = map(eqx.filter_jit, (score, pull_score, push_score))


@eqx.filter_jit
def unit_moves(problem: Problem, free: dict, fixed: dict, value: Value, data: Data) -> Moves:
    """One direction for each entry of `free`: one program, whatever is asked for later."""
    flat, unflatten = jax.flatten_util.ravel_pytree(free)
    parts = []
    for k in range(0, flat.size, _TOGETHER):
        directions = jax.vmap(unflatten)(jnp.eye(flat.size)[k : k + _TOGETHER])
        parts.append(problem.moves(free | fixed, directions, value, data))
    return jax.tree.map(lambda *each: jnp.concatenate(each), *parts)


def entries_along(directions: dict, free: dict) -> Float[np.ndarray, "p e"]:
    """Directions as rows over the entries of `free`, in the order of `unit_moves`."""
    count = len(next(iter(directions.values())))
    still = {name: np.zeros((count, *np.shape(leaf))) for name, leaf in free.items()}
    rows = [np.reshape((still | directions)[name], (count, -1)) for name in sorted(free)]
    return np.concatenate([*rows, np.zeros((count, 0))], axis=1)
