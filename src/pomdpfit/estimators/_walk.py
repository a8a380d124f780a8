"""A climb as a conversation: it asks for slopes and information, and is told.

Who answers is no business of the climb's. One objective may answer one climb (`attend`), or one
compiled program many climbs at a time (`_together`).
"""

import dataclasses
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from pomdpfit._errors import Result
from pomdpfit._types import Array, Float
from pomdpfit.estimators._objective import Objective, Scores


class Slope(NamedTuple):
    """Value and gradient at phi? The answer is a pair, or None where either is not finite."""

    phi: Float[np.ndarray, "n"]


class Outer(NamedTuple):
    """sum_i w_i s_i s_i' at phi, with the scores s_i along the columns of a jacobian?"""

    phi: Float[np.ndarray, "n"]
    jacobian: Float[np.ndarray, "n p"]


class Complete(NamedTuple):
    """The information at phi, along a jacobian, if the hidden states were seen? None if unknown."""

    phi: Float[np.ndarray, "n"]
    jacobian: Float[np.ndarray, "n p"]


@dataclasses.dataclass(frozen=True, eq=False)
class Climb:
    """Where a climb ended, and how."""

    phi: Float[np.ndarray, "n"]
    value: float
    gradient: Float[np.ndarray, "n"]
    gain: float  # that the quadratic model still promises
    steps: int
    result: Result
    start: Array | None = dataclasses.field(repr=False, default=None)
    trace: tuple[float, ...] = dataclasses.field(repr=False, default=())  # values, step by step
    norms: tuple[float, ...] = dataclasses.field(repr=False, default=())  # squared, of gradients
    scores: Scores | None = dataclasses.field(repr=False, default=None)  # at phi, if known there

    @property
    def converged(self) -> bool:
        """Whether the promised gain is below the tolerance."""
        return self.result is Result.CONVERGED

    @property
    def arrived(self) -> bool:
        """Whether it is at an end: a maximum, or flat where a gain is still promised."""
        return self.result in {Result.CONVERGED, Result.FLAT}


Question = Slope | Outer | Complete
Walk = Generator[Question, Any, Climb]


def lost(phi: Float[np.ndarray, "n"]) -> Climb:
    """A climb that could not begin or go on: there is no likelihood."""
    return Climb(phi, -np.inf, np.full(len(phi), np.nan), np.inf, 0, Result.NOT_FINITE)


def attend(objective: Objective, walk: Walk) -> Climb:
    """All answers from one objective; the climb with the last value that was solved for."""
    answer: Any = None
    while True:
        try:
            question = walk.send(answer)
        except StopIteration as end:
            done: Climb = end.value
            if not np.isfinite(done.value):
                return done
            scores = objective.scores_at(done.phi)
            return dataclasses.replace(done, start=objective.start, scores=scores)
        if isinstance(question, Slope):
            answer = objective.gradient(question.phi)
        elif isinstance(question, Complete):
            answer = objective.complete(question.phi, question.jacobian)
        else:
            answer = objective.outer(question.phi, question.jacobian)
