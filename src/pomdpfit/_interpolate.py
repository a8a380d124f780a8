"""Reading coefficients off the grid for many beliefs at once."""

import functools

import jax
import jax.numpy as jnp

from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float, Int


def interpolate(
    table: Float[Array, "R m A"],
    scheme: AbstractScheme,
    row: Int[Array, "*b"],
    x: Float[Array, "*b S"],
) -> Float[Array, "*b A"]:
    """sum_v weight_v(x) table[row, position_v(x)], the value of the interpolant of `row` at x."""
    position, weight = scheme.basis(x)
    _, m, A = table.shape
    if x.shape[-1] == 2:
        # Cells are intervals between neighbours: all that a belief reads stands side by side, and
        # is read (in reverse mode: added to) as one piece.
        c = scheme.coefficients
        nodes = table.reshape(table.shape[0], m // c, c, A)
        cells = jnp.concatenate([nodes[:, :-1], nodes[:, 1:]], axis=2)
        cells = cells.reshape(-1, 2 * c, A)
        found = cells[(row * (m // c - 1) + position[..., 0] // c).astype(jnp.int32)]
    else:
        found = table.reshape(-1, A)[(row * m)[..., None] + position]
    return _weighed(weight, found)


@jax.custom_jvp
def _weighed(weight: Float[Array, "*b V"], found: Float[Array, "*b V A"]) -> Float[Array, "*b A"]:
    """sum_v weight_v found_v, term by term: compiled into one pass that keeps nothing."""
    return sum(weight[..., v, None] * found[..., v, :] for v in range(weight.shape[-1]))


@_weighed.defjvp
def _weighed_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """As products, which are cheaper to turn round than the terms one by one."""
    (weight, found), (d_weight, d_found) = primals, tangents
    along = functools.partial(jnp.einsum, "...v,...va->...a")
    return _weighed(weight, found), along(d_weight, found) + along(weight, d_found)
