"""Several groups of agents under one model, with shared parameters and parameters of their own."""

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Interval
from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._model import Model, require_model
from pomdpfit._nearest import nearest
from pomdpfit._params import Covariate, Parameter
from pomdpfit._shocks import AbstractShock
from pomdpfit._types import ArrayLike, Float, Theta


class _OfGroup(Mapping):
    """theta of one group, looked up leaf by leaf, so that only what is read counts as read."""

    def __init__(self, theta: Theta, own: tuple[str, ...], names: tuple[str, ...]) -> None:
        self._theta, self._own, self._names = theta, own, names

    def __getitem__(self, name: str) -> ArrayLike:
        if name not in self._own:
            return self._theta[name]
        return jnp.asarray(self._theta[name])[jnp.asarray(self._theta["group"]).astype(int)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Grouped(Model):
    """A model in which the parameters named in `own` differ between groups.

    `Grouped(model, panel.groups, own=["RC"])` has RC[1], RC[2], ... for the groups of a panel made
    with `group=...`; everything else is shared. The number of the group is the covariate "group".
    """

    model: Model
    groups: tuple[Hashable, ...] = eqx.field(static=True)
    own: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, model: Model, groups: Sequence[Hashable], own: Sequence[str]) -> None:
        require_model(model)
        inner = model.parameters()
        unknown = [name for name in own if name not in inner]
        if unknown:
            raise ModelError(
                f"there is no parameter named {unknown[0]!r}; there are {', '.join(inner)}."
                f"{nearest(str(unknown[0]), inner)}"
            )
        if "group" in inner:
            raise ModelError("the model has a parameter named 'group' already.")
        if len(groups) == 0 or len(set(map(str, groups))) != len(groups):
            raise ModelError(f"groups must be distinct labels, but they are {list(groups)}.")
        self.model, self.groups, self.own = model, tuple(groups), tuple(own)

    def parameters(self) -> dict[str, Parameter]:
        """Shared leaves as they are, own ones with a first axis of groups, and the covariate."""
        inner = self.model.parameters()
        parameters = {n: self._for_groups(p) if n in self.own else p for n, p in inner.items()}
        last = float(len(self.groups) - 1)
        number = dataclasses.replace(Covariate(0.0), constraint=Interval(0.0, last))
        return {**parameters, "group": number}

    def _for_groups(self, p: Parameter) -> Parameter:
        axes = p.labels or tuple(tuple(map(str, range(k))) for k in p.shape)
        labels = (tuple(map(str, self.groups)), *axes)
        return dataclasses.replace(p, value=np.stack([p.value] * len(self.groups)), labels=labels)

    def of_group(self, theta: Theta) -> "_OfGroup":
        """theta of the inner model for the group whose number theta holds."""
        return _OfGroup(theta, self.own, tuple(self.model.parameters()))

    def kernel(self, theta: Theta) -> Kernel:
        """That of the group."""
        return self.model.kernel(self.of_group(theta))

    def reward(self, theta: Theta) -> Float[ArrayLike, "Z S A"]:
        """That of the group."""
        return self.model.reward(self.of_group(theta))

    def discount(self, theta: Theta) -> ArrayLike:
        """That of the group."""
        return self.model.discount(self.of_group(theta))

    def shock(self, theta: Theta) -> AbstractShock:
        """That of the group."""
        return self.model.shock(self.of_group(theta))

    def terminal(self, theta: Theta) -> Float[ArrayLike, "Z S"] | None:
        """That of the group."""
        return self.model.terminal(self.of_group(theta))

    def available(self) -> np.ndarray | None:
        """As in every group."""
        return self.model.available()

    def horizon(self) -> int | None:
        """As in every group."""
        return self.model.horizon()

    def state_labels(self) -> tuple[str, ...] | None:
        """As in every group."""
        return self.model.state_labels()

    def action_labels(self) -> tuple[str, ...] | None:
        """As in every group."""
        return self.model.action_labels()

    def observation_labels(self) -> tuple[str, ...] | None:
        """As in every group."""
        return self.model.observation_labels()

    def group_labels(self) -> tuple[Hashable, ...]:
        """Those given."""
        return self.groups
