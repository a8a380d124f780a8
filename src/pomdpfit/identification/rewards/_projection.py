"""The model's reward parameters that come nearest to the rewards recovered from choices.

For each theta_1 the rewards are recovered with the reference action's own r(theta_1); what is
minimised is how far they are from the model's, in the units in which choices feel it:

    sum over choices of d' (diag pi - pi pi') d,   d_a = recovered r_a - r_a(theta_1)

which is twice the Kullback-Leibler divergence of the implied choices from pi to second order
(for Gumbel shocks of scale one). d_a is also the recovered Q_a - Q_a0 less the model's.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import EstimationError
from pomdpfit._model import Model
from pomdpfit._params import ParameterSpace
from pomdpfit._policy import ActionValues
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float, Int, Theta
from pomdpfit.identification.rewards._hotz_miller import invert
from pomdpfit.identification.rewards._reward_inversion import reward_table
from pomdpfit.solvers import Plan

_MAX_STEPS = 50
_SMALL = 1e-10  # a step, relative to the parameters
_RANK = 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class Projection:
    """The parameters found, and the root mean square of what they leave unexplained."""

    theta: dict[str, np.ndarray]
    unexplained: float
    steps: int


class Recovery(eqx.Module):
    """All that the residuals depend on beside the reward parameters."""

    model: Model
    theta: dict[str, Array]
    log_choice: Float[Array, "*H Z n A c"]
    z: Array
    x: Array
    t: Array | None
    choice: Float[Array, "n A"]
    weights: Float[Array, "n"]
    reference: Int[Array, ""]
    grid: AbstractScheme = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)

    def residuals(self, free: dict[str, Array]) -> Float[Array, "2 n A"]:
        """Square roots of the terms of the objective, and of the model's rewards themselves.

        Both are linear in rewards; the latter say how small a derivative of the former is nothing.
        """
        primitives = self.model.primitives({**self.theta, **free})
        known = primitives.reward[:, :, self.reference]
        found = invert(primitives, self.log_choice, known, self.reference, self.grid, self.plan)
        values = ActionValues(reward_table(found.reward), primitives, self.grid)
        recovered = values.q(self.z, self.x, self.t)
        own = jnp.einsum("ns,nsa->na", self.x, primitives.reward[self.z])
        gap = jnp.where(self.choice > 0, recovered - own, 0.0)
        gap = gap - (self.choice * gap).sum(axis=-1, keepdims=True)
        return jnp.sqrt(self.choice * self.weights[:, None]) * jnp.stack([gap, own])


@eqx.filter_jit
def _linearised(recovery: Recovery, free: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
    return recovery.residuals(free), jax.jacfwd(recovery.residuals)(free)


def project_rewards(
    recovery: Recovery, space: ParameterSpace, leaves: tuple[str, ...]
) -> Projection:
    """Gauss-Newton within the bounds: one step where rewards are linear in their parameters."""
    own = ParameterSpace({n: dataclasses.replace(space.parameters[n], fixed=False) for n in leaves})
    low, high = np.concatenate(
        [
            np.broadcast_to(
                p.constraint.bounds(), (np.prod(p.constraint.free_shape(p.shape), dtype=int), 2)
            )
            for p in own.parameters.values()
        ]
    ).T
    tree = {name: recovery.theta[name] for name in leaves}
    point = np.asarray(own.to_vector(tree))
    gap, jacobian = _flat(recovery, own, point, tree)
    steps = 0
    while steps < _MAX_STEPS:
        steps += 1
        move = _bounded_step(jacobian, gap, low - point, high - point)
        if np.all(np.abs(move) <= _SMALL * (1.0 + np.abs(point))):
            break
        size, before = 1.0, gap @ gap
        while True:
            ahead = np.clip(point + size * move, low, high)
            new_gap, new_jacobian = _flat(recovery, own, ahead, tree)
            if new_gap @ new_gap <= before or size < 1e-8:
                break
            size /= 2
        point, gap, jacobian = ahead, new_gap, new_jacobian
    else:
        raise EstimationError(
            "the reward parameters nearest to the recovered rewards were not found in "
            f"{_MAX_STEPS} steps: start nearer to them, or use pf.fit."
        )
    theta = {**recovery.theta, **own.check(own.from_vector(point, tree))}
    total = float(jnp.sum(recovery.weights))
    values = {name: np.asarray(leaf) for name, leaf in theta.items()}
    return Projection(values, float(np.sqrt(gap @ gap / total)), steps)


def _flat(
    recovery: Recovery, own: ParameterSpace, point: np.ndarray, base: Theta
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals as one vector, and their derivatives in the free natural coordinates."""
    both, slopes = _linearised(recovery, own.from_vector(point, base))
    jacobian, rewards = np.asarray(own.gradient_vector(slopes)).reshape(2, -1, len(point))
    _refuse_flat(jacobian, rewards, own.free_names)
    return np.ravel(both[0]), jacobian


def _bounded_step(
    jacobian: np.ndarray, gap: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    free = np.linalg.lstsq(jacobian, -gap, rcond=None)[0]
    if np.all((free >= low) & (free <= high)):
        return free
    from scipy.optimize import lsq_linear

    return lsq_linear(jacobian, -gap, (np.minimum(low, 0.0), np.maximum(high, 0.0))).x


def _refuse_flat(jacobian: np.ndarray, rewards: np.ndarray, names: list[str]) -> None:
    """Raise where parameters move the rewards but not what choices tell of them."""
    if not np.isfinite(jacobian).all():
        raise EstimationError("the recovered rewards are not finite: lower the degree.")
    size = np.maximum(np.linalg.norm(jacobian, axis=0), np.linalg.norm(rewards, axis=0))
    _, singular, right = np.linalg.svd(jacobian / np.where(size > 0, size, 1.0), False)
    if singular[-1] > _RANK:
        return
    moved = [name for name, w in zip(names, np.abs(right[-1]), strict=True) if w > 1e-3]
    what = f"{moved[0]}" if len(moved) == 1 else f"{', '.join(moved)} apart from one another"
    raise EstimationError(
        f"choices and dynamics do not tell {what}: the reward of the reference action must be "
        "known, or follow from the others by the model's form. Hold one at a value with "
        "fixed={...}."
    )
