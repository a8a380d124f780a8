"""In which order to sweep the observations, found from the successor graph.

Observations mostly move one way between resets (mileage grows). Solving them in the order of the
strongly connected components of that graph lets one sweep carry news from the last to the first.
Actions after which every z leads to the same few z' (resets) are left out of the graph; what they
couple is of low rank and left to the Krylov method around the sweep.

A plan only shapes a preconditioner: a poor one costs time, never accuracy.
"""

import dataclasses

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pomdpfit._kernel import Kernel


@dataclasses.dataclass(frozen=True)
class Plan:
    """The order of the sweep, and the observations whose own block is inverted densely."""

    order: tuple[int, ...]
    sticky: tuple[int, ...]


def make_plan(kernel: Kernel, sticky_mass: float = 0.5) -> Plan:
    """Last observations first; sticky ones lead to themselves with a large probability."""
    Z = kernel.observations
    mass = np.asarray(kernel.probability).sum(axis=4).max(axis=3)
    successors = np.broadcast_to(np.asarray(kernel.successors), (Z, *kernel.successors.shape[1:]))
    mass = np.broadcast_to(mass, successors.shape)
    moves = [a for a in range(kernel.actions) if not _is_reset(successors[:, a], mass[:, a])]
    successors, mass = successors[:, moves], mass[:, moves]
    here = np.broadcast_to(np.arange(Z)[:, None, None], successors.shape)
    linked = mass > 0
    edges = (here[linked], successors[linked])
    graph = coo_array((np.ones(len(edges[0])), edges), shape=(Z, Z)).tocsr()
    # SciPy numbers components so that edges lead from higher numbers to lower ones.
    _, component = connected_components(graph, directed=True, connection="strong")
    order = np.lexsort((-np.arange(Z), component))
    own = np.where(successors == here, mass, 0.0).max(axis=(1, 2), initial=0.0)
    sticky = np.flatnonzero(own > sticky_mass)
    return Plan(tuple(map(int, order)), tuple(map(int, sticky)))


def _is_reset(successors: np.ndarray, mass: np.ndarray) -> bool:
    """Whether every z has the same possible successors under this action."""
    possible = np.sort(np.where(mass > 0, successors, -1), axis=1)
    return bool((possible == possible[0]).all())
