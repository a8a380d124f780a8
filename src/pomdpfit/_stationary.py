"""The stationary law of (z, x) under the policy, and the mean belief that goes with each z.

mu = mu P, where P moves (z, x) to (z', lambda) with probability pi(a | z, x) sigma(z' | z, x, a).
Beliefs live on a grid; mass that lands between nodes is split by the weights of `Lagrange`, which
keep its mean and its variance (masses of single nodes may therefore be negative). The law is found
by iterating the lazy chain (I + P) / 2, which has no periods; its derivative is the implicit one,
d mu = mu dP (I - P)^#, by the same iteration.
"""

import jax
import jax.numpy as jnp

from pomdpfit._grid import clip
from pomdpfit._kernel import Kernel
from pomdpfit._scene import Scene
from pomdpfit._schemes import Lagrange, law_scheme
from pomdpfit._stencil import Stencil
from pomdpfit._types import Array, Float

_TOLERANCE = 1e-13
_MAX_STEPS = 20_000
_SAME_LAW = 1e-8  # relative to the largest mass
_LEAST_MASS = 1e-10  # of an observation; what is left of one that is never seen again is less


def stationary_beliefs(scene: Scene, cells: int) -> Float[Array, "C Z S"]:
    """E[x | z] in each context, from a grid of so many cells an edge; NaN where there is none.

    That is: everywhere if the chain did not settle or has several laws, as when a hidden state
    never changes; and at observations that the law never visits.
    """
    Z = scene.kernel.observations
    grid = law_scheme(scene.kernel.states, cells)
    beliefs = jnp.asarray(grid.beliefs(scene.kernel.states))

    def one(context: Array, kernel: Kernel) -> Array:
        where = jnp.broadcast_to(jnp.arange(Z)[:, None], (Z, len(beliefs)))
        x = jnp.broadcast_to(beliefs, (Z, *beliefs.shape))
        choice = jnp.exp(scene.log_choice(jnp.full_like(where, context), where, x, None))
        law = _law(_chain(kernel, choice, grid))
        mass = law.sum(axis=1, keepdims=True)
        visited = mass > _LEAST_MASS
        mean = jnp.einsum("zn,ns->zs", law, beliefs) / jnp.where(visited, mass, 1.0)
        mean = clip(mean, 0.0, 1.0)  # what is rarely seen may lie outside by the error of the grid
        return jnp.where(visited, mean / mean.sum(axis=1, keepdims=True), jnp.nan)

    return jax.vmap(one)(jnp.arange(scene.contexts), scene.values.primitives.kernel)


def _chain(kernel: Kernel, choice: Float[Array, "Z n A"], grid: Lagrange) -> Stencil:
    """v -> P v on (Z, n): each action's stencil weighted by the probability of choosing it."""
    position, weight = grid.perspective(jnp.asarray(kernel.probability))
    weight = jnp.moveaxis(choice, -1, 1)[:, :, None, :, None, None] * weight
    return Stencil(
        jnp.broadcast_to(jnp.asarray(kernel.successors), weight.shape[:3]),
        jnp.broadcast_to(position, weight.shape[:-1]),
        weight,
    )


def _law(chain: Stencil) -> Float[Array, "Z n"]:
    """mu, differentiable in the chain's weights."""
    expect = lambda v: chain(v[..., None]).sum(axis=1)[..., 0]
    shape = (chain.weight.shape[0], chain.weight.shape[3])
    like = jax.ShapeDtypeStruct(shape, jnp.float64)
    push = lambda mu: jax.linear_transpose(expect, like)(mu)[0]
    # From two starts: a chain that falls apart into several keeps them apart.
    even, rising = jnp.ones(shape), jnp.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
    starts = jnp.stack([start / start.sum() for start in (even, rising)])
    laws = jax.lax.stop_gradient(_iterate(jax.vmap(lambda m: 0.5 * (m + push(m))), starts))
    gap = jnp.max(jnp.abs(laws[0] - laws[1]))
    mu = jnp.where(gap <= _SAME_LAW * jnp.max(laws[0]), laws[0], jnp.nan)
    # What is solved for is zero: the linear solve adds the derivative and nothing else.
    change = push(mu) - mu
    return mu + _solve(push, expect, mu, change - jax.lax.stop_gradient(change))


def _solve(push, expect, mu, change):  # type: ignore[no-untyped-def]
    """x with x - push(x) + sum(x) mu = change, by the lazy Neumann series; transposable."""
    matvec = lambda x: x - push(x) + x.sum() * mu

    def solve(_, b: Array) -> Array:  # type: ignore[no-untyped-def]
        return _neumann(push, lambda v: v - v.sum() * mu, 0.5 * b) + b.sum() * mu

    def solve_transposed(_, g: Array) -> Array:  # type: ignore[no-untyped-def]
        mean = lambda v: (mu * v).sum()
        return _neumann(expect, lambda v: v - mean(v), 0.5 * g) + mean(g)

    return jax.lax.custom_linear_solve(matvec, change, solve, solve_transposed)


def _neumann(step, project, term):  # type: ignore[no-untyped-def]
    """sum_k ((I + step) / 2)^k term, where `project` takes the stationary component away.

    It does so at every step: what rounding leaves of that component would never die out.
    """

    def proceed(state: tuple) -> Array:
        total, term, k = state
        size = jnp.max(jnp.abs(term))
        return (size > _TOLERANCE * jnp.max(jnp.abs(total))) & (k < _MAX_STEPS)

    def body(state: tuple) -> tuple:
        total, term, k = state
        term = project(0.5 * (term + step(term)))
        return total + term, term, k + 1

    term = project(term)
    total, _, k = jax.lax.while_loop(proceed, body, (term, term, 0))
    return jnp.where(k < _MAX_STEPS, total, jnp.nan)


def _iterate(step, start):  # type: ignore[no-untyped-def]
    """The fixed points of a chain's step from several starts; NaN where they have not settled."""

    def proceed(state: tuple) -> Array:
        law, new, k = state
        return (jnp.max(jnp.abs(new - law)) > _TOLERANCE * jnp.max(new)) & (k < _MAX_STEPS)

    def body(state: tuple) -> tuple:
        _, new, k = state
        return new, step(new), k + 1

    _, law, k = jax.lax.while_loop(proceed, body, (start, step(start), 0))
    return jnp.where(k < _MAX_STEPS, law / law.sum(axis=(1, 2), keepdims=True), jnp.nan)
