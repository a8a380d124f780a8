"""Numbers for all entries of some leaves of theta: counted leaf by leaf, in the order of names."""

from collections.abc import Iterable, Mapping

import numpy as np

from pomdpfit._types import Bool, Float, Theta


def count_entries(leaves: Iterable) -> int:
    """How many there are."""
    return sum(np.size(leaf) for leaf in leaves)


def leaf_by_leaf(entries: Float[np.ndarray, "*t e"], like: Theta) -> dict[str, np.ndarray]:
    """A row of numbers (or many) as leaves of these shapes."""
    names, front = sorted(like), entries.shape[:-1]
    ends = np.cumsum([np.size(like[name]) for name in names])
    parts = np.split(entries, ends[:-1], axis=-1)
    each = zip(names, parts, strict=True)
    return {name: part.reshape((*front, *np.shape(like[name]))) for name, part in each}


def entries_along(
    directions: Mapping[str, Float[np.ndarray, "p *shape"]], like: Theta
) -> Float[np.ndarray, "p e"]:
    """Directions as rows over the entries; leaves that they do not name stay."""
    count = len(next(iter(directions.values())))
    rows = [np.zeros((count, 0))]
    for name in sorted(like):
        still = np.zeros((count, *np.shape(like[name])))
        rows.append(np.reshape(directions.get(name, still), (count, np.size(like[name]))))
    return np.concatenate(rows, axis=1)


def entries_of(along: Float[np.ndarray, "p e"]) -> Bool[np.ndarray, "e"]:
    """Those that some direction has."""
    return np.asarray(along.any(axis=0))
