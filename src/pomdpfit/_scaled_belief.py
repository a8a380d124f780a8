"""Bayes' rule in floating point, safe from underflow.

A belief is carried as x(s) = mantissa(s) * 2^exponent(s). Exponents are whole numbers, data
without derivatives; they keep entries far below the smallest float apart, so that a state that
has looked impossible for ten thousand periods can come back. The mantissa carries the
derivatives: those of the plain recursion x P / sigma, exact and finite also where entries are
exactly zero.

Hardly any panel needs that. As long as every positive entry is above 2^-500 all exponents are
zero, the mantissa is the belief, and a step is the plain recursion and one look at its smallest
entry. States come first and agents last, which is how the processor likes it.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._types import Array, Bool, Float, Int

_SMALLEST = -500  # the exponent of the smallest entry that is carried as it is
_NONE = -(2**40)  # the exponent of nothing
_LOG_2 = float(np.log(2.0))


class ScaledBelief(NamedTuple):
    """x(s) = mantissa(s) * 2^exponent(s); `plain` tells that all exponents are zero."""

    mantissa: Float[Array, "S N"]
    exponent: Int[Array, "S N"]
    plain: Bool[Array, ""]

    @property
    def x(self) -> Float[Array, "S N"]:
        """The belief as plain numbers; entries below the smallest float are zero."""
        return self.mantissa * _power_of_two(self.exponent)

    @property
    def log(self) -> Float[Array, "S N"]:
        """log x(s), without derivatives."""
        mantissa = jax.lax.stop_gradient(self.mantissa)
        return jnp.log(mantissa) + self.exponent * _LOG_2


class Step(NamedTuple):
    """What one step of Bayes' rule says: the belief before it, and sigma = factor * 2^exponent."""

    x: Float[Array, "S N"]
    factor: Float[Array, "N"]
    exponent: Int[Array, "N"]


def log_sigma(step: Step) -> Float[Array, "*b N"]:
    """log P(z' | history); minus infinity where z' is impossible."""
    possible = step.factor > 0
    log_factor = jnp.log(jnp.where(possible, step.factor, 1.0))
    return jnp.where(possible, log_factor + step.exponent * _LOG_2, -jnp.inf)


def scaled(x: Float[Array, "S N"]) -> ScaledBelief:
    """The belief x as it is carried."""
    return _normalised(x, jnp.zeros(x.shape, dtype=int))


def underflows(numbers: Float[Array, "*b"]) -> Bool[Array, ""]:
    """Whether a product of two of these may be lost: one of them is positive and below 2^-500."""
    return jnp.any((numbers > 0) & (numbers < 2.0**_SMALLEST))


def bayes(
    belief: ScaledBelief, look_up: Callable[[], Float[Array, "S S N"]], sturdy: Bool[Array, ""]
) -> tuple[ScaledBelief, Step]:
    """The next belief x P / sigma and sigma, where P(s, s') is substochastic and looked up.

    `sturdy` tells that no entry of the kernel `underflows`. Term by term, and with a look-up of its
    own for the careful step: so P is read where it is multiplied, and never written out.
    """
    matrix = look_up()
    mass = functools.reduce(
        jnp.add, (x * row for x, row in zip(belief.mantissa, matrix, strict=True))
    )
    total = mass.sum(axis=0)
    # A tiny total is lifted by a power of two, which changes no bit: its square, in the derivative
    # of the quotient, would be zero, and spoil that of the careful step, which is taken then.
    lift = jnp.where(total < 2.0**_SMALLEST, 2.0**600, 1.0)
    x = lift * mass / jnp.where(total > 0, lift * total, 1.0)
    large = jnp.where(x > 0, x, 1.0).min() >= 2.0**_SMALLEST

    def as_it_is() -> tuple[ScaledBelief, Step]:
        exponent = jnp.zeros(total.shape, dtype=jnp.int32)
        return belief._replace(mantissa=x), Step(belief.mantissa, total, exponent)

    return jax.lax.cond(
        belief.plain & large & sturdy, as_it_is, lambda: _careful_bayes(belief, look_up())
    )


def _careful_bayes(
    belief: ScaledBelief, matrix: Float[Array, "S S N"]
) -> tuple[ScaledBelief, Step]:
    """The same, whatever the sizes.

    mass(s') 2^to(s') = sum_s x(s) P(s, s'), where to(s') is the largest exponent on a path to s',
    so that what is summed is of its own size for each s'.
    """
    exponent = belief.exponent.astype(int)
    alive = jnp.where(belief.mantissa > 0, exponent, _NONE)
    to = jnp.where(matrix > 0, alive[:, None], _NONE).max(axis=0)
    highest = to.max(axis=0)
    # A state without a path has only derivatives, those of the largest entries: exponent zero.
    to = jnp.where(to > _NONE, to, 0)
    highest = jnp.where(highest > _NONE, highest, 0)
    gap = _power_of_two(_within_reach(exponent[:, None] - to))
    mass = (belief.mantissa[:, None] * gap * matrix).sum(axis=0)
    total = (mass * _power_of_two(_within_reach(to - highest))).sum(axis=0)
    # The size of a tiny total goes into the exponent: its square, in derivatives, would be zero.
    own = jnp.where(total > 0, _exponent_of(total), 0)
    mass, total = mass * _power_of_two(-own), total * _power_of_two(-own)
    new = _normalised(mass / jnp.where(total > 0, total, 1.0), to - highest)
    return new, Step(belief.x, total, (highest + own).astype(jnp.int32))


def _normalised(mass: Float[Array, "S N"], exponent: Int[Array, "S N"]) -> ScaledBelief:
    """mass * 2^exponent, with the size of mass moved into the exponent where it is too small."""
    size = exponent + jnp.where(mass > 0, _exponent_of(mass), 0)
    size = jnp.where(size >= _SMALLEST, 0, size)
    up = exponent - size
    mantissa = mass * _power_of_two(jnp.where(mass > 0, up, _within_reach(up)))
    return ScaledBelief(mantissa, size.astype(jnp.int32), jnp.all(size == 0))


def _within_reach(exponent: Int[Array, "*b"]) -> Int[Array, "*b"]:
    """Exponents of factors that are above one for zeros alone, and so matter for derivatives only.

    How much a path with chance zero would have mattered may be no float: 2^500 stands for more,
    which what follows can be multiplied by.
    """
    return jnp.minimum(exponent, -_SMALLEST)


def _power_of_two(exponent: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """2^exponent by its bits; zero if it is no float, and 2^1023 at the most."""
    biased = jnp.clip(exponent.astype(int) + 1023, 0, 2046)
    return jax.lax.bitcast_convert_type(biased << 52, jnp.float64)


def _exponent_of(positive: Float[Array, "*b"]) -> Int[Array, "*b"]:
    """The exponent that a float is stored with."""
    bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(positive), jnp.int64)
    return ((bits >> 52) & 0x7FF) - 1023
