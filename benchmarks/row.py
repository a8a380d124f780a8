"""One figure of the table: what was measured, what was asked for, and whether that is met."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Row:
    """A figure. `measured` is None where it could not be taken here; the note says why."""

    name: str
    measured: float | None
    unit: str
    target: float | None = None
    at_least: bool = False
    note: str = ""
    points: tuple[tuple[float, float], ...] = ()  # of a curve: (size, seconds)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is no target or no figure."""
        if self.target is None or self.measured is None:
            return None
        above = self.measured >= self.target
        return above if self.at_least else self.measured <= self.target

    @property
    def asked(self) -> str:
        """The target in words."""
        if self.target is None:
            return ""
        return f"{'at least' if self.at_least else 'at most'} {figure(self.target)}"

    @property
    def verdict(self) -> str:
        """Met or not, in words."""
        return {None: "", True: "met", False: "**not met**"}[self.met]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**dataclasses.asdict(self), "met": self.met}


def row_of(values: dict[str, Any]) -> Row:
    """The row that `as_json` wrote."""
    points = tuple((float(x), float(y)) for x, y in values["points"])
    fields = {name: value for name, value in values.items() if name not in {"met", "points"}}
    return Row(**fields, points=points)


def figure(value: float | None) -> str:
    """Three digits, without an exponent where that can be."""
    if value is None:
        return "not measured"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:.1e}"
