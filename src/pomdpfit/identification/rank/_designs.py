"""All that can be seen in so many periods: every sequence z_0, a_0, z_1, ..., a_{T-1}, z_T.

Listing the sequences turns a design (which agents, for how long) into a panel in which each of
them appears once. With their probabilities as weights, sums over that panel are expectations over
the data that are to come: exact, where a simulation would be noisy.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._model import Primitives
from pomdpfit._panel import Panel
from pomdpfit._types import Float, Int


@dataclasses.dataclass(frozen=True)
class Design:
    """Data to come: agents seen for `periods` transitions, first at each of `z0` (None: every z).

    Each first observation, and each row of a `KnownPrior` with several beliefs, is a kind of agent
    of which there are many.
    """

    periods: int
    z0: int | Sequence[int] | None = 0

    def __post_init__(self) -> None:
        if type(self.periods) is not int or self.periods < 1:
            raise ModelError(
                f"periods must be a whole number of at least 1, but it is {self.periods!r}."
            )

    def first(self, observations: int) -> Int[np.ndarray, "k"]:
        """The first observations, checked."""
        if self.z0 is None:
            return np.arange(observations)
        first = np.atleast_1d(np.asarray(self.z0))
        whole = np.issubdtype(first.dtype, np.integer) and first.size > 0
        if not whole or first.min() < 0 or first.max() >= observations:
            raise ModelError(f"z0 must lie in 0..{observations - 1}, but it is {self.z0!r}.")
        return np.unique(first)


@dataclasses.dataclass(frozen=True, eq=False)
class Sequences:
    """Every possible sequence, and the kind of agent (first z, row of the prior) that it is of."""

    z: Int[np.ndarray, "n T+1"]
    a: Int[np.ndarray, "n T"]
    kind: Int[np.ndarray, "n"]
    x0: Float[np.ndarray, "n S"]

    def panel(self) -> Panel:
        """The sequences as a panel, each once."""
        return Panel.from_arrays(self.z, self.a)


def count_sequences(primitives: Primitives, first: Int[np.ndarray, "k"], periods: int) -> int:
    """How many sequences there are at the most (all that some hidden state makes possible)."""
    follows = _follows(primitives)
    ways = [1] * primitives.observations  # whole numbers: they outgrow floats
    for _ in range(periods):
        ways = [sum(count * ways[z1] for z1, count in row.items()) for row in follows]
    return sum(ways[z] for z in first)


def _follows(primitives: Primitives) -> list[dict[int, int]]:
    """For each z, in how many ways (over actions) each z' can follow."""
    successors, possible = possible_successors(primitives)
    rows: list[dict[int, int]] = []
    for z in range(primitives.observations):
        row: dict[int, int] = {}
        for z1 in successors[z][possible[z]]:
            row[int(z1)] = row.get(int(z1), 0) + 1
        rows.append(row)
    return rows


def possible_successors(primitives: Primitives) -> tuple[np.ndarray, np.ndarray]:
    """z'[z, a, k], and whether it has any mass at an action that can be taken."""
    kernel, Z = primitives.kernel, primitives.observations
    shape = (Z, *kernel.successors.shape[1:])
    successors = np.broadcast_to(np.asarray(kernel.successors), shape)
    mass = np.asarray(kernel.probability).sum(axis=(3, 4))
    possible = np.broadcast_to(mass > 0, shape)
    if primitives.available is not None:
        possible = possible & np.asarray(primitives.available)[:, :, None]
    return successors, possible


def all_sequences(
    primitives: Primitives,
    beliefs: Float[np.ndarray, "p S"],
    first: Int[np.ndarray, "k"],
    periods: int,
) -> Sequences:
    """Every sequence that has a positive probability from some first z and some prior."""
    successors, possible = possible_successors(primitives)
    probability = np.asarray(primitives.kernel.probability)
    probability = np.broadcast_to(probability, (primitives.observations, *probability.shape[1:]))
    kind = np.arange(len(first) * len(beliefs))
    z = np.repeat(first, len(beliefs))[:, None]
    a = np.zeros((len(kind), 0), dtype=int)
    x0 = np.tile(beliefs, (len(first), 1))
    mass = x0
    for _ in range(periods):
        now = z[:, -1]
        ahead = np.einsum("ns,nakst->nakt", mass, probability[now])
        n, action, k = np.nonzero((ahead.sum(axis=-1) > 0) & possible[now])
        z = np.concatenate([z[n], successors[now[n], action, k][:, None]], axis=1)
        a = np.concatenate([a[n], action[:, None]], axis=1)
        kind, x0 = kind[n], x0[n]
        mass = ahead[n, action, k]
        mass = mass / mass.sum(axis=-1, keepdims=True)  # only which entries are zero matters
    return Sequences(z, a, kind, x0)
