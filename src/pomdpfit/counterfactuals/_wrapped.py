"""Models that change one thing about another model and leave the rest, theta included."""

from collections.abc import Hashable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._labels import action_names
from pomdpfit._model import Model, require_model
from pomdpfit._nearest import nearest
from pomdpfit._params import Parameter
from pomdpfit._shocks import AbstractShock
from pomdpfit._types import ArrayLike, Bool, Float, Theta


def sizes(model: Model) -> tuple[int, int, int]:
    """|Z|, |S|, |A| of a model, from the shape of its reward; nothing is computed."""
    shape = jax.eval_shape(lambda theta: jnp.asarray(model.reward(theta)), model.example()).shape
    if len(shape) != 3:
        raise ModelError(f"reward must have shape (Z, S, A), but it has {shape}.")
    return shape


class AbstractWrapped(Model):
    """A model inside another one, which passes on all that it does not override."""

    model: Model

    def parameters(self) -> dict[str, Parameter]:
        """Those of the inner model."""
        return self.model.parameters()

    def kernel(self, theta: Theta) -> Kernel:
        """That of the inner model."""
        return self.model.kernel(theta)

    def reward(self, theta: Theta) -> Float[ArrayLike, "Z S A"]:
        """That of the inner model."""
        return self.model.reward(theta)

    def discount(self, theta: Theta) -> ArrayLike:
        """That of the inner model."""
        return self.model.discount(theta)

    def shock(self, theta: Theta) -> AbstractShock:
        """That of the inner model."""
        return self.model.shock(theta)

    def available(self) -> Bool[np.ndarray, "Z A"] | None:
        """As in the inner model."""
        return self.model.available()

    def horizon(self) -> int | None:
        """As in the inner model."""
        return self.model.horizon()

    def terminal(self, theta: Theta) -> Float[ArrayLike, "Z S"] | None:
        """That of the inner model."""
        return self.model.terminal(theta)

    def state_labels(self) -> tuple[str, ...] | None:
        """As in the inner model."""
        return self.model.state_labels()

    def action_labels(self) -> tuple[str, ...] | None:
        """As in the inner model."""
        return self.model.action_labels()

    def observation_labels(self) -> tuple[str, ...] | None:
        """As in the inner model."""
        return self.model.observation_labels()

    def group_labels(self) -> tuple[Hashable, ...] | None:
        """As in the inner model."""
        return self.model.group_labels()


class Restricted(AbstractWrapped):
    """The same model with fewer actions.

    `available` names the actions that are left (labels or numbers), or is a boolean mask of shape
    (A,) or (Z, A). What the model itself rules out stays ruled out.
    """

    model: Model
    mask: Bool[np.ndarray, "Z A"]

    def __init__(self, model: Model, available: ArrayLike | Sequence) -> None:
        require_model(model)
        Z, _, A = sizes(model)
        mask = np.asarray(available)
        if mask.dtype != bool:
            mask = _kept(list(available), action_names(model, A))
        if mask.shape not in {(A,), (Z, A)}:
            raise ModelError(
                f"available must be a mask of shape ({A},) or ({Z}, {A}), or the names of the "
                f"actions that are left, but it has shape {mask.shape}."
            )
        own = model.available()
        mask = np.broadcast_to(mask, (Z, A)) & (True if own is None else np.asarray(own))
        if not mask.any(axis=1).all():
            z = int(np.argmin(mask.any(axis=1)))
            raise ModelError(f"at least one action must be left, but at z={z} there is none.")
        self.model, self.mask = model, mask

    def available(self) -> Bool[np.ndarray, "Z A"]:
        """What the model allows and the mask leaves."""
        return self.mask


def action_number(action: str | int, names: Sequence[str]) -> int:
    """The number of an action given by name or number, or an error that lists them."""
    if isinstance(action, str) and action in names:
        return list(names).index(action)
    whole = isinstance(action, int | np.integer) and not isinstance(action, bool)
    if whole and 0 <= int(action) < len(names):
        return int(action)
    raise ModelError(
        f"there is no action {action!r}; the actions are {', '.join(names)} (0..{len(names) - 1})."
        f"{nearest(str(action), names)}"
    )


def _kept(actions: Sequence[str | int], names: Sequence[str]) -> Bool[np.ndarray, "A"]:
    mask = np.zeros(len(names), dtype=bool)
    mask[[action_number(action, names) for action in actions]] = True
    return mask
