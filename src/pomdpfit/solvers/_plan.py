"""In which order to sweep the observations, found from the successor graph.

Observations mostly move one way between resets (mileage grows). Solving them in the order of the
strongly connected components of that graph carries news from the last to the first in one sweep.
Actions that forget everything (resets) are left out of the graph: what they couple is of rank one
for each of them, and put back by Woodbury's formula.

A plan only shapes a preconditioner: a poor one costs time, not accuracy.
"""

import dataclasses

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pomdpfit._kernel import Kernel

_STICKY = 0.5  # a chance of staying above which a block is factorised, if the sweep begins there
_MOST_STICKY = 4


@dataclasses.dataclass(frozen=True)
class Plan:
    """The order of the sweep, or none where observations come back without a reset.

    The first `sticky` blocks are solved densely, the others by passes over what stays there.
    `ahead` and `own` say which slots of each action ever lead on, and which ever stay.
    """

    order: tuple[int, ...] | None
    sticky: int = 0
    ahead: tuple[tuple[int, ...], ...] = ()
    own: tuple[tuple[int, ...], ...] = ()


def make_plan(kernel: Kernel) -> Plan:
    """Last observations first."""
    Z = kernel.observations
    mass = np.asarray(kernel.probability).sum(axis=4).max(axis=3)
    successors = np.broadcast_to(np.asarray(kernel.successors), (Z, *kernel.successors.shape[1:]))
    moves = [not (pattern.everywhere and pattern.blind) for pattern in kernel.sharing()]
    mass = np.where(np.array(moves)[:, None], mass, 0.0) * np.ones((Z, 1, 1))
    here = np.broadcast_to(np.arange(Z)[:, None, None], successors.shape)
    linked, stays = mass > 0, successors == here
    edges = (here[linked], successors[linked])
    graph = coo_array((np.ones(len(edges[0])), edges), shape=(Z, Z)).tocsr()
    # SciPy numbers components so that edges lead from higher numbers to lower ones.
    count, component = connected_components(graph, directed=True, connection="strong")
    if count < Z:
        return Plan(None)
    order = np.argsort(component)
    chance = np.where(stays, mass, 0.0).max(axis=(1, 2), initial=0.0)[order]
    sticky = min(int(np.argmax(np.append(chance, 0.0) <= _STICKY)), _MOST_STICKY)
    ahead, own = ((linked & mask).any(axis=0) for mask in (~stays, stays))
    return Plan(
        tuple(map(int, order)),
        sticky,
        tuple(tuple(map(int, np.flatnonzero(row))) for row in ahead),
        tuple(tuple(map(int, np.flatnonzero(row))) for row in own),
    )
