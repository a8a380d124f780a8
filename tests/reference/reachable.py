"""The law of (z, x) on the beliefs that can be reached, listed one by one: no grid.

A law is three arrays (z, x, mass). Beliefs that are equal but for rounding are one, so that where x
is a function of age, or where an action makes everything new, the list stays short.
P[z, s, a, z1, s1] = P(z', s' | z, s, a); policy(z, x) is pi(. | z, x), for arrays too.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Policy = Callable[[np.ndarray, np.ndarray], np.ndarray]
_DIGITS = 13


def in_batches(policy: Policy, size: int) -> Policy:
    """The same, asked for so many pairs at a time: what is compiled is compiled once."""

    def ask(z: np.ndarray, x: np.ndarray) -> np.ndarray:
        short = -len(z) % size
        z = np.append(z, np.zeros(short, dtype=int)).reshape(-1, size)
        x = np.concatenate([x, np.tile(np.eye(x.shape[1])[:1], (short, 1))])
        found = [np.asarray(policy(*pair)) for pair in zip(z, x.reshape(*z.shape, -1), strict=True)]
        return np.concatenate(found)[: z.size - short]

    return ask


class Law(NamedTuple):
    """Pairs (z, x) and their masses."""

    z: np.ndarray
    x: np.ndarray
    mass: np.ndarray


class Life(NamedTuple):
    """Of all periods between two uses of the action that makes everything new."""

    periods: float  # expected
    visits: np.ndarray  # of them, at each z
    mean_belief: np.ndarray  # E[x | z] over these periods
    unfinished: float  # probability of a life that was longer than those listed


def at(z: int, x: np.ndarray) -> Law:
    """All mass on one pair."""
    return Law(np.array([z]), np.array([x], dtype=float), np.ones(1))


def move(P: np.ndarray, law: Law, chosen: np.ndarray) -> Law:
    """A period later, of the mass that takes each action: `chosen` is pi(. | z, x), or a part."""
    z, x, mass = [], [], []
    for a in range(P.shape[2]):
        for z1 in range(len(P)):
            joint = np.einsum("ms,mst->mt", law.x, P[law.z, :, a, z1])
            sigma = joint.sum(axis=1)
            part = law.mass * chosen[:, a] * sigma
            real = part > 0
            z.append(np.full(real.sum(), z1))
            x.append(joint[real] / sigma[real, None])
            mass.append(part[real])
    return _merged(np.concatenate(z), np.concatenate(x), np.concatenate(mass))


def _merged(z: np.ndarray, x: np.ndarray, mass: np.ndarray) -> Law:
    keys = np.column_stack([z, np.round(x, _DIGITS)])
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return Law(z[first], x[first], np.bincount(group.ravel(), weights=mass))


def shares(P: np.ndarray, policy: Policy, law: Law, periods: int, beta: float = 1.0) -> np.ndarray:
    """Frequencies of actions over so many periods, period t with weight beta^t."""
    total, weight = np.zeros(P.shape[2]), 0.0
    for t in range(periods):
        chosen = policy(law.z, law.x)
        total, weight = total + beta**t * (law.mass @ chosen), weight + beta**t
        law = move(P, law, chosen)
    return total / weight


def life(P: np.ndarray, policy: Policy, reset: int, most: int) -> Life:
    """From the period after `reset` (which forgets z and s) to the one in which it is taken again.

    Every life ends like that, so that the frequency of `reset` in the long run is 1 / periods.
    """
    only = np.eye(P.shape[2])[[reset]]
    law = move(P, at(0, np.eye(P.shape[1])[0]), only)
    visits, beliefs = np.zeros(len(P)), np.zeros((len(P), P.shape[1]))
    for _ in range(most):
        np.add.at(visits, law.z, law.mass)
        np.add.at(beliefs, law.z, law.mass[:, None] * law.x)
        chosen = policy(law.z, law.x) * (1 - only)
        law = move(P, law, chosen)
        if not len(law.z) or law.mass.sum() < 1e-15:
            break
    return Life(visits.sum(), visits, beliefs / visits[:, None], law.mass.sum())
