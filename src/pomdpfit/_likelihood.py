"""The log-likelihood and its derivatives, as compiled programs.

What theta makes of the model, what its value adds (`_problem`) and what the panel makes of both
(`_score_panel`) are compiled apart, and their derivatives joined by the chain rule: so every
program is small, and serves all that is asked of it. Observation terms need no value; where they
alone are asked for, it is None and nothing is solved.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from pomdpfit._agent_scores import agent_scores
from pomdpfit._plain_score import plain_pull_score, plain_score
from pomdpfit._problem import Ground, Moves, Problem
from pomdpfit._score_panel import Terms, pull_score, push_score, score
from pomdpfit._stage import Data, Stage, Value
from pomdpfit._types import Array, Float, Int, Theta
from pomdpfit.programs import program

_TOGETHER = 4  # entries of theta along which the value is differentiated at once


def evaluate(problem: Problem, theta: Theta, value: Value, data: Data) -> Terms:
    """The terms at theta."""
    (terms,) = _score(_stage(problem, _ground_at(problem, theta, value, data), value, data), data)
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
    ground = _ground_at(problem, free | fixed, value, data)
    stage = _stage(problem, ground, value, data)
    terms, back = _pull_score(stage, data, weights)
    by = _multipliers_of(problem, ground, value, data, back)
    to_ground, _ = _pull_stage(problem, ground, value, data, back, by)
    return Pulled(terms, stage, back, _pull_ground(problem, free, fixed, data, to_ground, True))


def multipliers(problem: Problem, theta: Theta, value: Value, data: Data, weights: Array) -> Value:
    """lambda of the weighted sum at theta."""
    if value is None:
        return None
    ground = _ground_at(problem, theta, value, data)
    _, back = _pull_score(_stage(problem, ground, value, data), data, weights)
    return _multipliers_of(problem, ground, value, data, back)


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
    ground = _ground_at(problem, free | fixed, value, data)
    _, back = _pull_score(_stage(problem, ground, value, data), data, weights)
    to_ground, to_value = _pull_stage(problem, ground, value, data, back, by)
    return _pull_ground(problem, free, fixed, data, to_ground, True), to_value


def push(
    problem: Problem,
    theta: Theta,
    value: Value,
    data: Data,
    moves: Moves,
    *,
    by_row: bool = False,
) -> tuple[Terms, Float[np.ndarray, "e N *T 2"]]:
    """The terms, and the derivative of their parts (by agent or row) along known `moves`."""
    stage = _stage(problem, _ground_at(problem, theta, value, data), value, data)
    terms, by_entry = (_push_rows if by_row else _push_agents)(stage, moves.stage, data)
    return terms, np.asarray(by_entry)


def weighted_scores(
    scores: Float[np.ndarray, "e N 2"], weights: Float[np.ndarray, "N 2"]
) -> Float[np.ndarray, "e"]:
    """Their sum; an agent of weight zero is left out, whatever its scores are."""
    return np.tensordot(np.where(weights != 0, scores, 0.0), weights, 2)


def unit_moves(
    problem: Problem,
    free: dict,
    fixed: dict,
    value: Value,
    data: Data,
    along: Float[np.ndarray, "p e"],
) -> Moves:
    """Moves along each entry of `free`, zero where none of the rows `along` them needs it."""
    ground = _ground_at(problem, free | fixed, value, data)
    wanted = np.flatnonzero(along.any(axis=0))
    found = [
        _moves_along(problem, ground, free, fixed, value, data, _unit_directions(free, entries))
        for entries in _in_chunks(wanted)
    ]

    def spread(*parts: Array) -> np.ndarray:
        rows = np.concatenate(parts)
        all_entries = np.zeros((along.shape[1], *rows.shape[1:]))
        all_entries[wanted] = rows[: len(wanted)]
        return all_entries

    return jax.tree.map(spread, *found)


def _moves_along(  # type: ignore[no-untyped-def]
    problem, ground, free, fixed, value, data, directions
) -> Moves:
    """One program after the other, for as many directions at once as they are compiled for."""
    to_ground = _move_ground(problem, free, fixed, data, directions, value is not None)
    stage, gap = _move_stage(problem, ground, value, data, to_ground)
    if value is None:
        return Moves(None, stage)
    moved = _move_value(problem, ground, value, gap)
    return Moves(moved, _with_value(problem, ground, value, data, stage, moved))


def _in_chunks(wanted: Int[np.ndarray, "w"]) -> list[Int[np.ndarray, "t"]]:
    """Entries some at a time, at least once; the last of them again and again to fill up."""
    wanted = wanted if len(wanted) else np.zeros(1, dtype=int)
    full = -(-len(wanted) // _TOGETHER) * _TOGETHER
    padded = np.concatenate([wanted, np.repeat(wanted[-1:], full - len(wanted))])
    return list(padded.reshape(-1, _TOGETHER))


def _unit_directions(
    free: dict, entries: Int[np.ndarray, "t"]
) -> dict[str, Float[np.ndarray, "t *shape"]]:
    """One step along each of these entries."""
    return leaf_by_leaf(np.eye(sum(map(np.size, free.values())))[entries], free)


def _ground_at(problem: Problem, theta: Theta, value: Value, data: Data) -> Ground:
    return _ground(problem, theta, data, value is not None)


def _multipliers_of(problem, ground, value, data, back):  # type: ignore[no-untyped-def]
    """Of what has the derivative `back` in the stage."""
    _, to_value = _pull_stage(problem, ground, value, data, back, np.zeros(value.shape))
    return _multipliers(problem, ground, value, to_value)


@program
def _ground(problem: Problem, theta: Theta, data: Data, with_choices: bool) -> Ground:
    return problem.ground(theta, data, with_choices=with_choices)


@program
def _stage(problem: Problem, ground: Ground, value: Value, data: Data) -> Stage:
    return problem.stage(ground, value, data)


@program
def _pull_ground(problem, free, fixed, data, back, with_choices):  # type: ignore[no-untyped-def]
    return problem.pull_ground(free, fixed, data, back, with_choices=with_choices)


@program
def _pull_stage(problem, ground, value, data, back, by):  # type: ignore[no-untyped-def]
    return problem.pull_stage(ground, value, data, back, by)


@program
def _multipliers(problem, ground, value, back):  # type: ignore[no-untyped-def]
    return problem.multipliers(ground, value, back)


@program
def _move_ground(  # type: ignore[no-untyped-def]
    problem, free, fixed, data, directions, with_choices
):
    return problem.move_ground(free | fixed, data, directions, with_choices=with_choices)


@program
def _move_stage(problem, ground, value, data, moved):  # type: ignore[no-untyped-def]
    return problem.move_stage(ground, value, data, moved)


@program
def _move_value(problem, ground, value, gap):  # type: ignore[no-untyped-def]
    return problem.move_value(ground, value, gap)


@program
def _with_value(problem, ground, value, data, stage, moved):  # type: ignore[no-untyped-def]
    return problem.with_value(ground, value, data, stage, moved)


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
        ground = problem.ground(free | fixed, data, with_choices=False)
        stage = problem.stage(ground, None, data)
        terms, back, *lost = pull_score(stage, data, weights)
        gradient = problem.pull(free, fixed, None, data, back, None)
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


def prepare(
    problem: Problem,
    free: dict,
    fixed: dict,
    value: jax.ShapeDtypeStruct | None,
    data: Data,
    weights: Array,
) -> None:
    """Have all of the above compiled side by side; of the value, only its shape is known."""
    with_choices = value is not None
    ground = _ground.prepare(problem, free | fixed, data, with_choices)
    directions = _unit_directions(free, _in_chunks(np.arange(0))[0])
    to_ground = _move_ground.prepare(problem, free, fixed, data, directions, with_choices)
    moved, gap = _move_stage.prepare(problem, ground, value, data, to_ground)
    stage = _stage.prepare(problem, ground, value, data)
    if value is None:
        _pull_observations.prepare(problem, free, fixed, data, weights)
    else:
        value_moved = _move_value.prepare(problem, ground, value, gap)
        moved = _with_value.prepare(problem, ground, value, data, moved, value_moved)
        _multipliers.prepare(problem, ground, value, value)
        _, back = _pull_score.prepare(stage, data, weights)
        back_to_ground, _ = _pull_stage.prepare(problem, ground, value, data, back, value)
        _pull_ground.prepare(problem, free, fixed, data, back_to_ground, True)
    entries = sum(np.size(leaf) for leaf in free.values())
    all_entries = lambda leaf: jax.ShapeDtypeStruct((entries, *leaf.shape[1:]), leaf.dtype)
    _push_agents.prepare(stage, jax.tree.map(all_entries, moved), data)


def leaf_by_leaf(
    entries: Float[np.ndarray, "*t e"], free: dict
) -> dict[str, Float[np.ndarray, "..."]]:
    """Numbers for all entries of `free`, counted leaf by leaf in the order of their names."""
    names, front = sorted(free), entries.shape[:-1]
    ends = np.cumsum([np.size(free[name]) for name in names])
    parts = np.split(entries, ends[:-1], axis=-1)
    each = zip(names, parts, strict=True)
    return {name: part.reshape((*front, *np.shape(free[name]))) for name, part in each}


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
