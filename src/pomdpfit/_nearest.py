"""A hint at what was probably meant."""

import difflib
import itertools
from collections.abc import Iterable

_LONGEST, _MOST = 80, 2000  # characters and names: comparing takes the product of the lengths


def nearest(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names as a question; nothing where none is near."""
    if len(name) > _LONGEST:
        return ""
    short = [other for other in itertools.islice(known, _MOST) if len(other) <= _LONGEST]
    close = difflib.get_close_matches(name, short, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
