"""A model without structure: every probability and every reward is a parameter."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Simplex
from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._kernel_builders import dense_kernel
from pomdpfit._model import Model, discount_parameter
from pomdpfit._params import Parameter
from pomdpfit._types import Array, Float, Theta


class Tabular(Model):
    """P(z', s' | z, s, a) and r(z, s, a) free, but for the reward of action 0, which is zero.

    What the paper's Theorems 5 and 6 speak of. `kernel[z, s, a, (z', s')]` has a row of
    probabilities for each (z, s, a); `reward[z, s, a]` an entry for each action but the first.
    """

    observations: int = eqx.field(static=True)
    states: int = eqx.field(static=True)
    actions: int = eqx.field(static=True)
    default_discount: float = eqx.field(static=True)

    def __init__(
        self, observations: int = 2, states: int = 2, actions: int = 2, discount: float = 0.9
    ) -> None:
        sizes = {"observations": observations, "states": states, "actions": actions}
        for name, size in sizes.items():
            if type(size) is not int or size < 1:
                raise ModelError(
                    f"{name} must be a whole number of at least 1, but it is {size!r}."
                )
        self.observations, self.states, self.actions = observations, states, actions
        self.default_discount = discount

    @property
    def sizes(self) -> tuple[int, int, int]:
        """|Z|, |S|, |A|."""
        return self.observations, self.states, self.actions

    def parameters(self) -> dict[str, Parameter]:
        """The kernel, the rewards of all actions but the first, and the discount."""
        Z, S, A = self.sizes
        z, s, a = (tuple(map(str, range(size))) for size in self.sizes)
        # Rows that differ, so that the example is a model with something hidden.
        rng = np.random.default_rng(0)
        rows = rng.dirichlet(np.full(Z * S, 2.0), size=(Z, S, A))
        follow = tuple(f"z'={z1} s'={s1}" for z1 in z for s1 in s)
        parameters = {"kernel": Parameter(rows, Simplex(), labels=(z, s, a, follow))}
        if A > 1:
            reward = np.round(rng.normal(size=(Z, S, A - 1)), 2)
            parameters["reward"] = Parameter(reward, labels=(z, s, a[1:]))
        return {**parameters, "discount": discount_parameter(self.default_discount)}

    def kernel(self, theta: Theta) -> Kernel:
        """As it stands in theta."""
        Z, S, A = self.sizes
        return dense_kernel(jnp.asarray(theta["kernel"]).reshape(Z, S, A, Z, S))

    def reward(self, theta: Theta) -> Float[Array, "Z S A"]:
        """Zero for action 0, theta's for the others."""
        Z, S, A = self.sizes
        first = jnp.zeros((Z, S, 1))
        return first if A == 1 else jnp.concatenate([first, jnp.asarray(theta["reward"])], axis=-1)

    def theta_of(
        self, kernel: Float[np.ndarray, "Z S A Z S"], reward: Float[np.ndarray, "Z S A"]
    ) -> dict[str, np.ndarray]:
        """theta of a model given as tables; the reward of action 0 must be zero."""
        kernel, reward = np.asarray(kernel, dtype=float), np.asarray(reward, dtype=float)
        Z, S, A = self.sizes
        if kernel.shape != (Z, S, A, Z, S) or reward.shape != (Z, S, A):
            raise ModelError(
                f"kernel and reward must have shapes {(Z, S, A, Z, S)} and {(Z, S, A)}, but they "
                f"have {kernel.shape} and {reward.shape}."
            )
        if np.any(reward[..., 0] != 0):
            raise ModelError(
                "the reward of action 0 must be zero here: it is the reference. Shape the rewards "
                "by c(z, s) - discount E[c(z', s') | z, s, a] until it is."
            )
        theta = {"kernel": kernel.reshape(Z, S, A, Z * S)}
        if A > 1:
            theta["reward"] = reward[..., 1:]
        return {**theta, "discount": np.array(self.default_discount)}
