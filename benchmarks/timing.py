"""Seconds, the least of several, of things that are measured side by side."""

import dataclasses
import time
from collections.abc import Callable

import jax

Work = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Repeated:
    """Work that is done so many times in one compiled call; told in seconds for one."""

    work: Work
    times: int

    def __call__(self) -> object:
        """All of it."""
        return self.work()


def once(work: Work) -> float:
    """Seconds of one run, until its results are there."""
    began = time.perf_counter()
    jax.block_until_ready(jax.tree.leaves(work()))
    took = time.perf_counter() - began
    return took / work.times if isinstance(work, Repeated) else took


def least(work: Work, repetitions: int = 5) -> float:
    """Seconds of the fastest of several runs, after one that compiles."""
    once(work)
    return min(once(work) for _ in range(repetitions))


def side_by_side(
    works: dict[str, Work], repetitions: int = 5, budget: float = 60.0
) -> dict[str, float]:
    """Seconds of each, the least of several rounds in which they take turns.

    Turns, because the load of a machine changes while it is measured: a ratio of two minima is
    fair only if both had the same chances. Within a round a short work is run several times, up to
    0.2 s. Rounds end once they have taken `budget` seconds in all.
    """
    first = {name: (once(work), once(work))[1] for name, work in works.items()}
    found, spent = dict(first), 0.0
    for _ in range(repetitions):
        if spent > budget:
            break
        for name, work in works.items():
            for _ in range(max(1, min(50, int(0.2 / max(first[name], 1e-6))))):
                seconds = once(work)
                spent += seconds
                found[name] = min(found[name], seconds)
    return found
