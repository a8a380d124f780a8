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
from pomdpfit._shown import shown
from pomdpfit._types import Array, Bool, Float, Theta

_STATES = {
    1: ("any",),
    2: ("good", "bad"),
    3: ("good", "worn", "bad"),
}
_RESETS = ("at_zero", "increment")
_TOPS = ("collect", "replace")
_NEW = ("good", "free")
# Table I of the paper: the truth of the synthetic data.
_TABLE_1_INCREMENTS = ((0.039, 0.333, 0.590, 0.038), (0.181, 0.757, 0.061, 0.001))


class EngineReplacement(Model):
    """Hidden condition s (good, bad), mileage bin z, action a (keep, replace).

    keep:    r = -0.001 cost[s] z; z moves up by an increment drawn from increment[s], s by stay[s]
    replace: r = -RC; the new engine is good; z' is 0 (`reset="at_zero"`, the paper's) or drawn
             from zero by the new engine's increment (`reset="increment"`, Rust's)

    `increments` counts the possible increments 0..increments-1. Mileage beyond the last bin is
    collected there (`top="collect"`), or an engine that could get there must be replaced
    (`top="replace"`).

    `conditions` counts the hidden conditions. With two, stay[s] is the probability of remaining in
    s, as in the paper; with more, s moves by the rows of condition[s, s']; with one, nothing is
    hidden. A new engine is in the first (`new="good"`), or in s with probability new[s], which is
    estimated (`new="free"`).
    """

    bins: int = eqx.field(static=True, default=175)
    increments: int = eqx.field(static=True, default=4)
    default_discount: float = eqx.field(static=True, default=0.9999)
    reset: str = eqx.field(static=True, default="at_zero")
    top: str = eqx.field(static=True, default="collect")
    conditions: int = eqx.field(static=True, default=2)
    new: str = eqx.field(static=True, default="good")

    def __init__(
        self,
        bins: int = 175,
        increments: int = 4,
        discount: float = 0.9999,
        reset: str = "at_zero",
        top: str = "collect",
        conditions: int = 2,
        new: str = "good",
    ) -> None:
        options = {"reset": (reset, _RESETS), "top": (top, _TOPS), "new": (new, _NEW)}
        for name, (given, allowed) in options.items():
            if given not in allowed:
                raise ModelError(f"{name} must be one of {allowed}, but it is {shown(given)}.")
        if increments < 2 or bins < increments:
            raise ModelError(
                f"there must be at least 2 increments and as many bins, but there are {increments} "
                f"increments and {bins} bins."
            )
        if type(conditions) is not int or conditions < 1:
            raise ModelError(
                f"conditions must be a whole number of at least 1, but it is {conditions!r}."
            )
        self.bins, self.increments, self.default_discount = bins, increments, discount
        self.reset, self.top, self.conditions, self.new = reset, top, conditions, new

    def parameters(self) -> dict[str, Parameter]:
        """The paper's theta_1 (RC, cost), theta_2 (stay), theta_3 (increment), and the discount."""
        names, steps = self.state_labels(), tuple(map(str, range(self.increments)))
        costs, rows = _example_rows(self.conditions, self.increments)
        hidden: dict[str, Parameter] = {}
        if self.conditions == 2:
            hidden["stay"] = Parameter([0.949, 0.988], Interval(), labels=(names,))
        elif self.conditions > 2:
            matrix = 0.9 * np.eye(self.conditions) + 0.1 / self.conditions
            hidden["condition"] = Parameter(matrix, Simplex(), labels=(names, names))
        if self.new == "free":
            even = np.full(self.conditions, 1 / self.conditions)
            hidden["new"] = Parameter(even, Simplex(), labels=(names,))
        return {
            "RC": Parameter(9.243),
            "cost": Parameter(costs, Real(), labels=(names,)),
            **hidden,
            "increment": Parameter(rows, Simplex(), labels=(names, steps)),
            "discount": discount_parameter(self.default_discount),
        }

    def kernel(self, theta: Theta) -> Kernel:
        """Increments while the engine is kept, a reset when it is replaced."""
        keep = increment_kernel(self.bins, self._transition(theta), theta["increment"])
        new = jnp.eye(self.conditions)[0] if self.new == "good" else jnp.asarray(theta["new"])
        rows = jnp.asarray(theta["increment"])
        first = rows.T if self.reset == "increment" else jnp.ones((1, self.conditions))
        law = first * new  # P(z', s'), with s' drawn before z'
        return join_actions(keep, reset_kernel(self.bins, law))

    def _transition(self, theta: Theta) -> Float[Array, "S S"]:
        if self.conditions == 2:
            stay = jnp.asarray(theta["stay"])[:, None]
            return jnp.where(np.eye(2, dtype=bool), stay, 1 - stay)
        return jnp.ones((1, 1)) if self.conditions == 1 else jnp.asarray(theta["condition"])

    def reward(self, theta: Theta) -> Float[Array, "Z S 2"]:
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
        """good, bad; numbered where there are more than three."""
        numbered = ("good", *(f"worn {k}" for k in range(1, self.conditions)))
        return _STATES.get(self.conditions, numbered)

    def action_labels(self) -> tuple[str, ...]:
        """keep, replace."""
        return ("keep", "replace")


def _example_rows(conditions: int, increments: int) -> tuple[np.ndarray, np.ndarray]:
    """Table I's costs and increments: one condition has their mean, more lie between them."""
    share = np.linspace(0.0, 1.0, conditions) if conditions > 1 else np.array([0.5])
    mix = np.stack([1 - share, share], axis=1)
    return mix @ np.array([0.2, 1.2]), mix @ _example_increments(increments)


def _example_increments(count: int) -> np.ndarray:
    """Table I's rows for four increments; longer rows share the last entry, shorter lump it."""
    rows = np.array(_TABLE_1_INCREMENTS)
    if count < 4:
        return np.concatenate([rows[:, : count - 1], rows[:, count - 1 :].sum(1, keepdims=True)], 1)
    tail = np.repeat(rows[:, 3:] / (count - 3), count - 3, axis=1)
    return np.concatenate([rows[:, :3], tail], axis=1)
