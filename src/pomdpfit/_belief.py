"""Bayes' rule along panels: filter and smoother, batched over agents."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._kernel import Kernel
from pomdpfit._moves import find_moves, move_matrices
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._scaled_belief import ScaledBelief, bayes, log_sigma, scaled, underflows
from pomdpfit._types import Array, Float, Int


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
    moves = find_moves(kernel, panel)
    x, log_sigma, log_x = _by_period(kernel, moves, x0, lambda belief: belief.log)
    x, log_x = (jnp.transpose(part, (2, 0, 1)) for part in (x, log_x))
    return Filtered(x, log_x, log_sigma.T)


@jax.jit
def filter_by_period(
    kernel: Kernel, moves: Int[Array, "T N"], x0: Float[Array, "#N S"]
) -> tuple[Float[Array, "T S N"], Float[Array, "T N"]]:
    """Beliefs and log sigma of the same filter, periods first: what the likelihood reads."""
    return _by_period(kernel, moves, x0, lambda belief: None)[:2]


def _by_period(  # type: ignore[no-untyped-def]
    kernel: Kernel,
    moves: Int[Array, "T N"],
    x0: Float[Array, "#N S"],
    further: Callable[[ScaledBelief], Array | None],
):
    matrices = move_matrices(kernel)
    x0 = jnp.broadcast_to(x0, (moves.shape[1], kernel.states))
    look_up = lambda move: jnp.moveaxis(matrices[move], 0, -1)
    return _scan(look_up, moves, ~underflows(matrices), x0, further)


def _scan(  # type: ignore[no-untyped-def]
    matrix: Callable[[Array], Float[Array, "S S N"]],
    rows: Array,
    sturdy: Array,
    x0: Float[Array, "N S"],
    further: Callable[[ScaledBelief], Array | None],
):
    # Reverse mode keeps the beliefs and does the rest of each step again: less to remember.
    @functools.partial(jax.checkpoint, prevent_cse=False)  # a scan needs no barriers
    def step(belief: ScaledBelief, row: Array) -> tuple[ScaledBelief, tuple]:
        after, here = bayes(belief, lambda: matrix(row), sturdy)
        return after, (here, further(belief))

    _, (steps, rest) = jax.lax.scan(step, scaled(x0.T), rows)
    return steps.x, log_sigma(steps), rest


def run_smoother(kernel: Kernel, panel: PanelArrays, filtered: Filtered) -> Float[Array, "N T S"]:
    """P(s_t | the agent's whole panel).

    Actions tell nothing about s beyond the history that they are chosen on, so the backward
    messages b_t(s) = sum_s' P(z_{t+1}, s' | z_t, s, a_t) b_{t+1}(s') are all there is.
    """
    matrices = move_matrices(kernel)

    def step(log_message: Array, move: Array) -> tuple[Array, Array]:
        log_matrix = jnp.log(matrices[move])
        log_message = jax.nn.logsumexp(log_matrix + log_message[..., None, :], axis=-1)
        log_message = log_message - jnp.max(log_message, axis=-1, keepdims=True)
        return log_message, log_message

    last = jnp.zeros(filtered.belief.shape[::2])
    # The last period has no transition: its message is one.
    _, messages = jax.lax.scan(step, last, find_moves(kernel, panel), reverse=True)
    return jax.nn.softmax(filtered.log_belief + jnp.swapaxes(messages, 0, 1), axis=-1)
