"""How the value moves with theta: found for the scores, and kept for what else is asked there."""

from typing import NamedTuple

import numpy as np

from pomdpfit import _likelihood
from pomdpfit._problem import Moves, Problem
from pomdpfit._stage import Data
from pomdpfit._types import Array, Float, Theta


class ValueMoves(NamedTuple):
    """dv along the entries of free leaves that some directions have, as found at one point."""

    free: Theta
    fixed: Theta
    value: Array | None
    along: Float[np.ndarray, "p e"]
    by_entry: Float[Array, "e C *H Z n c"] | None

    def serves(
        self, free: Theta, fixed: Theta, value: Array, along: Float[np.ndarray, "q e"]
    ) -> bool:
        """Whether it was found here, for all entries that these directions have."""
        return self.value is not None and self.same(free, fixed, value, along)

    def same(
        self, free: Theta, fixed: Theta, value: Array | None, along: Float[np.ndarray, "q e"]
    ) -> bool:
        """The same, also where nothing was solved."""
        if (self.value is None) != (value is None) or self.free.keys() != free.keys():
            return False
        missing = along.any(axis=0) & ~self.along.any(axis=0)
        there, here = {**self.free, **self.fixed}, {**free, **fixed}
        same = all(np.array_equal(there[name], leaf) for name, leaf in here.items())
        found = value is None or np.array_equal(np.asarray(self.value), np.asarray(value))
        return same and not missing.any() and found


class SharedMoves:
    """Moves at the last theta, for panels that differ in their rows alone."""

    def __init__(self) -> None:
        self._found: tuple[ValueMoves, Moves] | None = None

    def __reduce__(self) -> tuple:
        """Other processes find their own."""
        return SharedMoves, ()

    def at(
        self,
        problem: Problem,
        free: dict,
        fixed: dict,
        value: Array | None,
        data: Data,
        along: Float[np.ndarray, "p e"],
    ) -> Moves:
        """The moves, from memory where they were found here before."""
        if self._found is not None:
            there, moves = self._found
            # Priors by agent have a row for each of them, which do not move: as many will do.
            if there.same(free, fixed, value, along) and _rows(moves) in {1, len(data.prior)}:
                return moves
        moves = _likelihood.unit_moves(problem, free, fixed, value, data, along)
        self._found = ValueMoves(free, fixed, value, along, moves.value), moves
        return moves


def _rows(moves: Moves) -> int:
    return moves.stage.x0.shape[1]
