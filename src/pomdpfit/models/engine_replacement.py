"""The paper's model: replace a bus engine whose condition is hidden, given its mileage."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Interval, Real, Simplex
from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._kernel_builders import increment_kernel, join_actions, reset_kernel
from pomdpfit._model import Model, discount_parameter
from pomdpfit._params import Parameter
from pomdpfit._types import Array, Bool, Float, Theta

_STATES = ("good", "bad")
_RESETS = ("at_zero", "increment")
_TOPS = ("collect", "replace")
# Table I of the paper: the truth of the synthetic data.
_TABLE_1_INCREMENTS = ((0.039, 0.333, 0.590, 0.038), (0.181, 0.757, 0.061, 0.001))


class EngineReplacement(Model):
    """Hidden condition s (good, bad), mileage bin z, action a (keep, replace).

    keep:    r = -0.001 cost[s] z; z moves up by an increment drawn from increment[s], s by stay[s]
    replace: r = -RC; the new engine is good; z' is 0 (`reset="at_zero"`, the paper's) or drawn
             from zero by increment[good] (`reset="increment"`, Rust's)

    `increments` counts the possible increments 0..increments-1. Mileage beyond the last bin is
    collected there (`top="collect"`), or an engine that could get there must be replaced
    (`top="replace"`).
    """

    bins: int = eqx.field(static=True, default=175)
    increments: int = eqx.field(static=True, default=4)
    default_discount: float = eqx.field(static=True, default=0.9999)
    reset: str = eqx.field(static=True, default="at_zero")
    top: str = eqx.field(static=True, default="collect")

    def __init__(
        self,
        bins: int = 175,
        increments: int = 4,
        discount: float = 0.9999,
        reset: str = "at_zero",
        top: str = "collect",
    ) -> None:
        if reset not in _RESETS or top not in _TOPS:
            raise ModelError(
                f"reset must be one of {_RESETS} and top one of {_TOPS}, but they are {reset!r} "
                f"and {top!r}."
            )
        if increments < 2 or bins < increments:
            raise ModelError(
                f"there must be at least 2 increments and as many bins, but there are {increments} "
                f"increments and {bins} bins."
            )
        self.bins, self.increments, self.default_discount = bins, increments, discount
        self.reset, self.top = reset, top

    def parameters(self) -> dict[str, Parameter]:
        """The paper's theta_1 (RC, cost), theta_2 (stay), theta_3 (increment), and the discount."""
        steps = tuple(map(str, range(self.increments)))
        return {
            "RC": Parameter(9.243),
            "cost": Parameter([0.2, 1.2], Real(), labels=(_STATES,)),
            "stay": Parameter([0.949, 0.988], Interval(), labels=(_STATES,)),
            "increment": Parameter(
                _example_increments(self.increments), Simplex(), labels=(_STATES, steps)
            ),
            "discount": discount_parameter(self.default_discount),
        }

    def kernel(self, theta: Theta) -> Kernel:
        """Increments while the engine is kept, a reset when it is replaced."""
        stay = jnp.asarray(theta["stay"])
        transition = jnp.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
        keep = increment_kernel(self.bins, transition, theta["increment"])
        first = theta["increment"][0] if self.reset == "increment" else jnp.ones(1)
        law = jnp.stack([first, jnp.zeros_like(first)], axis=-1)
        return join_actions(keep, reset_kernel(self.bins, law))

    def reward(self, theta: Theta) -> Float[Array, "Z 2 2"]:
        """-0.001 cost[s] z for keeping, -RC for replacing."""
        z = jnp.arange(self.bins, dtype=float)[:, None]
        keep = -0.001 * z * jnp.asarray(theta["cost"])
        return jnp.stack([keep, jnp.full_like(keep, 1.0) * -theta["RC"]], axis=-1)

    def available(self) -> Bool[np.ndarray, "Z 2"] | None:
        """Keeping is ruled out near the last bin if the top is one of forced replacement."""
        if self.top == "collect":
            return None
        may_keep = np.arange(self.bins) + self.increments <= self.bins
        return np.stack([may_keep, np.ones(self.bins, dtype=bool)], axis=1)

    def state_labels(self) -> tuple[str, ...]:
        """good, bad."""
        return _STATES

    def action_labels(self) -> tuple[str, ...]:
        """keep, replace."""
        return ("keep", "replace")


def _example_increments(count: int) -> np.ndarray:
    """Table I's rows for four increments; longer rows share the last entry, shorter lump it."""
    rows = np.array(_TABLE_1_INCREMENTS)
    if count < 4:
        return np.concatenate([rows[:, : count - 1], rows[:, count - 1 :].sum(1, keepdims=True)], 1)
    tail = np.repeat(rows[:, 3:] / (count - 3), count - 3, axis=1)
    return np.concatenate([rows[:, :3], tail], axis=1)
