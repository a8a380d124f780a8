"""Action values read off the grid at any (z, x), and what follows from them."""

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._bellman import bellman_operator
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float, Int


class ActionValues(eqx.Module):
    """Q(z, x, a), or Q_t(z, x, a) with a finite horizon, as coefficients with actions last."""

    table: Float[Array, "*H Z m A"]
    primitives: Primitives
    scheme: AbstractScheme = eqx.field(static=True)

    def q(
        self, z: Int[Array, "*b"], x: Float[Array, "*b S"], t: Int[Array, "*b"] | None = None
    ) -> Float[Array, "*b A"]:
        """Q(z, x, .)."""
        position, weight = self.scheme.basis(x)
        z = z[..., None]
        entries = self.table[z, position] if t is None else self.table[t[..., None], z, position]
        return (weight[..., None] * entries).sum(axis=-2)

    def available(self, z: Int[Array, "*b"]) -> Array | None:
        """The actions that can be taken at z."""
        return None if self.primitives.available is None else self.primitives.available[z]

    def log_choice(
        self, z: Int[Array, "*b"], x: Float[Array, "*b S"], t: Int[Array, "*b"] | None = None
    ) -> Float[Array, "*b A"]:
        """log pi(a | z, x)."""
        return self.primitives.shock.log_choice(self.q(z, x, t), self.available(z))

    def value(
        self, z: Int[Array, "*b"], x: Float[Array, "*b S"], t: Int[Array, "*b"] | None = None
    ) -> Float[Array, "*b"]:
        """V-bar(z, x) = emax Q(z, x, .)."""
        return self.primitives.shock.emax(self.q(z, x, t), self.available(z))


def action_values(
    primitives: Primitives, scheme: AbstractScheme, following: Float[Array, "*H Z n c"]
) -> ActionValues:
    """Q = r + beta E V for the value that follows (one for each epoch with a finite horizon)."""
    operator = bellman_operator(primitives, scheme)
    if primitives.horizon is None:
        q = operator.action_values(following)
    else:
        q = jax.lax.map(operator.action_values, following)
    q = jnp.moveaxis(q, -3, -1)
    return ActionValues(q.reshape(*q.shape[:-3], -1, q.shape[-1]), primitives, scheme)
