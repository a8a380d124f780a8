"""Bounds on differences of value, from the moment that everything starts anew.

A reset is an action after which (z', x') is drawn from one law R, whatever came before. Let
D = V_U - V >= 0, delta = V_U - T V_U in [0, gap], and D_R the mean of D under R. Convexity of T
gives  delta + beta P[pi] D <= D <= delta + beta P[pi_U] D,  pi the true policy. Stop both at the
first reset, at time tau:

    D(y) - D_R <= E_U [ sum_{t <= tau} beta^t gap ]                  <= S(y)
    D_R - D(y) <= (1 - E_pi beta^{tau + 1}) D_R                      <= G(y) D_R

S and G are fixed points of linear recursions over the actions that do not reset. Here they are
bounded by piecewise linear functions that satisfy the recursion as an inequality on every cell.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._kernel import Kernel
from pomdpfit._model import Primitives
from pomdpfit._stencil import Stencil
from pomdpfit._types import Array, ArrayLike, Float
from pomdpfit.certificate._cells import CellBounds

_MARGIN = 1e-2  # by which an iterate is blown up before it is tested
_SWEEPS_BETWEEN_TESTS = 25
_MOST_TESTS = 400


def reset_action(kernel: Kernel, available: ArrayLike | None) -> int | None:
    """The first action, available everywhere, whose law of (z', s') is the same at every (z, s)."""
    successors, probability = np.asarray(kernel.successors), np.asarray(kernel.probability)
    for a in range(kernel.actions):
        if available is not None and not np.asarray(available)[:, a].all():
            continue
        law, where = probability[:, a], successors[:, a]
        if (law == law[:1, :, :1, :]).all() and (where == where[:1]).all():
            return a
    return None


def reset_law(kernel: Kernel, a: int) -> tuple[np.ndarray, np.ndarray]:
    """The successors z' and the masses m(s') = R(z', s') of a reset."""
    return np.asarray(kernel.successors)[0, a], np.asarray(kernel.probability)[0, a, :, 0]


def highest_choice(
    primitives: Primitives, bounds: CellBounds, slack: Array | float
) -> Float[Array, "Z A M"]:
    """The largest pi(a | z, x) on each cell when every q lies in [q_low - slack, q_high].

    In a random utility model raising q_a raises P(a) and raising any other q lowers it.
    """
    low, high = jnp.moveaxis(bounds.q_low - slack, 1, -1), jnp.moveaxis(bounds.q_high, 1, -1)
    mask = None if primitives.available is None else primitives.available[:, None, :]
    actions = low.shape[-1]

    def one(a: Array) -> Array:
        q = jnp.where(jnp.arange(actions) == a, high, low)
        return primitives.shock.choice(q, mask)[..., a]

    return jnp.moveaxis(jax.lax.map(one, jnp.arange(actions)), 0, 1)


class Recursion(NamedTuple):
    """f >= now + beta sum_{a no reset} pi_a sum_k sigma_k f(z_k, lambda_k) on every cell."""

    stencil: Stencil
    now: Float[Array, "Z M"]
    pull: Float[Array, "Z A M"]
    bend: Float[Array, "#Z A K M"]

    def __call__(self, f: Float[Array, "Z n"]) -> Float[Array, "Z n"]:
        """The least nodal values that satisfy the inequality with f on the right.

        For piecewise linear f each sigma_k f(z_k, lambda_k) is piecewise linear in x, and exceeds
        its chord over a cell by no more than `bend` times the largest downward bend of f(z_k, .).
        """
        concave = f[:, 1:-1] * 2 - f[:, 2:] - f[:, :-2]
        concave = jnp.maximum(0.0, jnp.max(concave, axis=-1, initial=0.0))
        extra = jnp.einsum("zakm,zak->zam", self.bend, concave[self.stencil.successors])
        ahead = self.stencil(f[..., None])[..., 0]

        def at(end: Array) -> Array:
            return self.now + (self.pull * (end + extra)).sum(axis=1)

        left, right = at(ahead[..., :-1]), at(ahead[..., 1:])
        outside = jnp.full((f.shape[0], 1), -jnp.inf)
        return jnp.maximum(
            jnp.concatenate([left, outside], axis=1), jnp.concatenate([outside, right], axis=1)
        )


def recursion(
    primitives: Primitives,
    stencil: Stencil,
    now: Float[Array, "Z M"],
    choice: Float[Array, "Z A M"],
    reset: int,
) -> Recursion:
    """The recursion up to the first reset, with these choice probabilities."""
    going_on = (jnp.arange(primitives.actions) != reset)[:, None]
    pull = primitives.discount * choice * going_on
    return Recursion(stencil, now, pull, _bend(primitives.kernel, now.shape[1]))


def _bend(kernel: Kernel, cells: int) -> Float[Array, "#Z A K M"]:
    """How far sigma f(lambda) can exceed its chord on a cell, for f of second difference -1.

    f + g is convex for g = y^2 M^2 / 2 at the nodes, and the perspective of a convex function lies
    below its chord. For g's part: sigma y^2 = m(1)^2 / sigma has second derivative
    2 det(P)^2 / sigma^3, and g exceeds the parabola by 1/8 at the most.
    """
    P = jnp.asarray(kernel.probability)
    y = jnp.linspace(0.0, 1.0, cells + 1)
    mass = jnp.einsum("ms,zakst->zakmt", jnp.stack([1 - y, y], axis=-1), P)
    sigma = mass.sum(axis=-1)
    square = jnp.where(sigma > 0, mass[..., 1] ** 2 / jnp.where(sigma > 0, sigma, 1.0), 0.0)
    det = P[..., 0, 0] * P[..., 1, 1] - P[..., 0, 1] * P[..., 1, 0]
    least = jnp.minimum(sigma[..., :-1], sigma[..., 1:])
    most = jnp.maximum(sigma[..., :-1], sigma[..., 1:])
    # Two bounds of the chord's height above sigma y^2; the first is void where sigma vanishes.
    floor = jnp.where(least > 0, least, 1.0)
    curved = (det[..., None] / floor) ** 2 / floor / (4.0 * cells**2)
    curved = jnp.where((least > 0) & jnp.isfinite(curved), curved, jnp.inf)
    height = jnp.minimum(curved, jnp.maximum(square[..., :-1], square[..., 1:]))
    return 0.5 * cells**2 * height + most / 8.0


def supersolution(recursion: Recursion) -> tuple[Float[Array, "Z n"], Array]:
    """f with f >= recursion(f) everywhere, and whether one was found.

    Sweeps from zero; now and then the iterate, made a little larger, is put to the test that is
    the proof: a bounded f >= 0 that satisfies the inequality is at least the sum it bounds.
    """

    def tested(f: Array) -> tuple[Array, Array]:
        candidate = (1.0 + _MARGIN) * f
        return candidate, jnp.all(candidate >= recursion(candidate)) & jnp.all(candidate >= 0)

    def sweep(state: tuple) -> tuple:
        f, _, tests = state
        f = jax.lax.fori_loop(0, _SWEEPS_BETWEEN_TESTS, lambda _, g: recursion(g), f)
        return f, tested(f)[1], tests + 1

    def proceed(state: tuple) -> Array:
        f, found, tests = state
        return ~found & (tests < _MOST_TESTS) & jnp.all(jnp.isfinite(f))

    start = jnp.zeros((recursion.now.shape[0], recursion.now.shape[1] + 1))
    f, found, _ = jax.lax.while_loop(proceed, sweep, (start, jnp.asarray(False), 0))
    return tested(f)[0], found
