"""Bounds that hold on whole cells of the belief grid, for two hidden states.

With V_U convex and piecewise linear, q_U(z, ., a) and T V_U are convex. A convex function lies
below its chord and above every tangent; both are evaluated at a few points of each cell, and what
lies between is bounded by them, not sampled.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._model import Primitives
from pomdpfit._schemes import Linear
from pomdpfit._types import Array, Float
from pomdpfit.certificate._levels import rounding

_PIECES = 4  # points of support in each cell


class CellBounds(NamedTuple):
    """On each cell: bounds of q_U, and of delta = V_U - T V_U from above."""

    q_high: Float[Array, "Z A M"]
    q_low: Float[Array, "Z A M"]
    gap: Float[Array, "Z M"]


def convexified(value: Float[Array, "Z n"], resolution: int) -> Float[Array, "Z n"]:
    """The nodal values less the smallest multiple of y (1 - y) that makes every row convex.

    The solver leaves V convex up to rounding; a proof needs it convex.
    """
    bend = value[:, 2:] - 2 * value[:, 1:-1] + value[:, :-2]
    short = jnp.maximum(0.0, -jnp.min(bend, initial=0.0))
    spare = 4 * jnp.finfo(value.dtype).eps * jnp.max(jnp.abs(value))
    y = jnp.linspace(0.0, 1.0, resolution + 1)
    return value - 0.5 * (short + spare) * resolution**2 * y * (1.0 - y)


def cell_bounds(
    primitives: Primitives, grid: Linear, value: Float[Array, "Z n"], rho: Array
) -> CellBounds:
    """Bounds on every cell for V_U = value + rho / (1 - beta)."""
    M = grid.resolution
    y = jnp.linspace(0.0, 1.0, _PIECES * M + 1)
    q, slope = _lines(primitives, M, value, y)
    mask = None if primitives.available is None else primitives.available[:, None, :]
    by_action = jnp.moveaxis(q, 1, -1)
    best = primitives.shock.emax(by_action, mask)
    tangent = (primitives.shock.choice(by_action, mask) * jnp.moveaxis(slope, 1, -1)).sum(-1)

    left, right = slice(None, -1), slice(1, None)
    width = 1.0 / (_PIECES * M)
    low = _lowest(q[..., left], slope[..., left], q[..., right], slope[..., right], width)
    high = jnp.maximum(q[..., left], q[..., right])
    chord = jax.vmap(lambda row: jnp.interp(y, jnp.linspace(0.0, 1.0, M + 1), row))(value)
    gap = _highest_gap(chord - best, jnp.diff(chord) / width, tangent, width)
    allowance = rounding(value, q)

    def worst(part: Array) -> Array:
        return jnp.max(part.reshape(*part.shape[:-1], M, _PIECES), axis=-1)

    return CellBounds(
        q_high=worst(high) + allowance,
        q_low=-worst(-low) - allowance,
        gap=jnp.maximum(worst(gap), 0.0) + rho + allowance,
    )


def _lines(
    primitives: Primitives, resolution: int, value: Float[Array, "Z n"], y: Float[Array, "m"]
) -> tuple[Float[Array, "Z A m"], Float[Array, "Z A m"]]:
    """q_U(z, x, a) at x(1) = y and a subgradient in y, exactly, from the line V_U follows there."""
    kernel = jnp.asarray(primitives.kernel.probability)
    successors = jnp.asarray(primitives.kernel.successors)
    x = jnp.stack([1.0 - y, y], axis=-1)
    mass = jnp.einsum("ms,zakst->zakmt", x, kernel)
    sigma = mass.sum(axis=-1)
    scaled = resolution * mass[..., 1] / jnp.where(sigma > 0, sigma, 1.0)
    left = jnp.clip(jnp.floor(scaled), 0, resolution - 1).astype(int)
    at_left = value[successors[..., None], left]
    step = value[successors[..., None], left + 1] - at_left
    # The line through both ends of the cell, read at the vertices y = 0 and y = 1.
    ends = jnp.stack([at_left - step * left, at_left + step * (resolution - left)], axis=-1)
    move = kernel[..., 1, :] - kernel[..., 0, :]
    later = jnp.einsum("zakmt,zakmt->zam", mass, ends)
    turn = jnp.einsum("zakt,zakmt->zam", move, ends)
    reward = jnp.moveaxis(primitives.reward, 2, 1)
    now = jnp.einsum("ms,zas->zam", x, reward)
    slope = (reward[..., 1] - reward[..., 0])[..., None]
    beta = primitives.discount
    return now + beta * later, slope + beta * turn


def _lowest(f0: Array, g0: Array, f1: Array, g1: Array, width: float) -> Array:
    """A lower bound of a convex function on a piece, from values and subgradients at its ends."""
    cross = jnp.where(g1 > g0, (f0 - f1 + g1 * width) / jnp.where(g1 > g0, g1 - g0, 1.0), 0.0)
    cross = jnp.clip(cross, 0.0, width)
    inside = jnp.maximum(f0 + g0 * cross, f1 - g1 * (width - cross))
    at_ends = jnp.minimum(jnp.maximum(f0, f1 - g1 * width), jnp.maximum(f1, f0 + g0 * width))
    return jnp.minimum(inside, at_ends)


def _highest_gap(gap: Array, chord_slope: Array, tangent: Array, width: float) -> Array:
    """An upper bound of chord minus convex function on each piece.

    Minus the gap is convex, with slopes tangent - chord_slope.
    """
    return -_lowest(
        -gap[..., :-1],
        tangent[..., :-1] - chord_slope,
        -gap[..., 1:],
        tangent[..., 1:] - chord_slope,
        width,
    )
