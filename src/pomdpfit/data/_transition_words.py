"""What is odd about a transition that the model calls impossible, in the model's words."""

import dataclasses

import numpy as np

from pomdpfit._model import Primitives


@dataclasses.dataclass(frozen=True)
class TransitionWords:
    """The z' that can follow each (z, a), and which actions reset: lead to the same from anywhere.

    For an engine: mileage that falls though the engine is kept, a replacement after which mileage
    does not begin anew, a month with more miles than the model allows.
    """

    successors: np.ndarray
    mass: np.ndarray
    names: tuple[str, ...]
    readings: tuple[str, ...]
    resets: tuple[int, ...]

    @classmethod
    def of(
        cls, primitives: Primitives, names: tuple[str, ...], readings: tuple[str, ...]
    ) -> "TransitionWords":
        """From a kernel that has been checked, with names of actions and observations."""
        kernel = primitives.kernel
        patterns = kernel.sharing()
        resets = [a for a, p in enumerate(patterns) if p.everywhere]
        if len(resets) == len(patterns):  # nothing depends on z: no action resets more than others
            resets = []
        mass = np.asarray(kernel.probability).sum(axis=(3, 4))
        return cls(np.asarray(kernel.successors), mass, names, readings, tuple(resets))

    def kind(self, z: int, a: int, z_next: int) -> str:
        """What is odd, in a few words."""
        follow, name = self._follow(z, a), self.names[a]
        if a in self.resets:
            return f"{name!r} without a reset"
        if z_next < z <= follow.min():
            return f"z falls without {self._reset_names()}"
        if z_next > follow.max():
            return f"z rises too far under {name!r}"
        return f"impossible under {name!r}"

    def says(self, z: int, a: int, z_next: int) -> str:
        """The transition, and what could have followed."""
        return (
            f"z={self.readings[z]} is followed by z'={self.readings[z_next]} after "
            f"{self.names[a]!r} (a={a}), where the model has z' in {self._told(self._follow(z, a))}"
        )

    def barred(self, z: int, a: int) -> str:
        """An action that cannot be taken."""
        return f"{self.names[a]!r} is not available at z={self.readings[z]}"

    def _follow(self, z: int, a: int) -> np.ndarray:
        row, own = (z if len(table) > 1 else 0 for table in (self.successors, self.mass))
        return np.unique(self.successors[row, a][self.mass[own, a] > 0])

    def _reset_names(self) -> str:
        return " or ".join(repr(self.names[a]) for a in self.resets) or "an action that resets it"

    def _told(self, values: np.ndarray) -> str:
        """A range, or a list where there are holes."""
        names = [self.readings[z] for z in values]
        if len(names) == 1:
            return f"{{{names[0]}}}"
        if values[-1] - values[0] == len(values) - 1:
            return f"{names[0]}..{names[-1]}"
        return "{" + ", ".join(names[:8]) + (", ...}" if len(names) > 8 else "}")
