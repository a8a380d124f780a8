"""Which matrix moves the belief from each row of a panel to the next.

All matrices stand in one table: P(z', . | z, ., a) of every successor, then P(. | z, ., a) for
transitions that do not inform, then the identity for rows after which nothing follows, then
zeros for a z' that is no successor. Where each row finds its own depends on the data and on the
successors, not on theta: it is looked up once for all periods, or once for all theta.
"""

import jax.numpy as jnp

from pomdpfit._kernel import Kernel, at_z
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._types import Array, Float, Int


def move_matrices(kernel: Kernel) -> Float[Array, "M S S"]:
    """The table."""
    probability = jnp.asarray(kernel.probability)
    S = kernel.states
    parts = (
        probability.reshape(-1, S, S),
        probability.sum(axis=2).reshape(-1, S, S),
        jnp.eye(S)[None],
        jnp.zeros((1, S, S)),
    )
    return jnp.concatenate(parts)


def find_moves(kernel: Kernel, panel: PanelArrays) -> Int[Array, "T N"]:
    """The place in the table of each row's matrix, periods first."""
    z, a, z_next, continues, informs = panel.transitions(kernel.observations)
    rows, A, K = kernel.probability.shape[:3]
    match = at_z(kernel.successors, z, a) == z_next[..., None]
    slot = jnp.argmax(match, axis=-1)  # padding repeats a real successor, which comes first
    pair = (z if rows > 1 else jnp.zeros_like(z)) * A + a
    blind, nothing = rows * A * K, rows * A * K + rows * A
    seen = jnp.where(match.any(axis=-1), pair * K + slot, nothing + 1)
    # A matrix whose rows sum to one scores log 1 = 0 up to rounding; masks make that exact.
    place = jnp.where(informs, seen, blind + pair)
    return jnp.where(continues, place, nothing).astype(jnp.uint32)
