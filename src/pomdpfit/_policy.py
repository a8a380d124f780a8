"""Action values read off the grid at any (z, x), and what follows from them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import BellmanOperator, bellman_operator
from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._errors import ModelError
from pomdpfit._fixed_point import continuation_values
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, ArrayLike, Belief, Float, Int


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


@eqx.filter_jit
def action_values(
    primitives: Primitives, scheme: AbstractScheme, following: Float[Array, "*H Z n c"]
) -> ActionValues:
    """Q = r + beta E V for the value that follows (one for each epoch with a finite horizon)."""
    return action_values_and_gap(bellman_operator(primitives, scheme), following)[0]


def action_values_and_gap(
    operator: BellmanOperator, following: Float[Array, "*H Z n c"]
) -> tuple[ActionValues, Float[Array, "*H Z n c"]]:
    """Q, and T V - V: zero at the value that belongs to the operator's primitives."""
    if operator.primitives.horizon is None:
        q = operator.action_values(following)
        gap = operator.image(q) - following
    else:
        q = jax.lax.map(operator.action_values, following)
        gap = continuation_values(operator) - following
    return ActionValues(_actions_last(q), operator.primitives, operator.scheme), gap


def action_values_along(
    operator: BellmanOperator, moved: Float[Array, "Z n c"]
) -> Float[Array, "Z m A"]:
    """How the table of Q moves with the value that follows."""
    return _actions_last(operator.primitives.discount * operator.stencil(moved))


def action_values_back(
    operator: BellmanOperator, asked: Float[Array, "Z m A"]
) -> Float[Array, "Z n c"]:
    """The transpose: the derivative in the value of what has this one in the table."""
    Z, A, *rest = operator.reward.shape
    q = jnp.moveaxis(asked.reshape(Z, *rest, A), -1, 1)
    return operator.primitives.discount * operator.stencil.back(q)


def _actions_last(q: Float[Array, "*H Z A n c"]) -> Float[Array, "*H Z m A"]:
    q = jnp.moveaxis(q, -3, -1)
    return q.reshape(*q.shape[:-3], -1, q.shape[-1])


def checked_arguments(
    primitives: Primitives, z: ArrayLike, x: Belief, t: ArrayLike | None
) -> tuple[Array, Array, Array | None]:
    """z, x and t broadcast to one shape, or an error: an index out of range would be clamped."""
    z, x = np.asarray(z), np.asarray(x, dtype=float)
    if not np.issubdtype(z.dtype, np.integer):
        raise ModelError(f"z must be an integer, but it has type {z.dtype}.")
    if z.size and (z.min() < 0 or z.max() >= primitives.observations):
        bad = z.min() if z.min() < 0 else z.max()
        raise ModelError(f"z must be one of 0..{primitives.observations - 1}, but it is {bad}.")
    if x.shape[-1:] != (primitives.states,):
        raise ModelError(
            f"a belief has {primitives.states} entries here, but x has shape {x.shape}."
        )
    wrong = ~(x >= 0).all(axis=-1) | ~(np.abs(x.sum(axis=-1) - 1) <= SUM_TOLERANCE)
    if np.any(wrong):
        bad = x[wrong][0]
        raise ModelError(
            "x must be a belief: entries not negative that sum to 1, but it holds "
            f"({', '.join(f'{p:.6g}' for p in bad)}), which sums to {bad.sum():.6g}."
        )
    horizon = primitives.horizon
    if (t is None) != (horizon is None):
        need = "needs the epoch t" if t is None else "takes no epoch t: its horizon is infinite"
        raise ModelError(f"the policy of this model {need}.")
    shape = np.broadcast_shapes(z.shape, x.shape[:-1], () if t is None else np.shape(t))
    belief = jnp.broadcast_to(x, (*shape, x.shape[-1]))
    if t is None or horizon is None:
        return jnp.broadcast_to(z, shape), belief, None
    t = np.asarray(t)
    if t.size and (t.min() < 0 or t.max() >= horizon):
        raise ModelError(f"t must be one of 0..{horizon - 1}, the decision epochs.")
    return jnp.broadcast_to(z, shape), belief, jnp.broadcast_to(t, shape)
