"""One agent's arrays, and the epochs in which agents enter, checked."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._types import ArrayLike


def integer_pair(agent: Hashable, z: ArrayLike, a: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """One agent's arrays as integers, a as long as z or one shorter."""
    pair = []
    for name, values in (("z", np.asarray(z)), ("a", np.asarray(a))):
        if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.size == 0):
            raise PanelError(
                f"agent {agent!r}: {name} must be a one-dimensional array of integers, but it has "
                f"type {values.dtype} and shape {values.shape}."
            )
        pair.append(values.astype(int))
    if len(pair[0]) == 0 or len(pair[0]) - len(pair[1]) not in {0, 1}:
        raise PanelError(
            f"agent {agent!r}: a must be as long as z or one shorter, but there are {len(pair[0])} "
            f"observations and {len(pair[1])} actions."
        )
    return pair[0], pair[1]


def integer_pairs(
    agents: Sequence[Hashable],
    z: ArrayLike | Sequence[ArrayLike],
    a: ArrayLike | Sequence[ArrayLike],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """How many z and a each agent has, and all z and all a, one agent after the other."""
    if type(z) is type(a) is np.ndarray and z.ndim == a.ndim == 2:
        (N, T), count = z.shape, a.shape[1]
        if z.dtype.kind in "iu" and a.dtype.kind in "iu" and T > 0 and T - count in {0, 1}:
            return np.full(N, T), np.full(N, count), z.astype(int).ravel(), a.astype(int).ravel()
    each = [integer_pair(agent, z[i], a[i]) for i, agent in enumerate(agents)]
    observed, acted = [z_i for z_i, _ in each], [a_i for _, a_i in each]
    rows, acts = np.array([len(z_i) for z_i in observed]), np.array([len(a_i) for a_i in acted])
    return rows, acts, np.concatenate(observed), np.concatenate(acted)


def entry_epochs(
    entry: ArrayLike | int | Mapping[Hashable, int], agents: Sequence[Hashable]
) -> np.ndarray:
    """The decision epoch of each agent's first row."""
    if isinstance(entry, Mapping):
        missing = [agent for agent in agents if agent not in entry]
        if missing:
            raise PanelError(f"entry has no epoch for agent {missing[0]!r}.")
        entry = np.array([entry[agent] for agent in agents])
    epochs = np.asarray(entry)
    fits = epochs.shape in {(), (len(agents),)} and np.issubdtype(epochs.dtype, np.integer)
    if not fits or epochs.min() < 0:
        raise PanelError(
            f"entry must be one epoch (a whole number from 0) or {len(agents)} of them, but it is "
            f"{entry!r}."
        )
    return np.broadcast_to(epochs, (len(agents),))
