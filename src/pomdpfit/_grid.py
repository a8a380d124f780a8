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
from pomdpfit._term_by_term import over_last
from pomdpfit._types import Array, Float, Int


def node_count(states: int, resolution: int) -> int:
    """(M + S - 1) choose (S - 1)."""
    return math.comb(resolution + states - 1, states - 1)


@functools.lru_cache(maxsize=64)
def nodes(states: int, resolution: int) -> Float[np.ndarray, "n S"]:
    """All nodes, in the order of `_rank`."""
    if states == 1:
        return np.ones((1, 1))
    ascending = itertools.combinations_with_replacement(range(resolution + 1), states - 1)
    y = np.array(list(ascending))[:, ::-1]
    y = y[np.argsort(_rank(y, states))]
    steps = np.concatenate(
        [np.full((len(y), 1), resolution), y, np.zeros((len(y), 1), dtype=int)], axis=1
    )
    return (steps[:, :-1] - steps[:, 1:]) / resolution


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
    if states == 2:  # nothing to sort
        y = clip(resolution * x[..., 1], 0.0, resolution)
        base = jnp.minimum(jnp.floor(y), resolution - 1)
        left, fraction = base.astype(int), y - base
        return jnp.stack([left, left + 1], -1), jnp.stack([1.0 - fraction, fraction], -1)
    y = resolution * jnp.cumsum(x[..., :0:-1], axis=-1)[..., ::-1]
    y = clip(y, 0.0, resolution)
    base = jnp.minimum(jnp.floor(y), resolution - 1)
    fraction = y - base
    position = _positions(fraction)
    falling = jnp.stack(
        [over_last(jnp.where(position == k, fraction, 0.0)) for k in range(states - 1)], axis=-1
    )
    ones = jnp.ones((*x.shape[:-1], 1))
    edges = jnp.concatenate([ones, falling, 0.0 * ones], axis=-1)
    weights = edges[..., :-1] - edges[..., 1:]
    # Vertex v is the base plus one unit in each of the first v coordinates of the order.
    raised = position[..., None, :] < jnp.arange(states)[:, None]
    return _rank(base.astype(int)[..., None, :] + raised, states), weights


def _positions(fraction: Float[Array, "*b d"]) -> Int[Array, "*b d"]:
    """Where each entry stands from the largest to the smallest, of equal ones the first first.

    By counting those before it: the compiler makes vectors of that, and of sorting it does not.
    """
    d = fraction.shape[-1]
    first = np.arange(d)[:, None] < np.arange(d)
    one, other = fraction[..., :, None], fraction[..., None, :]
    return ((one > other) | ((one == other) & first)).sum(axis=-2)


def _rank(y, states: int):  # type: ignore[no-untyped-def]  # numpy in, numpy out
    """sum_j C(y_j + S - 1 - j, S - j), j = 1..S-1: the place of a decreasing sequence."""
    total = 0
    for j in range(1, states):
        k = states - j
        product = math.prod(y[..., j - 1] + i for i in range(k))
        total = total + (product if k == 1 else product // math.factorial(k))
    return total


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
