"""log sum_a exp(u_a) over a last axis, and its gradient: the softmax.

A reduction over a short axis keeps the compiler from making one pass of it all: a few actions are
taken one by one. Two need one exponential, not two, and most models have two.
"""

import functools

import jax
import jax.numpy as jnp

from pomdpfit._types import Array, Float

_FEW = 8


def soft_maximum(utility: Float[Array, "*b A"]) -> tuple[Float[Array, "*b"], Float[Array, "*b A"]]:
    """log sum_a exp(u_a) and exp(u_a) / sum_b exp(u_b)."""
    if utility.shape[-1] > _FEW:
        return jax.nn.logsumexp(utility, axis=-1), jax.nn.softmax(utility, axis=-1)
    if utility.shape[-1] == 2:
        top, first, second = _of_two(utility[..., 0], utility[..., 1])
        return top, jnp.stack([first, second], axis=-1)
    top, each = _from_the_top(utility)
    weights = [jnp.exp(u) for u in each]
    total = functools.reduce(jnp.add, weights)
    return top + jnp.log(total), jnp.stack([weight / total for weight in weights], axis=-1)


def log_softmax(utility: Float[Array, "*b A"]) -> Float[Array, "*b A"]:
    """u_a - log sum_b exp(u_b)."""
    if utility.shape[-1] > _FEW:
        return jax.nn.log_softmax(utility, axis=-1)
    _, each = _from_the_top(utility)
    log_total = jnp.log(functools.reduce(jnp.add, map(jnp.exp, each)))
    return jnp.stack([u - log_total for u in each], axis=-1)


def _from_the_top(utility: Float[Array, "*b A"]) -> tuple[Array, list[Array]]:
    """The largest, which no derivative needs to know of, and how far below it each is."""
    each = [utility[..., a] for a in range(utility.shape[-1])]
    top = functools.reduce(jax.lax.max, map(jax.lax.stop_gradient, each))
    return top, [u - top for u in each]


@jax.custom_jvp
def _of_two(first: Array, second: Array) -> tuple[Array, Array, Array]:
    """The soft maximum of two, and their shares."""
    behind = first < second
    below = jnp.exp(-jnp.abs(first - second))
    larger = 1.0 / (1.0 + below)
    smaller = below * larger
    return (
        jnp.maximum(first, second) + jnp.log(1.0 + below),
        jnp.where(behind, smaller, larger),
        jnp.where(behind, larger, smaller),
    )


@_of_two.defjvp
def _of_two_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """In terms of the shares alone: right where the two are equal, too, and at any order."""
    top, first, second = _of_two(*primals)
    change = first * second * (tangents[0] - tangents[1])
    return (top, first, second), (first * tangents[0] + second * tangents[1], change, -change)
