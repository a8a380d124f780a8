"""States, actions and observations: how many there are, and how a place in the file names one."""

import dataclasses
from typing import TYPE_CHECKING

from pomdpfit._nearest import nearest
from pomdpfit.formats._parse import Source, Statement

if TYPE_CHECKING:
    from lark import Token

_MOST_DIGITS = 9  # of a count or an index: far beyond what any table may have


@dataclasses.dataclass(frozen=True)
class Axis:
    """The states, the actions or the observations: names if the file lists them, or a count."""

    kind: str
    size: int
    names: tuple[str, ...] | None
    numbers: dict[str, int] = dataclasses.field(default_factory=dict)

    def labels(self) -> tuple[str, ...]:
        """Names, or numbers."""
        return self.names or tuple(map(str, range(self.size)))

    def label(self, number: int) -> str:
        """The name of one of them, or its number."""
        return self.names[number] if self.names else str(number)

    def find(self, token: "Token", source: Source) -> int | slice:
        """The number of what a token names; all of them for a star."""
        if token.type == "STAR":
            return slice(None)
        if token.type == "INT":
            return self._by_number(token, source)
        if token not in self.numbers:
            hint = nearest(str(token), self.names or ())
            listed = f"the {self.kind}s are {_some(self.names)}"
            without = f"the file counts its {self.kind}s, so they have numbers 0 to {self.size - 1}"
            source.refuse(
                token,
                f"there is no {self.kind} named {str(token)[:80]!r}; "
                f"{listed if self.names else without}.{hint}",
            )
        return self.numbers[token]

    def _by_number(self, token: "Token", source: Source) -> int:
        number = int(token) if len(token) <= _MOST_DIGITS else self.size
        if number >= self.size:
            source.refuse(
                token,
                f"there is no {self.kind} {str(token)[:20]}: there are {self.size}, counted from 0 "
                f"to {self.size - 1}.",
            )
        return number


def read_axis(kind: str, statement: Statement, source: Source) -> Axis:
    """The axis that a `states:`, `actions:` or `observations:` statement describes."""
    first = statement.places[0]
    if first.type == "INT":
        # A count beyond nine digits is refused with the tables that it would make.
        size = int(first) if len(first) <= _MOST_DIGITS else 10**_MOST_DIGITS
        if size == 0:
            source.refuse(first, f"there must be at least one {kind}, but the count is 0.")
        return Axis(kind, size, None)
    numbers: dict[str, int] = {}
    for token in statement.places:
        if token in numbers:
            source.refuse(
                token, f"the {kind} {str(token)[:80]!r} is listed twice: names must differ."
            )
        numbers[str(token)] = len(numbers)
    return Axis(kind, len(numbers), tuple(numbers), numbers)


def _some(names: tuple[str, ...] | None) -> str:
    """The first names, and how many more there are."""
    names = names or ()
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(name[:40] for name in names[:8]) + more
