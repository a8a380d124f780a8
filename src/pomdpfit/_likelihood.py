"""The log-likelihood and its derivatives, as compiled programs.

What theta makes of the model (`_problem`) and what the panel makes of that (`_score_panel`) are
compiled apart, and their derivatives joined by the chain rule: so every program is small, and
serves all that is asked of it. Observation terms need no value; where they alone are asked for, it
is None and nothing is solved.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from pomdpfit._agent_scores import agent_scores
from pomdpfit._plain_score import plain_pull_score, plain_score
from pomdpfit._problem import Moves, Problem
from pomdpfit._score_panel import Terms, pull_score, push_score, score
from pomdpfit._stage import Data, Stage, Value
from pomdpfit._types import Array, Float, Theta
from pomdpfit.programs import program

_TOGETHER = 4  # entries of theta along which the value is differentiated at once


def evaluate(problem: Problem, theta: Theta, value: Value, data: Data) -> Terms:
    """The terms at theta."""
    (terms,) = _score(_stage(problem, theta, value, data), data)
    return terms


class Pulled(NamedTuple):
    """The terms, and derivatives of their weighted sum: in the stage, and in `free`."""

    terms: Terms
    stage: Stage
    back: Stage
    gradient: dict


def pull(
    problem: Problem, free: dict, fixed: dict, value: Value, data: Data, weights: Array
) -> Pulled:
    """The terms at theta = free | fixed, and the gradient in `free` of their weighted sum."""
    if value is None:
        return Pulled(*_pull_observations(problem, free, fixed, data, weights))
    stage = _stage(problem, free | fixed, value, data)
    terms, back = _pull_score(stage, data, weights)
    by = _multipliers(problem, free, fixed, value, data, back)
    return Pulled(terms, stage, back, _pull_stage(problem, free, fixed, value, data, back, by)[0])


def multipliers(
    problem: Problem, free: dict, fixed: dict, value: Value, data: Data, weights: Array
) -> Value:
    """lambda of the weighted sum at theta = free | fixed."""
    if value is None:
        return None
    _, back = _pull_score(_stage(problem, free | fixed, value, data), data, weights)
    return _multipliers(problem, free, fixed, value, data, back)


def lagrangian_slope(
    problem: Problem,
    free: dict,
    fixed: dict,
    value: Value,
    data: Data,
    weights: Array,
    by: Value,
) -> tuple[dict, Value]:
    """The derivative in `free` and in v of log l + by' (T(theta, v) - v), with weighted agents."""
    if value is None:
        return pull(problem, free, fixed, None, data, weights).gradient, None
    _, back = _pull_score(_stage(problem, free | fixed, value, data), data, weights)
    return _pull_stage(problem, free, fixed, value, data, back, by)


def push(
    problem: Problem,
    free: dict,
    fixed: dict,
    value: Value,
    data: Data,
    along: Float[np.ndarray, "p e"],
    moves: Moves,
    *,
    by_row: bool = False,
) -> tuple[Terms, Float[np.ndarray, "N *T 2 p"]]:
    """The terms, and the derivative of their parts (by agent or row).

    It is taken along p rows over the entries of `free`, whose `moves` are known.
    """
    stage = _stage(problem, free | fixed, value, data)
    scores = _push_rows if by_row else _push_agents
    terms, by_entry = scores(stage, moves.stage, data)
    derivatives = np.moveaxis(np.tensordot(along, np.asarray(by_entry), 1), 0, -1)
    return terms, np.ascontiguousarray(derivatives)


@program
def _stage(problem: Problem, theta: Theta, value: Value, data: Data) -> Stage:
    return problem.stage(theta, value, data)


@program(scatters=True)
def _multipliers(problem, free, fixed, value, data, back):  # type: ignore[no-untyped-def]
    return problem.multipliers(free, fixed, value, data, back)


@program(scatters=True)
def _pull_stage(problem, free, fixed, value, data, back, by):  # type: ignore[no-untyped-def]
    return problem.pull(free, fixed, value, data, back, by)


class _PlainFirst:
    """What the plain program finds; if numbers are too small for it, what the careful one does."""

    def __init__(self, name: str, plain: Callable, careful: Callable) -> None:
        self._plain = program(plain, name=f"{name}, plain")
        self._careful = program(careful, name=f"{name}, careful")

    def __call__(self, *args: Any) -> Any:
        *found, lost = self._plain(*args)
        return self._careful(*args) if lost else found

    def prepare(self, *args: Any) -> Any:
        """The plain program: the careful one is seldom needed."""
        *found, _ = self._plain.prepare(*args)
        return found


def _all_in_one(pull_score: Callable) -> Callable:
    """What `pull` does where nothing is solved: so small that most of its time would be calls."""

    def run(problem: Problem, free: dict, fixed: dict, data: Data, weights: Array) -> tuple:
        stage = problem.stage(free | fixed, None, data)
        terms, back, *lost = pull_score(stage, data, weights)
        gradient, _ = problem.pull(free, fixed, None, data, back, None)
        return terms, stage, back, gradient, *lost

    return run


_pull_observations = _PlainFirst(
    "pull observations", _all_in_one(plain_pull_score), _all_in_one(pull_score)
)
_score = _PlainFirst("score", plain_score, lambda *args: (score(*args),))
_pull_score = _PlainFirst("pull score", plain_pull_score, pull_score)
_push_agents = _PlainFirst(
    "push agents", agent_scores, functools.partial(push_score, parts=Terms.by_part)
)
_push_rows = eqx.filter_jit(functools.partial(push_score, parts=Terms.by_row))


def unit_moves(
    problem: Problem,
    free: dict,
    fixed: dict,
    value: Value,
    data: Data,
    along: Float[np.ndarray, "p e"],
) -> Moves:
    """Moves along each entry of `free`, zero where none of the rows `along` them needs it."""
    return _unit_moves(problem, free, fixed, value, data, *_in_chunks(along))


def _in_chunks(along: Float[np.ndarray, "p e"]) -> tuple[np.ndarray, np.ndarray]:
    """The entries that are needed, some at a time, in a table with room for all; how many rows."""
    wanted = np.flatnonzero(along.any(axis=0))
    chunks = -(-len(wanted) // _TOGETHER)
    table = np.zeros((-(-along.shape[1] // _TOGETHER), _TOGETHER), dtype=int)
    table.reshape(-1)[: len(wanted)] = wanted
    table.reshape(-1)[len(wanted) :] = wanted[-1] if len(wanted) else 0
    return table, np.asarray(chunks)


@program
def _unit_moves(problem, free, fixed, value, data, table, chunks):  # type: ignore[no-untyped-def]
    """One program, whichever and however many entries are wanted."""
    flat, unflatten = jax.flatten_util.ravel_pytree(free)
    moves = problem.mover(free | fixed, free, value, data)
    unit = lambda k: jax.vmap(unflatten)(jax.nn.one_hot(table[k], flat.size))
    like = jax.eval_shape(moves, unit(0))
    none = jax.tree.map(lambda leaf: jnp.zeros((flat.size, *leaf.shape[1:])), like)

    def add(k: Array, found: Moves) -> Moves:
        return jax.tree.map(lambda all, new: all.at[table[k]].set(new), found, moves(unit(k)))

    return jax.lax.fori_loop(0, chunks, add, none)


def prepare(
    problem: Problem,
    free: dict,
    fixed: dict,
    value: jax.ShapeDtypeStruct | None,
    data: Data,
    weights: Array,
) -> None:
    """Have all of the above compiled side by side; of the value, only its shape is known."""
    entries = sum(np.size(leaf) for leaf in free.values())
    chunks = _in_chunks(np.ones((1, entries)))
    here = problem, free, fixed
    if value is None:
        _pull_observations.prepare(*here, data, weights)
    moves = _unit_moves.prepare(*here, value, data, *chunks)
    stage = _stage.prepare(problem, free | fixed, value, data)
    if value is not None:
        _, back = _pull_score.prepare(stage, data, weights)
        by = _multipliers.prepare(*here, value, data, back)
        _pull_stage.prepare(*here, value, data, back, by)
    _push_agents.prepare(stage, moves.stage, data)


def entries_along(
    directions: Mapping[str, Float[np.ndarray, "p *shape"]], free: dict
) -> Float[np.ndarray, "p e"]:
    """Directions as rows over the entries of `free`, in the order of `unit_moves`."""
    count = len(next(iter(directions.values())))
    rows = [np.zeros((count, 0))]
    for name in sorted(free):
        still = np.zeros((count, *np.shape(free[name])))
        rows.append(np.reshape(directions.get(name, still), (count, np.size(free[name]))))
    return np.concatenate(rows, axis=1)
