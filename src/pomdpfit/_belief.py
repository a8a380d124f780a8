"""Bayes' rule along panels: filter and smoother, batched over agents, safe from underflow.

A belief is carried as x(s) = u(s) exp(c(s)). The scale c is data (its gradient is stopped) and
keeps entries far below the smallest float apart, so that a state that has looked impossible for
ten thousand periods can come back. The mantissa u is 1, or 0 where x(s) is exactly zero, and
carries the derivatives: those of the plain recursion x P / sigma, exact and finite also where
entries of the kernel are zero.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._kernel import Kernel
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._types import Array, Float, Int

_LARGEST_EXPONENT = 700.0  # exp of more overflows


def update_belief(
    kernel: Kernel,
    z: Int[Array, "*b"],
    x: Float[Array, "*b S"],
    a: Int[Array, "*b"],
    z_next: Int[Array, "*b"],
) -> tuple[Float[Array, "*b"], Float[Array, "*b S"]]:
    """sigma(z', z, x, a) and lambda(z', z, x, a) = x P(z', z, a) / sigma; x itself if sigma = 0."""
    mass = jnp.einsum("...s,...st->...t", x, kernel.transition(z, a, z_next))
    sigma = mass.sum(axis=-1)
    possible = sigma > 0
    belief = mass / jnp.where(possible, sigma, 1.0)[..., None]
    return sigma, jnp.where(possible[..., None], belief, x)


class ScaledBelief(NamedTuple):
    """x(s) = mantissa(s) * exp(scale(s))."""

    mantissa: Float[Array, "*b S"]
    scale: Float[Array, "*b S"]

    @property
    def x(self) -> Float[Array, "*b S"]:
        """The belief as plain numbers; entries below the smallest float are zero."""
        return self.mantissa * jnp.exp(self.scale)

    @property
    def log(self) -> Float[Array, "*b S"]:
        """log x(s), without derivatives."""
        positive = self.mantissa > 0
        return jnp.where(positive, jnp.log(jnp.where(positive, self.mantissa, 1.0)), -jnp.inf) + (
            self.scale
        )


def _scaled(mass: Array, exponent: Array) -> ScaledBelief:
    """mass * exp(exponent) with the size of mass moved into the scale."""
    size = jax.lax.stop_gradient(jnp.where(mass > 0, mass, 1.0))
    return ScaledBelief(mass / size, exponent + jnp.log(size))


def _bayes(
    belief: ScaledBelief, matrix: Float[Array, "*b S S"]
) -> tuple[ScaledBelief, Float[Array, "*b"]]:
    """The next belief x P / sigma and log sigma, where P is substochastic."""
    alive = belief.mantissa > 0
    top = jnp.max(jnp.where(alive, belief.scale, -jnp.inf), axis=-1, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    paths = (matrix > 0) & alive[..., :, None]
    exponent = jnp.max(jnp.where(paths, belief.scale[..., :, None], -jnp.inf), axis=-2)
    exponent = jnp.where(jnp.isfinite(exponent), exponent, top)
    gap = jnp.minimum(belief.scale[..., :, None] - exponent[..., None, :], _LARGEST_EXPONENT)
    mass = (belief.mantissa[..., :, None] * jnp.exp(gap) * matrix).sum(axis=-2)
    highest = jnp.max(exponent, axis=-1, keepdims=True)
    total = (mass * jnp.exp(exponent - highest)).sum(axis=-1)
    possible = total > 0
    log_total = jnp.log(jnp.where(possible, total, 1.0))
    log_sigma = jnp.where(possible, highest[..., 0] + log_total, -jnp.inf)
    relative = jnp.where(
        possible, total / jax.lax.stop_gradient(jnp.where(possible, total, 1.0)), 1.0
    )
    level = jax.lax.stop_gradient(highest[..., 0] + log_total)[..., None]
    return _scaled(mass / relative[..., None], exponent - level), log_sigma


class Filtered(NamedTuple):
    """Beliefs x_t given all that was seen up to t, and log P(z_{t+1} | history, a_t)."""

    belief: Float[Array, "N T S"]
    log_belief: Float[Array, "N T S"]
    log_sigma: Float[Array, "N T"]


def run_filter(kernel: Kernel, panel: PanelArrays, x0: Float[Array, "#N S"]) -> Filtered:
    """Beliefs of every agent and period from x0.

    A transition that is not informative moves the belief by P(s' | z, s, a) and scores nothing;
    where a panel has ended the belief stays.
    """
    N, S = panel.z.shape[0], kernel.states
    start = _scaled(jnp.broadcast_to(x0, (N, S)), jnp.zeros((N, S)))

    def step(belief: ScaledBelief, row: tuple) -> tuple[ScaledBelief, tuple]:
        bayes, log_sigma = _bayes(belief, _matrix(kernel, row))
        return bayes, (belief.x, belief.log, log_sigma)

    _, (x, log_x, log_sigma) = jax.lax.scan(step, start, panel.transitions(kernel.observations))
    by_agent = (jnp.swapaxes(part, 0, 1) for part in (x, log_x, log_sigma))
    return Filtered(*by_agent)


def _matrix(kernel: Kernel, row: tuple) -> Float[Array, "N S S"]:
    """What moves the belief in one period: P(z', .|.), P(.|.) or nothing."""
    z, a, z_next, continues, informs = row  # z is a row of the kernel: (context, z)
    matrix = kernel.transition(z, a, z_next)
    # A matrix whose rows sum to one scores log 1 = 0 up to rounding; masks make that exact.
    matrix = jnp.where(informs[..., None, None], matrix, kernel.predictive(z, a))
    return jnp.where(continues[..., None, None], matrix, jnp.eye(kernel.states))


def run_smoother(kernel: Kernel, panel: PanelArrays, filtered: Filtered) -> Float[Array, "N T S"]:
    """P(s_t | the agent's whole panel).

    Actions tell nothing about s beyond the history that they are chosen on, so the backward
    messages b_t(s) = sum_s' P(z_{t+1}, s' | z_t, s, a_t) b_{t+1}(s') are all there is.
    """

    def step(log_message: Array, row: tuple) -> tuple[Array, Array]:
        matrix = _matrix(kernel, row)
        log_message = jax.nn.logsumexp(jnp.log(matrix) + log_message[..., None, :], axis=-1)
        log_message = log_message - jnp.max(log_message, axis=-1, keepdims=True)
        return log_message, log_message

    last = jnp.zeros(filtered.belief.shape[::2])
    # The last period has no transition: its message is one.
    _, messages = jax.lax.scan(step, last, panel.transitions(kernel.observations), reverse=True)
    return jax.nn.softmax(filtered.log_belief + jnp.swapaxes(messages, 0, 1), axis=-1)
