"""Reading coefficients off the grid for many beliefs at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._schemes import AbstractScheme
from pomdpfit._stencil_reads import IN_BOUNDS
from pomdpfit._term_by_term import term_by_term
from pomdpfit._types import Array, Float, Int

ByState = tuple[Float[Array, "*b"], ...]  # derivatives in the probability of each state


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def interpolate(
    scheme: AbstractScheme,
    table: Float[Array, "R m A"],
    row: Int[Array, "*b"],
    x: Float[Array, "*b S"],
) -> Float[Array, "*b A"]:
    """q(x) = sum_v weight_v(x) table[row, position_v(x)], the interpolant of each `row` at x."""
    position, weight = scheme.basis(x)
    return _weighed(weight, _found(scheme, table, row, position))


@interpolate.defjvp
def _interpolate_jvp(
    scheme: AbstractScheme, primals: tuple, tangents: tuple
) -> tuple[Array, Array]:
    """dq = sum_v weight_v dtable_v + sum_s (dq / dx_s) dx_s.

    The slopes of q are the same for all directions, so that a further one costs little.
    """
    (table, row, x), (d_table, _, dx) = primals, tangents
    q, slopes = read(scheme, table, row, x)
    position, weight = scheme.basis(x)
    change = _weighed(weight, _found(scheme, d_table, row, position))
    for s, slope in enumerate(slopes):
        change = change + slope * dx[..., s, None]
    return q, change


def read(
    scheme: AbstractScheme,
    table: Float[Array, "R m A"],
    row: Int[Array, "*b"],
    x: Float[Array, "*b S"],
) -> tuple[Float[Array, "*b A"], tuple[Float[Array, "*b A"], ...]]:
    """q(x), and its derivative in the probability of each state."""
    position, weight = scheme.basis(x)
    found = _found(scheme, table, row, position)
    slopes = []
    for s in range(x.shape[-1]):
        unit = jnp.broadcast_to(np.eye(x.shape[-1])[s], x.shape)
        slope = jax.jvp(lambda x: scheme.basis(x)[1], (x,), (unit,))[1]
        slopes.append(_weighed(slope, found))
    return _weighed(weight, found), tuple(slopes)


def by_state(slopes: tuple[Array, ...], by_q: Float[Array, "*b A"]) -> ByState:
    """The derivative in each state's probability of what has the derivative by_q in q(x)."""
    each = apart(by_q)
    return tuple(term_by_term(map(jnp.multiply, apart(slope), each)) for slope in slopes)


def apart(q: Float[Array, "*b A"]) -> tuple[Float[Array, "*b"], ...]:
    """Action by action: an array with a short last axis is slow to write and to read."""
    return tuple(q[..., k] for k in range(q.shape[-1]))


def add_back(
    scheme: AbstractScheme,
    table: Float[Array, "R m A"],
    row: Int[Array, "*b"],
    x: Float[Array, "*b S"],
    by_q: Float[Array, "*b A"],
) -> Float[Array, "R m A"]:
    """The table, with the derivative in it of what has the derivative by_q in q(x) added."""
    position, weight = scheme.basis(x)
    _, m, A = table.shape
    flat, place = table.reshape(-1, A), ((row * m)[..., None] + position).astype(jnp.uint32)
    flat = flat.at[place].add(weight[..., None] * by_q[..., None, :], mode=IN_BOUNDS)
    return flat.reshape(table.shape)


def _found(
    scheme: AbstractScheme,
    table: Float[Array, "R m A"],
    row: Int[Array, "*b"],
    position: Int[Array, "*b V"],
) -> Float[Array, "*b V A"]:
    """table[row, position]."""
    _, m, A = table.shape
    c = scheme.coefficients
    if m == c * scheme.nodes:
        # Two states: cells are intervals between neighbours. All that a belief reads stands side
        # by side, and is read (in reverse mode: added to) as one piece.
        nodes = table.reshape(table.shape[0], m // c, c, A)
        cells = jnp.concatenate([nodes[:, :-1], nodes[:, 1:]], axis=2).reshape(-1, 2 * c, A)
        cell = (row * (m // c - 1) + jax.lax.div(position[..., 0], c)).astype(jnp.uint32)
        return cells.at[cell].get(mode=IN_BOUNDS)
    place = ((row * m)[..., None] + position).astype(jnp.uint32)
    return table.reshape(-1, A).at[place].get(mode=IN_BOUNDS)


def _weighed(weight: Float[Array, "*b V"], found: Float[Array, "*b V A"]) -> Float[Array, "*b A"]:
    """sum_v weight_v found_v, term by term: compiled into one pass that keeps nothing."""
    return term_by_term(weight[..., v, None] * found[..., v, :] for v in range(weight.shape[-1]))
