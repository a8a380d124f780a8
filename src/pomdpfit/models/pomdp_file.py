"""A classical POMDP given as tables T x O and R, as a .POMDP file has them."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Simplex
from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._kernel_builders import factored_kernel
from pomdpfit._model import Model, discount_parameter
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._priors import KnownPrior
from pomdpfit._shocks import AbstractShock, Gumbel
from pomdpfit._types import Array, Float, Theta

_MOST_KERNEL = 2**27  # entries of P(z', s' | s, a): a gibibyte
_GROUPS = ("transition", "observation", "reward")


class PomdpFile(Model):
    """P(z', s' | s, a) = T(s' | s, a) O(z' | s', a) and rewards R(a, s, s', z'), by action.

    theta has three leaves for each action, in the order of a file's places; all are fixed unless
    named in `free` (a leaf, or "transition", "observation", "reward" for those of every action):

    transition.listen[s, s']   observation.listen[s', z']   reward.listen[s]

    A reward leaf has further axes s' and z' where R depends on them. The agent decides before
    either is known, so r(s, a) = sum T(s' | s, a) O(z' | s', a) R(a, s, s', z').
    """

    transition: Float[np.ndarray, "A S S"]
    observation: Float[np.ndarray, "A S Z"]
    rewards: tuple[np.ndarray, ...]
    start: Float[np.ndarray, "S"]
    default_discount: float = eqx.field(static=True)
    states: tuple[str, ...] = eqx.field(static=True)
    actions: tuple[str, ...] = eqx.field(static=True)
    observations: tuple[str, ...] = eqx.field(static=True)
    free: tuple[str, ...] = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __init__(
        self,
        transition: Float[np.ndarray, "A S S"],
        observation: Float[np.ndarray, "A S Z"],
        reward: Float[np.ndarray, "A S #S #Z"],
        start: Float[np.ndarray, "S"] | None = None,
        discount: float = 0.95,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
        *,
        free: Sequence[str] = (),
        scale: float = 1.0,
    ) -> None:
        tables = [np.array(t, dtype=np.float64) for t in (transition, observation, reward)]
        self.transition, self.observation, reward = tables
        self._check_shapes(reward)
        A, S, Z = self.observation.shape
        self.rewards = tuple(_without_idle_axes(table) for table in reward)
        self.start = np.full(S, 1.0 / S) if start is None else np.array(start, dtype=np.float64)
        self._check_start(S)
        self.default_discount, self.scale = float(discount), scale
        self.states = _labels("states", states, S)
        self.actions = _labels("actions", actions, A)
        self.observations = _labels("observations", observations, Z)
        self.free = (free,) if isinstance(free, str) else tuple(free)
        ParameterSpace(self._fixed_parameters()).free(*self.leaves_named(self.free))  # known ones

    @property
    def reward_table(self) -> Float[np.ndarray, "A S #S #Z"]:
        """R(a, s, s', z') as the constructor takes it."""
        deep = [table.reshape(*table.shape, *(1,) * (3 - table.ndim)) for table in self.rewards]
        shape = np.broadcast_shapes(*(table.shape for table in deep))
        return np.stack([np.broadcast_to(table, shape) for table in deep])

    def _check_shapes(self, reward: np.ndarray) -> None:
        T, O = self.transition.shape, self.observation.shape
        fits = len(T) == len(O) == 3 and T[:2] == O[:2] and T[1] == T[2] and min(*T, *O) > 0
        wanted = (*O[:2], O[1], O[2]) if fits else ()
        fits = fits and reward.ndim == 4 and reward.shape[:2] == O[:2]
        fits = fits and all(n in {1, m} for n, m in zip(reward.shape, wanted, strict=True))
        if not fits:
            raise ModelError(
                "transition, observation and reward must have shapes (A, S, S), (A, S, Z) and "
                "(A, S, S or 1, Z or 1), at least one of each, but they have "
                f"{T}, {O} and {reward.shape}."
            )

    def _check_start(self, S: int) -> None:
        if self.start.shape != (S,):
            raise ModelError(f"start must have shape ({S},), but it has {self.start.shape}.")
        names = np.array([f"start(s={s})" for s in range(S)], dtype=object)
        Simplex().check(self.start, names)

    # ---- parameters ------------------------------------------------------------------------

    def _fixed_parameters(self) -> dict[str, Parameter]:
        s, z = self.states, self.observations
        parameters = {}
        for a, name in enumerate(self.actions):
            parameters[f"transition.{name}"] = Parameter(
                self.transition[a], Simplex(), fixed=True, labels=(s, s)
            )
        for a, name in enumerate(self.actions):
            parameters[f"observation.{name}"] = Parameter(
                self.observation[a], Simplex(), fixed=True, labels=(s, z)
            )
        for table, name in zip(self.rewards, self.actions, strict=True):
            axes = (s, s, z)[: table.ndim]
            parameters[f"reward.{name}"] = Parameter(table, fixed=True, labels=axes)
        return {**parameters, "discount": discount_parameter(self.default_discount)}

    def leaves_named(self, names: Sequence[str]) -> list[str]:
        """Names of leaves, with those of every action in the place of a group such as "reward"."""
        leaves = []
        for name in names:
            every = name in _GROUPS
            leaves += [f"{name}.{action}" for action in self.actions] if every else [name]
        return leaves

    def parameters(self) -> dict[str, Parameter]:
        """Transition and observation rows and rewards of each action, and the discount."""
        space = ParameterSpace(self._fixed_parameters()).free(*self.leaves_named(self.free))
        return dict(space.parameters)

    # ---- primitives ------------------------------------------------------------------------

    def _leaves(self, group: str, theta: Theta) -> list[Array]:
        return [jnp.asarray(theta[f"{group}.{action}"]) for action in self.actions]

    def kernel(self, theta: Theta) -> Kernel:
        """T x O: nothing depends on what was observed before."""
        A, S, Z = self.observation.shape
        if math.prod((A, Z, S, S)) > _MOST_KERNEL:
            raise ModelError(
                f"the kernel P(z', s' | s, a) would have {A} x {Z} x {S} x {S} = "
                f"{A * Z * S * S:,} entries, more than {_MOST_KERNEL:,}: lump states or "
                "observations together."
            )
        transition = jnp.stack(self._leaves("transition", theta), axis=1)
        observation = jnp.stack(self._leaves("observation", theta), axis=1)
        return factored_kernel(transition, observation)

    def reward(self, theta: Theta) -> Float[Array, "Z S A"]:
        """r(s, a), the mean of R over s' and z'."""
        A, S, Z = self.observation.shape
        columns = [_mean_reward(action, theta) for action in self.actions]
        return jnp.broadcast_to(jnp.stack(columns, axis=-1), (Z, S, A))

    def shock(self, theta: Theta) -> AbstractShock:
        """Gumbel of the model's scale; as it goes to zero the classical problem returns."""
        return Gumbel(self.scale)

    def prior(self) -> KnownPrior:
        """The file's first belief, which no observation has come before."""
        return KnownPrior(np.asarray(self.start))

    def state_labels(self) -> tuple[str, ...]:
        """Names from the file, or numbers."""
        return self.states

    def action_labels(self) -> tuple[str, ...]:
        """Names from the file, or numbers."""
        return self.actions

    def observation_labels(self) -> tuple[str, ...]:
        """Names from the file, or numbers."""
        return self.observations


def _mean_reward(action: str, theta: Theta) -> Float[Array, "S"]:
    """r(s, a) of one action."""
    mean = jnp.asarray(theta[f"reward.{action}"])
    if mean.ndim == 3:
        mean = jnp.einsum("tz,stz->st", theta[f"observation.{action}"], mean)
    if mean.ndim == 2:
        mean = jnp.einsum("st,st->s", theta[f"transition.{action}"], mean)
    return mean


def _without_idle_axes(table: Float[np.ndarray, "S #S #Z"]) -> np.ndarray:
    """Without z', and then without s', where the reward is the same (to the bit) along it."""
    bits = np.ascontiguousarray(table).view(np.int64)
    if (bits != bits[:, :, :1]).any():
        return np.broadcast_to(table, (len(table), len(table), table.shape[2])).copy()
    return table[:, :, 0] if (bits != bits[:, :1]).any() else table[:, 0, 0]


def _labels(kind: str, names: Sequence[str] | None, size: int) -> tuple[str, ...]:
    labels = tuple(map(str, range(size))) if names is None else tuple(map(str, names))
    if len(labels) != size or len(set(labels)) != size:
        raise ModelError(f"{kind} must be {size} different names, but they are {labels}.")
    return labels
