"""Backward induction: the finite horizon of the paper's Remark 1."""

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator
from pomdpfit._types import Array, Float


def backward_induction(
    operator: BellmanOperator, terminal: Float[Array, "Z n c"], horizon: int
) -> Float[Array, "H Z n c"]:
    """V_0, ..., V_{H-1} with V_H = terminal and V_t = T V_{t+1}; H values follow, V_1..V_H first.

    Returns the continuation V_{t+1} of each epoch t, so that Q_t = r + beta E V_{t+1}.
    """

    def step(value: Array, _: None) -> tuple[Array, Array]:
        return operator(value), value

    _, following = jax.lax.scan(step, terminal, None, length=horizon)
    return jnp.flip(following, axis=0)
