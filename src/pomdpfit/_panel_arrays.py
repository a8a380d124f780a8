"""A panel as JAX sees it."""

import equinox as eqx
import jax.numpy as jnp

from pomdpfit._types import Array, Bool, Int


class PanelArrays(eqx.Module):
    """Arrays of equal length and masks; `context` numbers the covariates of each row."""

    z: Int[Array, "N T"]
    a: Int[Array, "N T"]
    continues: Bool[Array, "N T"]
    informs: Bool[Array, "N T"]
    score_observation: Bool[Array, "N T"]
    score_choice: Bool[Array, "N T"]
    epoch: Int[Array, "N T"]
    context: Int[Array, "N T"]

    def transitions(self, observations: int) -> tuple[Array, Array, Array, Array, Array]:
        """(row, a_t, z_{t+1}, whether there is a t+1, whether it informs), period by period.

        A row is (context, z) in tables of all contexts stacked.
        """
        row = self.context * observations + self.z
        z_next = jnp.concatenate([self.z[:, 1:], self.z[:, -1:]], axis=1)
        columns = (row, self.a, z_next, self.continues, self.informs)
        return tuple(jnp.swapaxes(column, 0, 1) for column in columns)  # type: ignore[return-value]
