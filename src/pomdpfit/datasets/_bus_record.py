"""One bus as a source tells of it, whichever the source."""

import dataclasses

import numpy as np

from pomdpfit._types import Float, Int


@dataclasses.dataclass(frozen=True)
class Replacement:
    """An engine replaced in month `row`; mileage counts from `odometer` in the months after it."""

    row: int
    odometer: float


@dataclasses.dataclass(frozen=True, eq=False)
class BusRecord:
    """Monthly odometer readings and the replacements of the engine."""

    bus: int
    group: int
    first_month: str | None  # such as "1975-09"; None where the source counts months alone
    odometer: Float[np.ndarray, "T"]
    replacements: tuple[Replacement, ...]

    @property
    def replaced(self) -> Int[np.ndarray, "T"]:
        """1 in months in which the engine is replaced."""
        flags = np.zeros(len(self.odometer), dtype=int)
        flags[[r.row for r in self.replacements]] = 1
        return flags

    @property
    def engine(self) -> Int[np.ndarray, "T"]:
        """How many engines came before the one in the bus."""
        return np.cumsum(self.replaced) - self.replaced

    @property
    def mileage(self) -> Float[np.ndarray, "T"]:
        """Miles since the engine was new."""
        since = np.array([0.0, *(r.odometer for r in self.replacements)])
        return self.odometer - since[self.engine]
