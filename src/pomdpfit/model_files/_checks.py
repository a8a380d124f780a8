"""Checks of what a file says: every refusal names the key, the value found and the mend."""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit._shown import shown

_DEEPEST = 8  # lists in lists: a kernel has five
_LONGEST_KEY, _LONGEST_LINE = 80, 400  # that are looked for in the text of a file


class UnknownKeyError(ModelError):
    """A key that a file may not hold; the line on which it stands is found by the reader."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


def refuse_unknown(given: Iterable[str], known: Iterable[str], place: str) -> None:
    """Raise for the first key that is not known, with the nearest one that is."""
    known = list(known)
    for key in given:
        if key not in known:
            there = f"it can hold {', '.join(known)}" if known else "it takes none"
            hint = nearest(key, known)
            raise UnknownKeyError(f"{place} has an unknown key {shown(key)}; {there}.{hint}", key)


def line_of(key: str, text: str) -> str:
    """ ", line 12" where the key stands on one line of a TOML text alone; "" where that is unclear.

    A key is followed by an equals sign, or stands in the header of a table.
    """
    plain = re.escape(key) if len(key) <= _LONGEST_KEY else ""
    quoted = f"(?:{plain}|\"{plain}\"|'{plain}')"
    assigned, header = (
        rf"(?<![\w.\"'-]){quoted}[ \t]*=",
        rf"^[ \t]*\[[^=]*(?<![\w-]){quoted}[ \t]*\]",
    )
    stands = re.compile(f"{assigned}|{header}")
    numbered = [(k, line.partition("#")[0]) for k, line in enumerate(text.splitlines(), 1)]
    lines = [k for k, line in numbered if len(line) <= _LONGEST_LINE and stands.search(line)]
    return f", line {lines[0]}" if plain and len(lines) == 1 else ""


def table(content: dict[str, Any], key: str) -> dict[str, Any]:
    """A table of the file; empty where it is not there."""
    found = content.get(key, {})
    if not isinstance(found, dict):
        raise ModelError(f"{key} must be a table, written [{key}], but it is {shown(found)}.")
    return found


def texts(content: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts; empty where it is not there."""
    found = content.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ModelError(
            f'{key} must be a list of texts, such as {key} = ["..."], but it is {shown(found)}.'
        )
    twice = [text for k, text in enumerate(found) if text in found[:k]]
    if twice:
        raise ModelError(f"{key} lists {shown(twice[0])} twice: strike one out.")
    return tuple(found)


def number(value: Any, place: str) -> float:
    """A finite number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{place} must be a number, but it is {shown(value)}.")
    try:
        as_float = float(value)
    except OverflowError:  # a whole number beyond 1e308
        as_float = math.inf
    if not math.isfinite(as_float):
        raise ModelError(f"{place} must be finite, but it is {shown(value)}.")
    return as_float


def array(value: Any, place: str, depth: int = 0) -> np.ndarray:
    """A number, or lists in lists of numbers, all of one length at each depth."""
    if not isinstance(value, list):
        return np.asarray(number(value, place))
    if depth == _DEEPEST:
        raise ModelError(
            f"{place} is a list more than {_DEEPEST} deep: no parameter has so many axes."
        )
    parts = [array(entry, f"{place}[{k}]", depth + 1) for k, entry in enumerate(value)]
    if not parts:
        raise ModelError(f"{place} is an empty list: give it numbers.")
    for k, part in enumerate(parts):
        if part.shape != parts[0].shape:
            raise ModelError(
                f"{place} must have rows of one length, but {place}[0] has shape {parts[0].shape} "
                f"and {place}[{k}] has {part.shape}."
            )
    return np.stack(parts)
