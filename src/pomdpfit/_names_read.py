"""Which parameters a piece of a model depends on, found by watching what it reads."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from pomdpfit._types import Theta


class _Watched(Mapping):
    """theta, with a note of every name that has been looked up."""

    def __init__(self, theta: Theta) -> None:
        self._theta = theta
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = self._theta[name]
        self.read.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        self.read.update(self._theta)  # whoever lists all of them may use all of them
        return iter(self._theta)

    def __len__(self) -> int:
        return len(self._theta)


def names_read(function: Callable[[Any], Any], theta: Theta) -> frozenset[str]:
    """The names of theta that `function(theta)` looks up."""
    watched = _Watched(theta)

    def look() -> None:
        function(watched)

    jax.eval_shape(look)  # traced: nothing is compiled or computed
    return frozenset(watched.read)
