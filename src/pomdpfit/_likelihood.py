"""The log-likelihood and its derivatives, as compiled programs.

What theta makes of the model, what its value adds (`_problem`) and what the panel makes of both
(`_score_panel`) are compiled apart, and their derivatives joined by the chain rule: so every
program is small, and serves all that is asked of it. Observation terms need no value; where they
alone are asked for, it is None and nothing is solved.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from pomdpfit._agent_scores import agent_scores
from pomdpfit._entries_of_leaves import count_entries
from pomdpfit._plain_score import plain_pull_score, plain_score
from pomdpfit._point import Point, make_stage
from pomdpfit._problem import Problem, without_slopes
from pomdpfit._score_panel import Terms, pull_score, push_score, score
from pomdpfit._stage import Data, Stage, Value
from pomdpfit._types import Array, Bool, Float, Int
from pomdpfit._unit_moves import UnitMoves, joined, prepare_unit_moves
from pomdpfit.programs import program

SMALL_PANEL = 20_000  # rows; larger ones are read once for all entries of theta


def evaluate(point: Point) -> Terms:
    """The terms."""
    (terms,) = _score(point.stage, point.data)
    return terms


class Pulled(NamedTuple):
    """The terms, and derivatives of their weighted sum: in the stage, and in free leaves."""

    terms: Terms
    stage: Stage
    back: Stage
    gradient: dict


def pull(point: Point, free: tuple[str, ...], weights: Array) -> Pulled:
    """The terms, and the gradient of their weighted sum in the `free` leaves."""
    moving, fixed = point.halves(free)
    problem, value, data = point.problem, point.value, point.data
    if value is None:
        return Pulled(*_pull_observations(problem, moving, fixed, data, weights))
    terms, back = _pull_score(point.stage, data, weights)
    by = _multipliers_of(point, back)
    to_ground, _ = _pull_stage(problem, point.ground, value, data, back, by)
    return Pulled(terms, point.stage, back, _pull_ground(problem, moving, fixed, data, to_ground))


def multipliers(point: Point, weights: Array) -> Value:
    """lambda of the weighted sum."""
    if point.value is None:
        return None
    _, back = _pull_score(point.stage, point.data, weights)
    return _multipliers_of(point, back)


def lagrangian_slope(
    point: Point, free: tuple[str, ...], weights: Array, by: Value
) -> tuple[dict, Value]:
    """The derivative in `free` and in v of log l + by' (T(theta, v) - v), with weighted agents."""
    if point.value is None:
        return pull(point, free, weights).gradient, None
    _, back = _pull_score(point.stage, point.data, weights)
    problem, data = point.problem, point.data
    to_ground, to_value = _pull_stage(problem, point.ground, point.value, data, back, by)
    return _pull_ground(problem, *point.halves(free), data, to_ground), to_value


class Scores(NamedTuple):
    """The terms, and each agent's derivatives in every entry: zero in those not wanted."""

    terms: Terms
    by_entry: Float[np.ndarray, "e N 2"]


class MovedValue(NamedTuple):
    """How the value moves along some entries."""

    entries: Int[np.ndarray, "w"]
    value: Float[np.ndarray, "w C *H Z n c"]

    def only(self, these: Bool[np.ndarray, "w"]) -> "MovedValue":
        """Along some of them."""
        return MovedValue(self.entries[these], self.value[these])

    def along(self, directions: Float[np.ndarray, "p e"]) -> Float[np.ndarray, "p C *H Z n c"]:
        """And along directions that have no others."""
        return np.tensordot(directions[:, self.entries], self.value, 1)


def scores(
    point: Point, wanted: Bool[np.ndarray, "e"], moves: Iterable[UnitMoves]
) -> tuple[Scores, MovedValue | None]:
    """From moves along the entries that are wanted, and what they say of the value."""
    by_entry, moved = np.zeros((len(wanted), point.data.panel.z.shape[0], 2)), []
    all_at_once = point.value is None or point.data.panel.z.size > SMALL_PANEL
    for entries, along in [joined(moves, wanted)] if all_at_once else moves:
        terms, found = _push_agents(point.stage, along.stage, point.data)
        by_entry[entries] = np.asarray(found)[: len(entries)]
        moved.append((entries, along.value))
    if point.value is None:
        return Scores(terms, by_entry), None
    value = _moved_value(moved)
    known = wanted[value.entries]  # along the others it was not asked how it moves
    return Scores(terms, by_entry), value if known.all() else value.only(known)


def moved_value(moves: Iterable[UnitMoves]) -> MovedValue:
    """What moves say of the value alone."""
    return _moved_value([(entries, along.value) for entries, along in moves])


def _moved_value(found: list) -> MovedValue:
    values = [np.asarray(value)[: len(entries)] for entries, value in found]
    return MovedValue(np.concatenate([entries for entries, _ in found]), np.concatenate(values))


def row_scores(
    point: Point, wanted: Bool[np.ndarray, "e"], moves: Iterable[UnitMoves]
) -> tuple[Terms, Float[np.ndarray, "e N T 2"]]:
    """The derivative of every single term in every entry that is wanted."""
    terms, by_entry = _push_rows(point.stage, joined(moves, wanted).moves.stage, point.data)
    return terms, np.asarray(by_entry)


def weighted_scores(
    by_entry: Float[np.ndarray, "e N 2"], weights: Float[np.ndarray, "N 2"]
) -> Float[np.ndarray, "e"]:
    """Their sum; an agent of weight zero is left out, whatever its scores are."""
    return np.tensordot(np.where(weights != 0, by_entry, 0.0), weights, 2)


def _multipliers_of(point: Point, back: Stage) -> Value:
    """Of what has the derivative `back` in the stage."""
    return _multipliers(point.problem, point.ground, point.value, point.data, back)


@program(light=True)
def _pull_ground(problem, moving, fixed, data, back):  # type: ignore[no-untyped-def]
    return problem.pull_ground(moving, fixed, data, back, with_choices=True)


@program(light=without_slopes)
def _pull_stage(problem, ground, value, data, back, by):  # type: ignore[no-untyped-def]
    return problem.pull_stage(ground, value, data, back, by)


@program(light=without_slopes)
def _multipliers(problem, ground, value, data, back):  # type: ignore[no-untyped-def]
    to_value = problem.pull_value(ground, value, data, back)
    return problem.multipliers(ground, value, to_value)


class _PlainFirst:
    """What the plain program finds; if numbers are too small for it, what the careful one does."""

    def __init__(self, name: str, plain: Callable, careful: Callable) -> None:
        self._plain = program(plain, name=f"{name}, plain", light=True)
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

    def run(problem: Problem, moving: dict, fixed: dict, data: Data, weights: Array) -> tuple:
        ground = problem.ground(moving | fixed, data, with_choices=False)
        stage = problem.stage(ground, None, data)
        terms, back, *lost = pull_score(stage, data, weights)
        gradient = problem.pull(moving, fixed, None, data, back, None)
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


def prepare(point: Point, free: tuple[str, ...], weights: Array) -> None:
    """Have all of the above compiled side by side, for a point of which only shapes are known."""
    problem, ground, value, data = point.problem, point.ground, point.value, point.data
    moving, fixed = point.halves(free)
    if value is None:
        _pull_observations.prepare(problem, moving, fixed, data, weights)
    stage = make_stage.prepare(problem, ground, value, data)
    moved = prepare_unit_moves(point, free)
    if value is not None and data.panel.z.size > SMALL_PANEL:
        entries = count_entries(moving.values())
        all_entries = lambda leaf: jax.ShapeDtypeStruct((entries, *leaf.shape[1:]), leaf.dtype)
        moved = jax.tree.map(all_entries, moved)
    _push_agents.prepare(stage, moved, data)
    if value is not None:
        _, back = _pull_score.prepare(stage, data, weights)
        _multipliers.prepare(problem, ground, value, data, back)
        to_ground, _ = _pull_stage.prepare(problem, ground, value, data, back, value)
        _pull_ground.prepare(problem, moving, fixed, data, to_ground)
