"""What a likelihood found at the last theta that it was asked for: often it is asked there again.

A search asks for a slope, then for the scores, and at its end for second derivatives.
"""

from typing import NamedTuple

import numpy as np

from pomdpfit._likelihood import MovedValue, Scores
from pomdpfit._point import Place, Point, same_value
from pomdpfit._problem import Ground, Problem
from pomdpfit._stage import Data, Stage, Value
from pomdpfit._types import Array, Bool, Float


class LastPoint(Point):
    """A point with how it was solved, and what else was found there."""

    def __init__(
        self,
        problem: Problem,
        theta: dict[str, np.ndarray],
        data: Data,
        *,
        value: Value = None,
        residual: float = 0.0,
        steps: int = 0,
        start: Array | None = None,
        ground: Ground | None = None,
    ) -> None:
        super().__init__(problem, theta, value, data, ground)
        self.residual, self.steps = residual, steps
        # A copy, as theta is one: who asked may write into it before asking again.
        self._start = np.array(start) if isinstance(start, np.ndarray) else start
        self.scores: KeptScores | None = None
        self.moved: KeptMoves | None = None
        self.pulled: KeptSlope | None = None

    def answers(
        self, theta: dict[str, np.ndarray], start: Array | None, *, with_choices: bool
    ) -> bool:
        """Whether a solution from there would end in the same bits: theta and start are the same.

        Or the start is what was found here, at which a solver stops at once.
        """
        if with_choices != (self.value is not None):
            return False
        if not Place(self.theta, None).same(Place(theta, None)):
            return False
        if self.value is None or same_value(start, self._start):
            return True
        if start is None or not same_value(start, self.value):
            return False
        self._start = self.value
        if self.problem.model.horizon() is None:
            self.steps = 0
        return True


class KeptSlope(NamedTuple):
    """The slope of a weighted sum in the stage."""

    weights: Float[np.ndarray, "N 2"]
    stage: Stage
    back: Stage


class KeptScores(NamedTuple):
    """Scores, and for which entries of which leaves."""

    free: tuple[str, ...]
    wanted: Bool[np.ndarray, "e"]
    found: Scores

    def serve(self, free: tuple[str, ...], wanted: Bool[np.ndarray, "e"]) -> bool:
        """Whether all that are wanted are there."""
        return self.free == free and not (wanted & ~self.wanted).any()


class KeptMoves(NamedTuple):
    """The same for how the value moves."""

    free: tuple[str, ...]
    found: MovedValue

    def serve(self, free: tuple[str, ...], wanted: Bool[np.ndarray, "e"]) -> bool:
        """Whether all that are wanted are there."""
        return self.free == free and bool(np.isin(np.flatnonzero(wanted), self.found.entries).all())
