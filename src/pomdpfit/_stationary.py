"""The stationary law of (z, x) under the policy, and the mean belief that goes with each z.

mu = mu P, where P moves (z, x) to (z', lambda) with probability pi(a | z, x) sigma(z' | z, x, a).
Beliefs live on a grid; mass that lands between nodes is split by barycentric weights, which keeps
its mean. The law is found by iterating the lazy chain (I + P) / 2, which has no periods; its
derivative is the implicit one, d mu = mu dP (I - P)^#, by the same iteration.
"""

import jax
import jax.numpy as jnp

from pomdpfit._bellman import Stencil
from pomdpfit._kernel import Kernel
from pomdpfit._scene import Scene
from pomdpfit._schemes import Linear
from pomdpfit._types import Array, Float

_TOLERANCE = 1e-13
_MAX_STEPS = 20_000


def stationary_beliefs(scene: Scene, nodes: int) -> Float[Array, "C Z S"]:
    """E[x | z] in each context; NaN where the chain did not settle."""
    Z = scene.kernel.observations
    grid = Linear(nodes)
    beliefs = jnp.asarray(grid.beliefs(scene.kernel.states))

    def one(context: Array, kernel: Kernel) -> Array:
        where = jnp.broadcast_to(jnp.arange(Z)[:, None], (Z, len(beliefs)))
        x = jnp.broadcast_to(beliefs, (Z, *beliefs.shape))
        choice = jnp.exp(scene.log_choice(jnp.full_like(where, context), where, x, None))
        law = _law(_chain(kernel, choice, grid))
        mass = law.sum(axis=1, keepdims=True)
        return jnp.einsum("zn,ns->zs", law, beliefs) / jnp.where(mass > 0, mass, jnp.nan)

    return jax.vmap(one)(jnp.arange(scene.contexts), scene.values.primitives.kernel)


def _chain(kernel: Kernel, choice: Float[Array, "Z n A"], grid: Linear) -> Stencil:
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
    mu = _iterate(lambda m: 0.5 * (m + push(m)), jnp.full(shape, 1.0 / (shape[0] * shape[1])))
    mu = jax.lax.stop_gradient(mu)
    # At the law itself push(mu) - mu is zero: the linear solve adds nothing but the derivative.
    return mu + _solve(push, expect, mu, push(mu) - mu)


def _solve(push, expect, mu, change):  # type: ignore[no-untyped-def]
    """x with x - push(x) + sum(x) mu = change, by the lazy Neumann series; transposable."""
    matvec = lambda x: x - push(x) + x.sum() * mu

    def solve(_, b: Array) -> Array:  # type: ignore[no-untyped-def]
        total = b.sum()
        series = _neumann(push, 0.5 * (b - total * mu))
        return series + total * mu

    def solve_transposed(_, g: Array) -> Array:  # type: ignore[no-untyped-def]
        mean = (mu * g).sum()
        return _neumann(expect, 0.5 * (g - mean)) + mean

    return jax.lax.custom_linear_solve(matvec, change, solve, solve_transposed)


def _neumann(step, term):  # type: ignore[no-untyped-def]
    """sum_k ((I + step) / 2)^k term, for a term without a stationary component."""

    def proceed(state: tuple) -> Array:
        total, term, k = state
        size = jnp.max(jnp.abs(term))
        return (size > _TOLERANCE * jnp.max(jnp.abs(total))) & (k < _MAX_STEPS)

    def body(state: tuple) -> tuple:
        total, term, k = state
        term = 0.5 * (term + step(term))
        return total + term, term, k + 1

    total, _, k = jax.lax.while_loop(proceed, body, (term, term, 0))
    return jnp.where(k < _MAX_STEPS, total, jnp.nan)


def _iterate(step, start):  # type: ignore[no-untyped-def]
    """The fixed point of a chain's step; NaN where it has not settled."""

    def proceed(state: tuple) -> Array:
        law, new, k = state
        return (jnp.max(jnp.abs(new - law)) > _TOLERANCE * jnp.max(new)) & (k < _MAX_STEPS)

    def body(state: tuple) -> tuple:
        _, new, k = state
        return new, step(new), k + 1

    _, law, k = jax.lax.while_loop(proceed, body, (start, step(start), 0))
    return jnp.where(k < _MAX_STEPS, law / law.sum(), jnp.nan)
