"""A panel as JAX sees it."""

import equinox as eqx
import jax.numpy as jnp

from pomdpfit._types import Array, Bool, Int


class PanelArrays(eqx.Module):
    """Arrays of equal length and masks."""

    z: Int[Array, "N T"]
    a: Int[Array, "N T"]
    continues: Bool[Array, "N T"]
    informs: Bool[Array, "N T"]
    score_observation: Bool[Array, "N T"]
    score_choice: Bool[Array, "N T"]
    epoch: Int[Array, "N T"]

    def transitions(self) -> tuple[Array, Array, Array, Array, Array]:
        """(z_t, a_t, z_{t+1}, whether there is a t+1, whether it informs), period by period."""
        z_next = jnp.concatenate([self.z[:, 1:], self.z[:, -1:]], axis=1)
        columns = (self.z, self.a, z_next, self.continues, self.informs)
        return tuple(jnp.swapaxes(column, 0, 1) for column in columns)  # type: ignore[return-value]
