"""How the value, and what a panel is scored by, move along single entries of theta.

Where choices count, some entries at a time, by one small program after the other: operators, action
values, and the value by the implicit function theorem. Where they do not, all at once.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from pomdpfit._entries_of_leaves import count_entries, leaf_by_leaf
from pomdpfit._point import Place, Point
from pomdpfit._problem import Ground, Moves, Problem, without_slopes
from pomdpfit._stage import Data, Stage
from pomdpfit._types import Array, Bool, Int
from pomdpfit.programs import program

_TOGETHER = 4  # entries of theta along which the value is differentiated at once


class UnitMoves(NamedTuple):
    """Moves along these entries; more of them may follow, which fill up a program."""

    entries: Int[np.ndarray, "t"]
    moves: Moves


def unit_moves(
    point: Point, free: tuple[str, ...], wanted: Bool[np.ndarray, "e"]
) -> Iterator[UnitMoves]:
    """Along each entry of the `free` leaves that is wanted, and maybe along others."""
    moving, fixed = point.halves(free)
    if point.value is None:
        stage = _move_observations(point.problem, moving, fixed, point.data)
        yield UnitMoves(np.arange(len(wanted)), Moves(None, stage))
        return
    for entries in np.split(np.flatnonzero(wanted), range(_TOGETHER, wanted.sum(), _TOGETHER)):
        yield UnitMoves(entries, _moves_along(point, moving, fixed, _directions(moving, entries)))


def _moves_along(point: Point, moving: dict, fixed: dict, directions: dict) -> Moves:
    problem, value, data = point.problem, point.value, point.data
    assert value is not None
    moved_ground = _move_ground(problem, moving, fixed, data, directions)
    stage, gap = _move_stage(problem, point.ground, value, data, moved_ground)
    moved = _move_value(problem, point.ground, value, gap)
    return Moves(moved, _with_value(problem, point.ground, value, data, stage, moved))


def _directions(moving: dict, entries: Int[np.ndarray, "t"]) -> dict[str, np.ndarray]:
    """A step along each; again and again, until there are as many as programs are for."""
    filled = np.resize(entries, _TOGETHER)
    return leaf_by_leaf(np.eye(count_entries(moving.values()))[filled], moving)


def joined(parts: Iterable[UnitMoves], wanted: Bool[np.ndarray, "e"]) -> UnitMoves:
    """Moves along all entries, zero along those that are not wanted."""
    parts = list(parts)
    if wanted.all() and len(parts[0].moves.stage.x0) == len(wanted):
        return parts[0]  # as it is

    def spread(*leaves: Array) -> np.ndarray:
        everywhere = np.zeros((len(wanted), *leaves[0].shape[1:]))
        for part, leaf in zip(parts, leaves, strict=True):
            everywhere[part.entries] = np.asarray(leaf)[: len(part.entries)]
        everywhere[~wanted] = 0.0
        return everywhere

    moves = jax.tree.map(spread, *(part.moves for part in parts))
    return UnitMoves(np.arange(len(wanted)), moves)


def prepare_unit_moves(point: Point, free: tuple[str, ...]) -> Stage:
    """Have the programs compiled ahead; what is returned stands for the moves of a stage."""
    problem, ground, value, data = point.problem, point.ground, point.value, point.data
    moving, fixed = point.halves(free)
    if value is None:
        return _move_observations.prepare(problem, moving, fixed, data)
    directions = _directions(moving, np.zeros(1, dtype=int))
    moved_ground = _move_ground.prepare(problem, moving, fixed, data, directions)
    stage, gap = _move_stage.prepare(problem, ground, value, data, moved_ground)
    moved = _move_value.prepare(problem, ground, value, gap)
    return _with_value.prepare(problem, ground, value, data, stage, moved)


@program
def _move_observations(problem: Problem, moving: dict, fixed: dict, data: Data) -> Stage:
    directions = leaf_by_leaf(np.eye(count_entries(moving.values())), moving)
    theta = moving | fixed
    return problem.mover(theta, directions, None, data)(directions).stage


@program(light=True)
def _move_ground(
    problem: Problem, moving: dict, fixed: dict, data: Data, directions: dict
) -> Ground:
    return problem.move_ground(moving | fixed, data, directions)


@program(light=without_slopes)
def _move_stage(problem, ground, value, data, moved):  # type: ignore[no-untyped-def]
    return problem.move_stage(ground, value, data, moved)


@program(light=without_slopes)
def _move_value(problem, ground, value, gap):  # type: ignore[no-untyped-def]
    return problem.move_value(ground, value, gap)


@program(light=without_slopes)
def _with_value(problem, ground, value, data, stage, moved):  # type: ignore[no-untyped-def]
    return problem.with_value(ground, value, data, stage, moved)


class SharedMoves:
    """Moves at the last theta, for panels that differ in their rows alone."""

    def __init__(self) -> None:
        self._found: tuple[Place, tuple[str, ...], np.ndarray, list[UnitMoves]] | None = None

    def __reduce__(self) -> tuple:
        """Other processes find their own."""
        return SharedMoves, ()

    def at(
        self, point: Point, free: tuple[str, ...], wanted: Bool[np.ndarray, "e"]
    ) -> list[UnitMoves]:
        """The moves, from memory where they were found here before."""
        contexts = {name: np.asarray(values) for name, values in point.data.covariates.items()}
        here = Place(point.theta | contexts, point.value)
        if self._found is not None:
            there, known, found, moves = self._found
            enough = known == free and not (wanted & ~found).any()
            # Priors by agent have a row for each of them, which do not move: as many will do.
            rows = moves[0].moves.stage.x0.shape[1]
            if enough and there.same(here) and rows in {1, len(point.data.prior)}:
                return moves
        self._found = None  # two at a time would be too many
        moves = list(unit_moves(point, free, wanted))
        self._found = here, free, wanted, moves
        return moves
