"""A grid on the belief simplex and its Freudenthal triangulation, for any number of states.

Nodes are the beliefs whose entries are multiples of 1/M. In the coordinates
y_j = M * (x_j + ... + x_{S-1}), j = 1..S-1, they are the integer points of
M >= y_1 >= ... >= y_{S-1} >= 0, and the cell that holds x is found by sorting the fractions of y.
"""

import functools
import itertools
import math
import os

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import GridTooLargeError
from pomdpfit._types import Array, Float, Int


def node_count(states: int, resolution: int) -> int:
    """(M + S - 1) choose (S - 1)."""
    return math.comb(resolution + states - 1, states - 1)


@functools.lru_cache(maxsize=64)
def nodes(states: int, resolution: int) -> Float[np.ndarray, "n S"]:
    """All nodes, in the order of `rank`."""
    if states == 1:
        return np.ones((1, 1))
    ascending = itertools.combinations_with_replacement(range(resolution + 1), states - 1)
    y = np.array(list(ascending))[:, ::-1]
    y = y[np.argsort(np.asarray(_rank_numpy(y, states, resolution)))]
    steps = np.concatenate(
        [np.full((len(y), 1), resolution), y, np.zeros((len(y), 1), dtype=int)], axis=1
    )
    return (steps[:, :-1] - steps[:, 1:]) / resolution


@functools.lru_cache(maxsize=64)
def _binomials(states: int, resolution: int) -> np.ndarray:
    """C(d, k) for d up to M + S and k up to S: the ranking of decreasing sequences."""
    return np.array([[math.comb(d, k) for k in range(states)] for d in range(resolution + states)])


def _rank_numpy(y: np.ndarray, states: int, resolution: int) -> np.ndarray:
    table, j = _binomials(states, resolution), np.arange(1, states)
    return table[y + (states - 1 - j), states - j].sum(axis=-1)


def clip(y: Array, low: float, high: float) -> Array:
    """y between low and high; at the ends, where beliefs often are, its derivative is still one."""
    return y + jax.lax.stop_gradient(jnp.clip(y, low, high) - y)


def locate(
    x: Float[Array, "*b S"], resolution: int
) -> tuple[Int[Array, "*b S"], Float[Array, "*b S"]]:
    """The S vertices of the cell that holds x, as node numbers, and x's barycentric weights."""
    states = x.shape[-1]
    if states == 1:
        return jnp.zeros(x.shape, dtype=int), jnp.ones(x.shape)
    y = resolution * jnp.cumsum(x[..., :0:-1], axis=-1)[..., ::-1]
    y = clip(y, 0.0, resolution)
    base = jnp.minimum(jnp.floor(y), resolution - 1)
    fraction = y - base
    order = jnp.argsort(-fraction, axis=-1, stable=True)
    fraction = jnp.take_along_axis(fraction, order, axis=-1)
    ones = jnp.ones((*x.shape[:-1], 1))
    edges = jnp.concatenate([ones, fraction, 0.0 * ones], axis=-1)
    weights = edges[..., :-1] - edges[..., 1:]
    # Vertex v is the base plus one unit in each of the first v coordinates of the order.
    position = jnp.argsort(order, axis=-1)
    raised = position[..., None, :] < jnp.arange(states)[:, None]
    vertices = base.astype(int)[..., None, :] + raised
    j = jnp.arange(1, states)
    table = jnp.asarray(_binomials(states, resolution))
    return table[vertices + (states - 1 - j), states - j].sum(axis=-1), weights


def refuse_if_too_large(needed: int, what: str) -> None:
    """Raise before anything is allocated if `needed` bytes exceed the machine's memory."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    if needed > 0.8 * total:
        raise GridTooLargeError(
            f"{what} needs about {needed / 2**30:,.1f} GiB, but this machine has "
            f"{total / 2**30:,.1f} GiB. Use fewer nodes, or a kernel with fewer successors."
        )
