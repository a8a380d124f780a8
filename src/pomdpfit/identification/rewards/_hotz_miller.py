"""From choice probabilities to rewards on the belief space (the paper's Theorem 6, Corollary 1).

e_a(z, x) = emax(Q) - Q_a depends on the choice probabilities at (z, x) alone. With the reward of a
reference action a0 known, V = r_a0 + e_a0 + beta E_a0 V is linear in V. Then Q_a = V - e_a, and
r_a = Q_a - beta E_a V must come out linear in the belief.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator, bellman_operator
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme
from pomdpfit._stencil import Stencil
from pomdpfit._types import Array, Float, Int
from pomdpfit.solvers import Plan, linear_solver
from pomdpfit.solvers._stencil_system import apply

_LINEAR_TOLERANCE = 1e-13


class Inverse(NamedTuple):
    """Coefficients of the rewards and of the value, and how well the linear equation was solved."""

    reward: Float[Array, "*H Z A n c"]
    value: Float[Array, "*H Z n c"]
    residual: Float[Array, ""]


def correction_coefficients(
    primitives: Primitives, log_choice: Float[Array, "*H Z n A c"]
) -> Float[Array, "*H Z A n c"]:
    """Coefficients of e_a(pi(z, .)); zero where a is not available."""
    values = log_choice[..., 0]
    closed = jnp.isneginf(values)

    def correction(values: Array) -> Array:
        return jnp.where(closed, 0.0, primitives.shock.correction(values))

    if log_choice.shape[-1] == 1:
        table = correction(values)[..., None]
    else:
        table = jnp.stack(jax.jvp(correction, (values,), (log_choice[..., 1],)), axis=-1)
    return jnp.moveaxis(table, -2, -3)


def invert(
    primitives: Primitives,
    log_choice: Float[Array, "*H Z n A c"],
    known: Float[Array, "Z S"],
    reference: Int[Array, ""],
    scheme: AbstractScheme,
    plan: Plan,
) -> Inverse:
    """All rewards, given those of the reference action; differentiable in `known` and the shock."""
    operator = bellman_operator(primitives, scheme)
    correction = correction_coefficients(primitives, log_choice)
    own = scheme.linear(known)
    if primitives.horizon is None:
        value, residual = _value(operator, own + correction[:, reference], reference, plan)
        return Inverse(_rewards(operator, value, value, correction), value, residual)
    assert primitives.terminal is not None

    def step(following: Array, correction: Array) -> tuple[Array, tuple[Array, Array]]:
        ahead = primitives.discount * operator.stencil(following)[:, reference]
        value = own + correction[:, reference] + ahead
        return value, (_rewards(operator, value, following, correction), value)

    last = scheme.linear(primitives.terminal)
    _, (reward, value) = jax.lax.scan(step, last, correction, reverse=True)
    return Inverse(reward, value, jnp.zeros(()))


def _value(
    operator: BellmanOperator, right: Float[Array, "Z n c"], reference: Int[Array, ""], plan: Plan
) -> tuple[Array, Array]:
    """V = right + beta E_a0 V, refined once, and the residual that is left."""
    ahead = _ahead(operator, reference)
    solve = linear_solver(ahead, plan, _LINEAR_TOLERANCE, transposable=True)

    def lacking(value: Array) -> Array:
        return right + apply(ahead, value) - value

    value = solve(right)
    value = value + solve(lacking(value))
    return value, jnp.max(jnp.abs(lacking(value)))


def _ahead(operator: BellmanOperator, action: Int[Array, ""]) -> Stencil:
    """beta E_a, a row for every z."""
    stencil, Z = operator.stencil.plain(), operator.primitives.observations

    def of_action(table: Array) -> Array:
        return jnp.broadcast_to(table[:, action, None], (Z, 1, *table.shape[2:]))

    weight = operator.primitives.discount * of_action(stencil.weight)
    return Stencil(of_action(stencil.successors), of_action(stencil.position), weight)


def _rewards(
    operator: BellmanOperator,
    value: Float[Array, "Z n c"],
    following: Float[Array, "Z n c"],
    correction: Float[Array, "Z A n c"],
) -> Float[Array, "Z A n c"]:
    """r_a = V - e_a - beta E_a V', NaN where a is not available."""
    ahead = operator.primitives.discount * operator.stencil(following)
    reward = value[:, None] - correction - ahead
    available = operator.primitives.available
    if available is None:
        return reward
    return jnp.where(available[:, :, None, None], reward, jnp.nan)
