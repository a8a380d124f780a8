"""A kernel taken apart: T(s' | s, a) and O(z' | s', a) from their product."""

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._model import Primitives
from pomdpfit._types import Float

# Products of probabilities carry a few rounding errors of 1e-16 each.
_ROUNDING = 1e-12


def factored_tables(
    primitives: Primitives,
) -> tuple[Float[np.ndarray, "A S S"], Float[np.ndarray, "A S Z"], Float[np.ndarray, "A S"]]:
    """T, O and r of a model that is T x O and does not depend on z, or an error naming the place.

    T = sum over z' of P; O = P / T, read off where T is largest. An s' that no s leads to under a
    is never observed; its row is uniform.
    """
    _require_plain(primitives)
    joint, reward = _without_z(primitives)
    transition = joint.sum(axis=2)  # [a, s, s'] of joint[a, s, z', s']
    A, S, Z, _ = joint.shape
    best = transition.argmax(axis=1)  # [a, s']
    a, s1 = np.ogrid[:A, :S]
    mass, parts = transition[a, best, s1], joint[a, best, :, s1]
    reached = mass > 0
    observation = np.full((A, S, Z), 1.0 / Z)
    observation[reached] = parts[reached] / mass[reached][:, None]
    gap = np.abs(transition[:, :, None] * observation.swapaxes(1, 2)[:, None] - joint)
    if gap.max() > _ROUNDING:
        a0, s, z1, s2 = (int(k) for k in np.unravel_index(gap.argmax(), gap.shape))
        raise ModelError(
            "the format holds kernels T(s' | s, a) O(z' | s', a), in which z' depends on the next "
            f"state alone, but P(z'={z1}, s'={s2} | s={s}, a={a0}) is "
            f"{joint[a0, s, z1, s2]:.6g} and differs from such a product by {gap.max():.3g}. "
            "Enlarge the state by what z' depends on."
        )
    return transition, observation, reward


def _require_plain(primitives: Primitives) -> None:
    """Refuse what the format has no words for."""
    if primitives.horizon is not None:
        raise ModelError(
            f"the format has no last epoch, but this model has a horizon of {primitives.horizon}."
        )
    if primitives.available is not None and not np.all(primitives.available):
        z, a = np.argwhere(~np.asarray(primitives.available))[0]
        raise ModelError(
            f"in the format every action is always available, but action {a} is not at z={z}."
        )


def _without_z(primitives: Primitives) -> tuple[np.ndarray, np.ndarray]:
    """P[a, s, z', s'] and r[a, s], the same at every z."""
    kernel, reward = primitives.kernel, np.asarray(primitives.reward)
    law = _law_at(kernel, 0)
    for z in range(1, max(len(kernel.successors), len(kernel.probability))):
        _refuse_difference("kernel", z, _law_at(kernel, z) - law, _ROUNDING)
    for z in range(1, len(reward)):
        _refuse_difference("reward", z, reward[z] - reward[0], 0.0)
    return law.transpose(1, 0, 2, 3), reward[0].T


def _refuse_difference(what: str, z: int, difference: np.ndarray, allowed: float) -> None:
    gap = np.abs(difference)
    if gap.max() > allowed:
        s, a = (int(k) for k in np.unravel_index(gap.argmax(), gap.shape)[:2])
        raise ModelError(
            f"in the format nothing depends on the last observation z, but the {what} at "
            f"(z={z}, s={s}, a={a}) differs from that at z=0 by {gap.max():.3g}. Make z a part "
            "of the state."
        )


def _law_at(kernel: Kernel, z: int) -> Float[np.ndarray, "S A Z S"]:
    """P[s, a, z', s'] at one z; a single row serves them all."""
    row = lambda table: np.asarray(table[z if len(table) > 1 else 0])
    successors, probability = row(kernel.successors), row(kernel.probability)
    law = np.zeros((kernel.states, kernel.actions, kernel.observations, kernel.states))
    for a, k in np.ndindex(*successors.shape):
        law[:, a, successors[a, k]] += probability[a, k]
    return law
