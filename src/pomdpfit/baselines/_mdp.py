"""A fully observed decision process maps theta to P(z' | z, a), r(z, a) and a discount."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._errors import ModelError
from pomdpfit._labels import check_label_counts
from pomdpfit._own_code import own_code, returned
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._precision import require_float64
from pomdpfit._types import Array, ArrayLike, Bool, Float, Int, Theta


class MDP(eqx.Module):
    """A fully observed decision process with parameters: subclass it and write three methods.

    parameters()       the named leaves of theta; one of them is "discount", as in `pf.Model`
    transition(theta)  P[z, a, z']
    reward(theta)      r[z, a]

    Shocks are Gumbel of scale one, and the horizon is infinite. Override `available` and
    the label methods where they differ from all actions and plain numbers.
    """

    @abc.abstractmethod
    def parameters(self) -> dict[str, Parameter]:
        """The named leaves of theta."""

    @abc.abstractmethod
    def transition(self, theta: Any) -> Float[ArrayLike, "Z A Z"]:
        """P(z' | z, a)."""

    @abc.abstractmethod
    def reward(self, theta: Any) -> Float[ArrayLike, "Z A"]:
        """r(z, a)."""

    def discount(self, theta: Any) -> ArrayLike:
        """beta."""
        return theta["discount"]

    def available(self) -> Bool[np.ndarray, "Z A"] | None:
        """Which actions can be taken at which z; None for all."""
        return None

    def action_labels(self) -> tuple[str, ...] | None:
        """Names of the actions; None for their numbers."""
        return None

    def observation_labels(self) -> tuple[str, ...] | None:
        """Names of the observations; None for those of the panel, or their numbers."""
        return None

    def space(self) -> ParameterSpace:
        """All parameters, with constraints and labels."""
        space = ParameterSpace(self.parameters())
        if "discount" not in space.parameters and type(self).discount is MDP.discount:
            raise ModelError(
                "parameters() must hold 'discount', for example "
                "'discount': pf.discount_parameter(0.95)."
            )
        return space

    def example(self) -> dict[str, Array]:
        """The example values as a labelled tree."""
        require_float64()
        return self.space().example()


@dataclasses.dataclass(frozen=True, eq=False)
class Tables:
    """An MDP's primitives at one theta, as plain arrays."""

    transition: Float[np.ndarray, "Z A Z"]
    reward: Float[np.ndarray, "Z A"]
    discount: float
    available: Bool[np.ndarray, "Z A"] | None
    horizon: None = None

    @property
    def observations(self) -> int:
        """|Z|."""
        return self.reward.shape[0]

    @property
    def actions(self) -> int:
        """|A|."""
        return self.reward.shape[1]

    def check(self) -> None:
        """Raise an error naming (z, a) where a primitive is not what it must be."""
        self._check_shapes()
        P, r = self.transition, self.reward
        if not np.isfinite(r).all():
            z, a = np.argwhere(~np.isfinite(r))[0]
            raise ModelError(
                f"reward must be finite, but at (z={z}, a={a}) it is {r[z, a]}. To rule an action "
                "out, override available()."
            )
        bad = ~(np.isfinite(P) & (P >= 0))
        if bad.any():
            z, a, z1 = np.argwhere(bad)[0]
            raise ModelError(
                f"transition entries must be probabilities, but P(z'={z1} | z={z}, a={a}) is "
                f"{P[z, a, z1]:.6g}."
            )
        mass = P.sum(axis=2)
        off = np.abs(mass - 1.0) > SUM_TOLERANCE
        if self.available is not None:
            off &= self.available
        if off.any():
            z, a = np.argwhere(off)[0]
            raise ModelError(
                f"transition must sum to 1 over z', but at (z={z}, a={a}) it sums to "
                f"{mass[z, a]:.6g}."
            )
        if not 0.0 <= self.discount < 1.0:
            raise ModelError(f"discount must lie in [0, 1), but it is {self.discount:.6g}.")

    def _check_shapes(self) -> None:
        shape = self.reward.shape
        if len(shape) != 2 or self.transition.shape != (*shape, shape[0]):
            raise ModelError(
                "transition must have shape (Z, A, Z) and reward (Z, A), but they have "
                f"{self.transition.shape} and {shape}."
            )
        available = self.available
        if available is not None and available.shape != shape:
            raise ModelError(f"available must have shape {shape}, but it has {available.shape}.")
        if available is not None and not available.any(axis=1).all():
            z = int(np.argmin(available.any(axis=1)))
            raise ModelError(f"at least one action must be available, but at z={z} there is none.")


@eqx.filter_jit
def _build(mdp: MDP, theta: Theta) -> tuple[Array, Array, Array]:
    built = []
    mends = {"transition": "return P[z, a, z'].", "reward": "return r[z, a].", "discount": ""}
    for name, mend in mends.items():
        with own_code(name, theta):
            built.append(jnp.asarray(returned(name, getattr(mdp, name)(theta), None, mend)))
    return tuple(built)  # type: ignore[return-value]


def checked_tables(mdp: MDP, theta: Theta, space: ParameterSpace) -> Tables:
    """The primitives at theta after every check on theta, transition, reward and discount."""
    require_float64()
    tables = built_tables(mdp, space.check(theta))
    check_label_counts(mdp, action=tables.actions, observation=tables.observations)
    return tables


def built_tables(mdp: MDP, theta: dict[str, Array]) -> Tables:
    """The same at a theta that has been checked, of a model whose labels have been."""
    transition, reward, discount = _build(mdp, theta)
    for name, value in (("transition", transition), ("reward", reward)):
        if value.dtype != jnp.float64:
            raise ModelError(
                f"the {name} is {value.dtype}, not float64: build arrays from theta or from numpy "
                "floats, not from JAX arrays made before 64-bit floats were switched on."
            )
    available = mdp.available()
    tables = Tables(
        transition=np.asarray(transition),
        reward=np.asarray(reward),
        discount=float(discount),
        available=None if available is None else np.asarray(available, dtype=bool),
    )
    tables.check()
    return tables


# ---- derivatives of the primitives ------------------------------------------------------------


def probabilities(mdp: MDP, theta: Theta, cells: Int[ArrayLike, "3 u"]) -> Float[Array, "u"]:
    """P(z' | z, a) at the cells (z, a, z') that occur."""
    return jnp.asarray(mdp.transition(theta))[tuple(cells)]


def action_values(mdp: MDP, theta: Theta, V: Float[ArrayLike, "Z"]) -> Float[Array, "Z A"]:
    """Q(z, a) at a fixed V."""
    P, r, beta = mdp.transition(theta), mdp.reward(theta), mdp.discount(theta)
    return jnp.asarray(r) + beta * (jnp.asarray(P) @ V)


_Function = Callable[[MDP, Theta, ArrayLike], Array]


@eqx.filter_jit
def push_primitive(
    function: _Function, mdp: MDP, moves: dict, still: dict, at: dict, data: ArrayLike
) -> Array:
    """The derivative along each of p directions, first axis p."""

    def along(direction: dict) -> Array:
        return jax.jvp(lambda free: function(mdp, free | still, data), (at,), (direction,))[1]

    return jax.vmap(along)(moves)


@eqx.filter_jit
def pull_primitive(
    function: _Function, mdp: MDP, still: dict, at: dict, data: ArrayLike, weights: ArrayLike
) -> dict:
    """The gradient of the weighted sum of the function's values."""
    return jax.vjp(lambda free: function(mdp, free | still, data), at)[1](weights)[0]
