"""A grid on the belief simplex and its Freudenthal triangulation, for any number of states.

Nodes are the beliefs whose entries are multiples of 1/M. In the coordinates
y_j = M * (x_j + ... + x_{S-1}), j = 1..S-1, they are the integer points of
M >= y_1 >= ... >= y_{S-1} >= 0, and the cell that holds x is found by sorting the fractions of y.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._term_by_term import over_last
from pomdpfit._types import Array, Float, Int

_FEW_STATES = 9  # cells are then found by sums that are written out, which is quicker


def node_count(states: int, resolution: int) -> int:
    """(M + S - 1) choose (S - 1)."""
    return math.comb(resolution + states - 1, states - 1)


@functools.lru_cache(maxsize=64)
def nodes(states: int, resolution: int) -> Float[np.ndarray, "n S"]:
    """All nodes, by y_1, among equals by y_2 and so on: node k is the one of rank k."""
    if states == 1:
        return np.ones((1, 1))
    ascending = itertools.combinations_with_replacement(range(resolution + 1), states - 1)
    y = np.array(list(ascending))[:, ::-1]
    y = y[np.lexsort(y.T[::-1])]
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
    # Vertex v is the base plus one unit in each of the v coordinates with the largest fractions.
    ranks_of = _few_states if states <= _FEW_STATES else _many_states
    ranks, falling = ranks_of(base.astype(int), fraction, resolution)
    ones = jnp.ones((*x.shape[:-1], 1))
    edges = jnp.concatenate([ones, falling, 0.0 * ones], axis=-1)
    return ranks, edges[..., :-1] - edges[..., 1:]


def _few_states(
    base: Int[Array, "*b d"], fraction: Float[Array, "*b d"], _resolution: int
) -> tuple[Int[Array, "*b S"], Float[Array, "*b d"]]:
    """Ranks of the vertices and the fractions from the largest to the smallest, written out."""
    states = base.shape[-1] + 1
    position = _positions(fraction)
    falling = jnp.stack(
        [over_last(jnp.where(position == k, fraction, 0.0)) for k in range(states - 1)], axis=-1
    )
    raised = position[..., None, :] < jnp.arange(states)[:, None]
    return _rank(base[..., None, :] + raised, states), falling


def _many_states(
    base: Int[Array, "*b d"], fraction: Float[Array, "*b d"], resolution: int
) -> tuple[Int[Array, "*b S"], Float[Array, "*b d"]]:
    """The same by sorting, from a table of the terms of a rank.

    Written out it would take S^2 numbers a belief, and products beyond 64 bits.
    """
    states = base.shape[-1] + 1
    order = jnp.argsort(-fraction, axis=-1, stable=True)
    terms, j = jnp.asarray(_rank_terms(states, resolution)), np.arange(states - 1)
    here = terms[j, base]
    rise = jnp.take_along_axis(terms[j, base + 1] - here, order, axis=-1)
    first = here.sum(axis=-1, keepdims=True)
    ranks = jnp.concatenate([first, first + jnp.cumsum(rise, axis=-1)], axis=-1)
    return ranks, jnp.take_along_axis(fraction, order, axis=-1)


def _positions(fraction: Float[Array, "*b d"]) -> Int[Array, "*b d"]:
    """Where each entry stands from the largest to the smallest, of equal ones the first first.

    By counting those before it: the compiler makes vectors of that, and of sorting it does not.
    """
    d = fraction.shape[-1]
    first = np.arange(d)[:, None] < np.arange(d)
    one, other = fraction[..., :, None], fraction[..., None, :]
    return ((one > other) | ((one == other) & first)).sum(axis=-2)


def _rank(y: Int[Array, "*b d"], states: int) -> Int[Array, "*b"]:
    """sum_j C(y_j + S - 1 - j, S - j), j = 1..S-1: the place of a decreasing sequence.

    A product is (S - 1)! times a rank at the most: with few states, far below 2^63.
    """
    total = jnp.zeros(y.shape[:-1], dtype=int)
    for j in range(1, states):
        k = states - j
        product = math.prod(y[..., j - 1] + i for i in range(k))
        total = total + (product if k == 1 else product // math.factorial(k))
    return total


@functools.lru_cache(maxsize=64)
def _rank_terms(states: int, resolution: int) -> Int[np.ndarray, "d M+1"]:
    """C(y + S - 1 - j, S - j) for j = 1..S-1 and y = 0..M."""
    return np.array(
        [
            [math.comb(y + states - 1 - j, states - j) for y in range(resolution + 1)]
            for j in range(1, states)
        ],
        dtype=np.int64,
    )


def between(
    vertex: Int[Array, "*b S"], alpha: Int[np.ndarray, "a S"], states: int, resolution: int
) -> Int[Array, "*b a"]:
    """The numbers, on a grid sum(alpha) times as fine, of the nodes sum_v alpha_v x_v of a cell.

    `vertex` holds the cell's vertices x_v as nodes of the grid of this resolution.
    """
    x = nodes(states, resolution)
    y = np.round(resolution * np.cumsum(x[:, :0:-1], axis=1)[:, ::-1]).astype(int)
    fine = jnp.einsum("av,...vj->...aj", alpha, jnp.asarray(y)[vertex])
    terms = jnp.asarray(_rank_terms(states, resolution * int(alpha[0].sum())))
    return terms[np.arange(states - 1), fine].sum(axis=-1)
