"""Reading coefficients off the grid for many beliefs at once."""

import functools

import jax
import jax.numpy as jnp

from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float, Int


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
    position, weight = scheme.basis(x)
    found = _found(scheme, table, row, position)
    change = _weighed(weight, _found(scheme, d_table, row, position))
    for s in range(x.shape[-1]):
        unit = jnp.zeros_like(x).at[..., s].set(1.0)
        slope = jax.jvp(lambda x: scheme.basis(x)[1], (x,), (unit,))[1]
        change = change + _weighed(slope, found) * dx[..., s, None]
    return _weighed(weight, found), change


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
        return cells[(row * (m // c - 1) + position[..., 0] // c).astype(jnp.int32)]
    return table.reshape(-1, A)[(row * m)[..., None] + position]


def _weighed(weight: Float[Array, "*b V"], found: Float[Array, "*b V A"]) -> Float[Array, "*b A"]:
    """sum_v weight_v found_v, term by term: compiled into one pass that keeps nothing."""
    each = (weight[..., v, None] * found[..., v, :] for v in range(weight.shape[-1]))
    return functools.reduce(jnp.add, each)
