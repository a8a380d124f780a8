"""What a climb has been told, told again: the same answers lead to the same place.

A climb is a conversation (`_walk`) and has no other source of knowledge. So its answers are all
there is to keep of it: a climb that is begun anew and given them again stands where it stood, with
its model of the curvature, its damping and its step count, to the last bit.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from pomdpfit._checkpoint import CheckpointError
from pomdpfit._types import Array
from pomdpfit.estimators._objective import Scores
from pomdpfit.estimators._walk import Complete, Question, Slope, Walk


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """Answers in order, and what the next solve starts from where that is known."""

    answers: tuple[Any, ...] = ()
    warm: Array | None = None
    last: tuple[np.ndarray, Scores] | None = None  # the scores that were taken last, and where


def recorded(walk: Walk, record: Record, heard: Callable[[Any], None]) -> Walk:
    """The climb from where the record leaves it; `heard(answer)` is told of further answers."""
    try:
        question = next(walk)
        for answer in record.answers:
            if not _answers(question, answer):
                raise CheckpointError(
                    "a climb in the checkpoint is damaged: it was told other things than it asks "
                    "for. Delete the checkpoint."
                )
            question = walk.send(answer)
        while True:
            answer = yield question
            heard(answer)
            question = walk.send(answer)
    except StopIteration as end:
        return end.value


def _answers(question: Question, answer: Any) -> bool:
    """Whether an answer is of the kind and the size that a question asks for."""
    if isinstance(question, Slope):
        return not isinstance(answer, np.ndarray)
    if isinstance(question, Complete) and answer is None:
        return True
    size = question.jacobian.shape[1]
    return isinstance(answer, np.ndarray) and answer.shape == (size, size)
