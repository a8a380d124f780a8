"""Rust's (1987) bus engine: the fully observed ancestor of the paper's model."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Simplex
from pomdpfit._errors import ModelError
from pomdpfit._model import discount_parameter
from pomdpfit._params import Parameter
from pomdpfit._shown import shown
from pomdpfit._types import Array, Float, Theta
from pomdpfit.baselines._mdp import MDP

_RESETS = ("at_zero", "increment")
# Near Rust's Table X, group 4.
_EXAMPLE_INCREMENTS = np.array([0.119, 0.576, 0.287, 0.018])


class BusEngine(MDP):
    """Mileage bin z, action a (keep, replace).

    keep:    r = -0.001 cost z; z moves up by an increment drawn from increment
    replace: r = -RC; z' is 0 (`reset="at_zero"`, the paper's) or drawn from zero by increment
             (`reset="increment"`, Rust's)

    `increments` counts the possible increments 0..increments-1. Mileage beyond the last bin is
    collected there.
    """

    bins: int = eqx.field(static=True, default=175)
    increments: int = eqx.field(static=True, default=4)
    default_discount: float = eqx.field(static=True, default=0.9999)
    reset: str = eqx.field(static=True, default="at_zero")

    def __init__(
        self,
        bins: int = 175,
        increments: int = 4,
        discount: float = 0.9999,
        reset: str = "at_zero",
    ) -> None:
        if reset not in _RESETS:
            raise ModelError(f"reset must be one of {_RESETS}, but it is {shown(reset)}.")
        if increments < 2 or bins < increments:
            raise ModelError(
                f"there must be at least 2 increments and as many bins, but there are {increments} "
                f"increments and {bins} bins."
            )
        self.bins, self.increments, self.default_discount = bins, increments, discount
        self.reset = reset

    def parameters(self) -> dict[str, Parameter]:
        """Rust's theta_1 (RC, cost) and theta_3 (increment), and the discount."""
        steps = tuple(map(str, range(self.increments)))
        return {
            "RC": Parameter(10.0),
            "cost": Parameter(1.2),
            "increment": Parameter(
                _example_increments(self.increments), Simplex(), labels=(steps,)
            ),
            "discount": discount_parameter(self.default_discount),
        }

    def transition(self, theta: Theta) -> Float[Array, "Z 2 Z"]:
        """Increments while the engine is kept, a reset when it is replaced."""
        increment = jnp.asarray(theta["increment"])
        z, step = np.arange(self.bins)[:, None], np.arange(self.increments)
        z_next = np.minimum(z + step, self.bins - 1)
        keep = jnp.zeros((self.bins, self.bins)).at[z, z_next].add(increment)
        # With at least as many bins as increments, row 0 holds the increments as they are.
        new = keep[0] if self.reset == "increment" else jnp.zeros(self.bins).at[0].set(1.0)
        return jnp.stack([keep, jnp.broadcast_to(new, keep.shape)], axis=1)

    def reward(self, theta: Theta) -> Float[Array, "Z 2"]:
        """-0.001 cost z for keeping, -RC for replacing."""
        keep = -0.001 * jnp.asarray(theta["cost"]) * np.arange(self.bins, dtype=float)
        return jnp.stack([keep, jnp.ones(self.bins) * -jnp.asarray(theta["RC"])], axis=1)

    def action_labels(self) -> tuple[str, ...]:
        """keep, replace."""
        return ("keep", "replace")


def _example_increments(count: int) -> np.ndarray:
    """The example row for four increments; longer rows share the last entry, shorter lump it."""
    row = _EXAMPLE_INCREMENTS
    if count < 4:
        return np.append(row[: count - 1], row[count - 1 :].sum())
    return np.append(row[:3], np.full(count - 3, row[3] / (count - 3)))
