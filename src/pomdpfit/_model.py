"""A model maps theta to the primitives of a POMDP; everything else follows from those."""

import abc
import inspect
from collections.abc import Hashable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Interval
from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._labels import check_label_counts
from pomdpfit._own_code import own_code, returned
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._precision import require_float64
from pomdpfit._shocks import AbstractShock, Gumbel
from pomdpfit._types import Array, ArrayLike, Bool, Float, Theta

_OTHER_SHOCKS = (
    "the shocks of {0} do not fit {1} actions: emax(q) of {1} action values must be one number and "
    "log_choice(q) must be {1}. Shocks have one law for all observations; shocks that depend on z "
    "are not supported."
)


class Primitives(eqx.Module):
    """What the agent knows and wants: kernel, reward, discount, shocks, available actions.

    With a finite horizon also the number of decision epochs and the terminal value
    V_T(z, x) = sum_s x(s) terminal[z, s].
    """

    kernel: Kernel
    reward: Float[Array, "Z S A"]
    discount: Float[Array, ""]
    shock: AbstractShock
    available: Bool[Array, "Z A"] | None = None
    terminal: Float[Array, "Z S"] | None = None
    horizon: int | None = eqx.field(static=True, default=None)

    @property
    def observations(self) -> int:
        """|Z|."""
        return self.reward.shape[0]

    @property
    def states(self) -> int:
        """|S|."""
        return self.reward.shape[1]

    @property
    def actions(self) -> int:
        """|A|."""
        return self.reward.shape[2]

    def check(self) -> None:
        """Raise an error naming (z, s, a) where a primitive is not what it must be."""
        shape = np.shape(self.reward)
        kernel = self.kernel
        if shape != (kernel.observations, kernel.states, kernel.actions):
            raise ModelError(
                f"reward must have shape (Z, S, A) = ({kernel.observations}, {kernel.states}, "
                f"{kernel.actions}) to go with the kernel, but it has {shape}."
            )
        available = None if self.available is None else np.asarray(self.available)
        if available is not None and available.shape != (shape[0], shape[2]):
            raise ModelError(
                f"available must have shape {(shape[0], shape[2])}, but it has {available.shape}."
            )
        if available is not None and not available.any(axis=1).all():
            z = int(np.argmin(available.any(axis=1)))
            raise ModelError(f"at least one action must be available, but at z={z} there is none.")
        kernel.check(available)
        if not np.isfinite(self.reward).all():
            z, s, a = np.argwhere(~np.isfinite(self.reward))[0]
            raise ModelError(
                f"reward must be finite, but at (z={z}, s={s}, a={a}) it is "
                f"{self.reward[z, s, a]}. To rule an action out, override available()."
            )
        discount = float(self.discount)
        low_enough = discount < 1.0 if self.horizon is None else discount <= 1.0
        if not (discount >= 0.0 and low_enough):
            allowed = "[0, 1)" if self.horizon is None else "[0, 1]"
            raise ModelError(f"discount must lie in {allowed}, but it is {discount:.6g}.")
        self._check_terminal()
        self._check_shock()

    def _check_shock(self) -> None:
        """One law for all z and x: emax of A numbers is a number, and there are A log choices."""
        A, shock = self.actions, self.shock
        if not isinstance(shock, AbstractShock):
            raise ModelError(
                "shock() must return reward shocks such as pf.Gumbel(), but it returns "
                f"{shock!r:.60}."
            )
        shock.check(A)
        q = jax.ShapeDtypeStruct((A,), jnp.float64)
        try:
            shapes = [jax.eval_shape(f, q).shape for f in (shock.emax, shock.log_choice)]
        except (TypeError, ValueError) as error:
            raise ModelError(f"{_OTHER_SHOCKS.format(type(shock).__name__, A)} {error}") from error
        if shapes != [(), (A,)]:
            found = f"Here they have the shapes {shapes[0]} and {shapes[1]}."
            raise ModelError(f"{_OTHER_SHOCKS.format(type(shock).__name__, A)} {found}")

    def _check_terminal(self) -> None:
        if self.horizon is None:
            return
        if self.horizon < 1:
            raise ModelError(f"horizon must be at least one epoch, but it is {self.horizon}.")
        terminal = np.asarray(self.terminal)
        if terminal.shape != np.shape(self.reward)[:2]:
            raise ModelError(
                f"terminal must have shape (Z, S) = {np.shape(self.reward)[:2]}, but it has "
                f"{terminal.shape}."
            )
        if not np.isfinite(terminal).all():
            z, s = np.argwhere(~np.isfinite(terminal))[0]
            raise ModelError(
                f"terminal must be finite, but at (z={z}, s={s}) it is {terminal[z, s]}."
            )


class Model(eqx.Module):
    """A POMDP with parameters: subclass it and write three short methods.

    parameters()   the named leaves of theta, their constraints and example values; one of them is
                   "discount", fixed unless freed (see `discount_parameter`)
    kernel(theta)  P(z', s' | z, s, a), by one of the kernel builders
    reward(theta)  r[z, s, a]

    Override `shock`, `available`, `horizon`, `terminal` and the label methods where they differ
    from standard Gumbel shocks, all actions, an infinite horizon and plain numbers.
    """

    @abc.abstractmethod
    def parameters(self) -> dict[str, Parameter]:
        """The named leaves of theta."""

    @abc.abstractmethod
    def kernel(self, theta: Any) -> Kernel:
        """P(z', s' | z, s, a)."""

    @abc.abstractmethod
    def reward(self, theta: Any) -> Float[ArrayLike, "Z S A"]:
        """r(z, s, a)."""

    def discount(self, theta: Any) -> ArrayLike:
        """beta."""
        return theta["discount"]

    def shock(self, theta: Any) -> AbstractShock:
        """The distribution of the reward shocks."""
        return Gumbel()

    def available(self) -> Bool[np.ndarray, "Z A"] | None:
        """Which actions can be taken at which z; None for all."""
        return None

    def horizon(self) -> int | None:
        """How many decision epochs there are; None for infinitely many."""
        return None

    def terminal(self, theta: Any) -> Float[ArrayLike, "Z S"] | None:
        """Value after the last epoch of a finite horizon; None for zero."""
        return None

    def state_labels(self) -> tuple[str, ...] | None:
        """Names of the hidden states; None for their numbers."""
        return None

    def action_labels(self) -> tuple[str, ...] | None:
        """Names of the actions; None for their numbers."""
        return None

    def observation_labels(self) -> tuple[str, ...] | None:
        """Names of the observations; None for those of the panel, or their numbers."""
        return None

    def group_labels(self) -> tuple[Hashable, ...] | None:
        """Names of the groups, in the order of their numbers; None where there are none."""
        return None

    def space(self) -> ParameterSpace:
        """All parameters, with constraints and labels."""
        space = ParameterSpace(self.parameters())
        if "discount" not in space.parameters and type(self).discount is Model.discount:
            raise ModelError(
                "parameters() must hold 'discount', for example "
                "'discount': pf.discount_parameter(0.95)."
            )
        return space

    def example(self) -> dict[str, Array]:
        """The example values as a labelled tree."""
        require_float64()
        return self.space().example()

    @eqx.filter_jit
    def primitives(self, theta: Theta) -> Primitives:
        """Everything that the solution and the likelihood need, unchecked (and so traceable)."""
        return built_primitives(self, theta)


# What each method is called with.
_METHODS = {
    **dict.fromkeys(("parameters", "available", "horizon", "group_labels"), ()),
    **dict.fromkeys(("state_labels", "action_labels", "observation_labels"), ()),
    **dict.fromkeys(("kernel", "reward", "discount", "shock", "terminal"), ("theta",)),
}
_MDP_METHODS = {
    **dict.fromkeys(("parameters", "available", "action_labels", "observation_labels"), ()),
    **dict.fromkeys(("transition", "reward", "discount"), ("theta",)),
}


def require_model(model: Any, *, fully_observed: bool = False) -> None:
    """Refuse what is no model, or one whose methods are not methods.

    fully_observed  whether a `baselines.MDP` will do as well
    """
    from pomdpfit.baselines._mdp import MDP  # which the package imports after this module

    if isinstance(model, type):
        raise ModelError(
            f"{model.__name__} is a class, not a model: write {model.__name__}(), with the options "
            "of its constructor if it has any."
        )
    if isinstance(model, MDP) and not fully_observed:
        raise ModelError(
            f"{type(model).__name__} is fully observed (a baselines.MDP), but a pf.Model is "
            "expected here, one with hidden states. pf.fit and what follows from its estimate take "
            "both."
        )
    if not isinstance(model, Model | MDP):
        either = " or a baselines.MDP" if fully_observed else ""
        raise ModelError(
            f"model must be a pf.Model{either}, but it is of type {type(model).__name__}. Models "
            "stand in pf.models; pf.read_model(path).model reads one from a file."
        )
    for name, arguments in (_MDP_METHODS if isinstance(model, MDP) else _METHODS).items():
        _require_method(model, name, arguments)


def _require_method(model: Any, name: str, arguments: tuple[str, ...]) -> None:
    """Refuse a property or a value in the place of a method, and other arguments than ours."""
    method = getattr(model, name)
    written = f"write def {name}({', '.join(('self', *arguments))}): ..."
    if not callable(method):
        raise ModelError(
            f"{type(model).__name__}.{name} must be a method, but it is {method!r:.60}: {written}, "
            "without @property."
        )
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        more = " Shocks that depend on z are not supported." if name == "shock" else ""
        raise ModelError(
            f"{type(model).__name__}.{name} must take {' and '.join(arguments) or 'nothing'} "
            f"beside self: {written}.{more}"
        ) from error


def built_primitives(model: Model, theta: Theta) -> Primitives:
    """The same, by a call of the model's methods each time."""
    horizon = _built_horizon(model)
    reward = built_reward(model, theta)
    with own_code("terminal", theta):
        terminal = model.terminal(theta) if horizon is not None else None
    if horizon is not None and terminal is None:
        terminal = jnp.zeros(reward.shape[:2])
    available = model.available()
    with own_code("discount", theta):
        discount = jnp.asarray(model.discount(theta))
    with own_code("shock", theta):
        shock = model.shock(theta)
    return Primitives(
        kernel=_built_kernel(model, theta),
        reward=reward,
        discount=discount,
        shock=shock,
        available=None if available is None else jnp.asarray(available, dtype=bool),
        terminal=None if terminal is None else jnp.asarray(terminal),
        horizon=horizon,
    )


def _built_horizon(model: Model) -> int | None:
    """horizon(), refused where it is no number of epochs."""
    horizon = model.horizon()
    if horizon is None:
        return None
    if not isinstance(horizon, int | np.integer) or isinstance(horizon, bool):
        raise ModelError(
            f"horizon() must return a whole number of epochs, or None, but it returns "
            f"{horizon!r:.60}."
        )
    return int(horizon)


def built_reward(model: Model, theta: Theta) -> Float[Array, "Z S A"]:
    """reward(theta), its errors with the mend."""
    with own_code("reward", theta):
        reward = returned("reward", model.reward(theta), None, "return an array r[z, s, a].")
        return jnp.asarray(reward)


def _built_kernel(model: Model, theta: Theta) -> Kernel:
    """kernel(theta), its errors with the mend."""
    with own_code("kernel", theta):
        kernel = model.kernel(theta)
    mend = "return pf.factored_kernel(...), pf.dense_kernel(...) or pf.increment_kernel(...)."
    return returned("kernel", kernel, Kernel, mend)


def discount_parameter(value: float, *, fixed: bool = True) -> Parameter:
    """The discount factor in [0, 1), fixed unless freed."""
    return Parameter(value, Interval(0.0, 1.0, open_above=True), fixed=fixed)


def checked_primitives(
    model: Model, theta: Theta, space: ParameterSpace | None = None
) -> Primitives:
    """Primitives at theta after every check on theta, kernel, reward, discount and shocks."""
    require_float64()
    require_model(model)
    space = model.space() if space is None else space
    primitives = model.primitives(space.check(theta))
    if primitives.reward.dtype != jnp.float64:
        raise ModelError(
            f"the reward is {primitives.reward.dtype}, not float64: build arrays from theta or "
            "from numpy, not from JAX arrays made before 64-bit floats were switched on."
        )
    primitives.check()
    # Numbers as arrays, as they are in a likelihood: what is compiled serves both.
    numbers = lambda leaf: np.asarray(leaf) if isinstance(leaf, float) else leaf
    primitives = jax.tree.map(numbers, primitives)
    check_label_counts(
        model,
        state=primitives.states,
        action=primitives.actions,
        observation=primitives.observations,
    )
    return primitives
