"""Equipment that is good, worn or failing, and can be kept, inspected or overhauled."""

import equinox as eqx
import jax.numpy as jnp

from pomdpfit._constraints import Simplex
from pomdpfit._kernel import Kernel
from pomdpfit._kernel_builders import factored_kernel
from pomdpfit._model import Model, discount_parameter
from pomdpfit._params import Parameter
from pomdpfit._types import Array, Float, Theta

_STATES = ("good", "worn", "failing")
_READINGS = ("low", "medium", "high")


class EquipmentInspection(Model):
    """s: good, worn, failing; z: a vibration reading; a: keep, inspect, overhaul.

    keep:     costs wear[s]; the reading is coarse (`reading`)
    inspect:  costs wear[s] + inspection; the reading is fine (`inspection_reading`)
    overhaul: costs overhaul; the equipment is as good as new and the reading is low
    """

    default_discount: float = eqx.field(static=True, default=0.95)

    def __init__(self, discount: float = 0.95) -> None:
        self.default_discount = discount

    def parameters(self) -> dict[str, Parameter]:
        """Costs, decay, and two qualities of reading."""
        return {
            "wear": Parameter([0.1, 0.8, 3.0], labels=(_STATES,)),
            "inspection": Parameter(0.5),
            "overhaul": Parameter(5.0),
            "decay": Parameter(
                [[0.90, 0.08, 0.02], [0.02, 0.85, 0.13], [0.01, 0.04, 0.95]],
                Simplex(),
                labels=(_STATES, _STATES),
            ),
            "reading": Parameter(
                [[0.60, 0.30, 0.10], [0.30, 0.40, 0.30], [0.15, 0.35, 0.50]],
                Simplex(),
                labels=(_STATES, _READINGS),
            ),
            "inspection_reading": Parameter(
                [[0.90, 0.08, 0.02], [0.07, 0.86, 0.07], [0.02, 0.08, 0.90]],
                Simplex(),
                labels=(_STATES, _READINGS),
            ),
            "discount": discount_parameter(self.default_discount),
        }

    def kernel(self, theta: Theta) -> Kernel:
        """Decay while kept or inspected; an overhaul makes it good."""
        as_new = jnp.broadcast_to(jnp.array([1.0, 0.0, 0.0]), (3, 3))
        decay = jnp.asarray(theta["decay"])
        transition = jnp.stack([decay, decay, as_new], axis=1)
        readings = [theta["reading"], theta["inspection_reading"], as_new]
        return factored_kernel(transition, jnp.stack([jnp.asarray(r) for r in readings], axis=1))

    def reward(self, theta: Theta) -> Float[Array, "3 3 3"]:
        """Costs do not depend on the reading."""
        wear = -jnp.asarray(theta["wear"])
        columns = [wear, wear - theta["inspection"], jnp.full(3, 1.0) * -theta["overhaul"]]
        return jnp.broadcast_to(jnp.stack(columns, axis=-1), (3, 3, 3))

    def state_labels(self) -> tuple[str, ...]:
        """good, worn, failing."""
        return _STATES

    def action_labels(self) -> tuple[str, ...]:
        """keep, inspect, overhaul."""
        return ("keep", "inspect", "overhaul")
