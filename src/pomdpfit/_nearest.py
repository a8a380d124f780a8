"""A hint at what was probably meant."""

import difflib
import itertools
from collections.abc import Iterable

_LONGEST, _MOST = 80, 2000  # characters and names: comparing takes the product of the lengths


def closest(name: str, known: Iterable[str]) -> str | None:
    """The nearest of the known names; None where none is near."""
    if len(name) > _LONGEST:
        return None
    short = [other for other in itertools.islice(known, _MOST) if len(other) <= _LONGEST]
    close = difflib.get_close_matches(name, short, n=1)
    return close[0] if close else None


def nearest(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names as a question; nothing where none is near."""
    close = closest(name, known)
    return "" if close is None else f" Did you mean {close!r}?"
