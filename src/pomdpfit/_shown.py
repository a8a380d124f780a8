"""A value in a message: as Python writes it, but never long, whatever it is."""

import reprlib
from typing import Any


class _Brief(reprlib.Repr):
    """Python's own `repr` of a deep nest or of a number of thousands of digits is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 4, 60, 60, 40

    def repr_int(self, x: int, level: int) -> str:
        """A number, if it is not huge."""
        return super().repr_int(x, level) if x.bit_length() <= 1000 else "a huge whole number"


_BRIEF = _Brief()


def cut(text: str) -> str:
    """What another library says, which may quote a whole file: its beginning and its end."""
    return text if len(text) <= 300 else f"{text[:150]} ... {text[-100:]}"


def shown(value: Any) -> str:
    """At most a line."""
    text = _BRIEF.repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
