"""Runs of numbers in a .POMDP file as arrays, each number pointed at if it is not allowed."""

from typing import TYPE_CHECKING

import numpy as np

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._types import Float
from pomdpfit.formats._parse import Source

if TYPE_CHECKING:
    from lark import Token


def read_numbers(runs: tuple["Token", ...], source: Source) -> Float[np.ndarray, "n"]:
    """All numbers of some runs; none may be infinite."""
    numbers = np.array([float(word) for run in runs for word in run.split()])
    _refuse_first(~np.isfinite(numbers), runs, source, "is too large for a 64-bit number")
    return numbers


def read_probabilities(runs: tuple["Token", ...], source: Source) -> Float[np.ndarray, "n"]:
    """The same, between 0 and 1."""
    numbers = read_numbers(runs, source)
    bad = (numbers < 0.0) | (numbers > 1.0 + SUM_TOLERANCE)
    _refuse_first(bad, runs, source, "is not a probability: it must lie between 0 and 1")
    return numbers


def _refuse_first(bad: np.ndarray, runs: tuple["Token", ...], source: Source, message: str) -> None:
    if not bad.any():
        return
    position = int(np.argmax(bad))
    for run in runs:
        words = run.split()
        if position < len(words):
            source.refuse(run, f"{words[position][:40]} {message}.", position)
        position -= len(words)
