"""The tiger problem: two doors, a tiger behind one of them, and a listening device that errs."""

import equinox as eqx
import jax.numpy as jnp

from pomdpfit._constraints import Interval
from pomdpfit._kernel import Kernel
from pomdpfit._kernel_builders import factored_kernel
from pomdpfit._model import Model, discount_parameter
from pomdpfit._params import Parameter
from pomdpfit._shocks import AbstractShock, Gumbel
from pomdpfit._types import Array, Float, Theta


class Tiger(Model):
    """s: tiger left or right; a: listen, open left, open right; z: growl heard left or right.

    Listening costs `listen` and is right with probability `accuracy`; opening pays `gold`, or
    costs `mauled` at the tiger's door, and puts the tiger behind a door drawn anew.
    """

    default_discount: float = eqx.field(static=True, default=0.95)
    scale: float = eqx.field(static=True, default=1.0)

    def __init__(self, discount: float = 0.95, scale: float = 1.0) -> None:
        self.default_discount, self.scale = discount, scale

    def parameters(self) -> dict[str, Parameter]:
        """Accuracy 0.85, rewards -1, 10 and -100."""
        return {
            "listen": Parameter(-1.0),
            "gold": Parameter(10.0),
            "mauled": Parameter(-100.0),
            "accuracy": Parameter(0.85, Interval()),
            "discount": discount_parameter(self.default_discount),
        }

    def kernel(self, theta: Theta) -> Kernel:
        """Listening leaves the tiger; opening moves it, and what is heard then means nothing."""
        half, p = jnp.full((2, 2), 0.5), theta["accuracy"]
        transition = jnp.stack([jnp.eye(2), half, half], axis=1)
        hear = jnp.array([[p, 1 - p], [1 - p, p]])
        return factored_kernel(transition, jnp.stack([hear, half, half], axis=1))

    def reward(self, theta: Theta) -> Float[Array, "2 2 3"]:
        """Rows: tiger left, tiger right; columns: listen, open left, open right."""
        listen, gold, mauled = theta["listen"], theta["gold"], theta["mauled"]
        by_state = jnp.array([[listen, mauled, gold], [listen, gold, mauled]])
        return jnp.broadcast_to(by_state, (2, 2, 3))

    def shock(self, theta: Theta) -> AbstractShock:
        """Gumbel of the model's scale; as it goes to zero the classical problem returns."""
        return Gumbel(self.scale)

    def state_labels(self) -> tuple[str, ...]:
        """Where the tiger is."""
        return ("left", "right")

    def action_labels(self) -> tuple[str, ...]:
        """listen, open left, open right."""
        return ("listen", "open left", "open right")
