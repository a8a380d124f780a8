"""The hidden process itself, one step at a time, in plain numpy.

s_0 ~ x0; then (z', s') ~ P(. | z, s, a) and the reward is r(z, s, a). Nobody's beliefs are in it.
"""

import dataclasses

import numpy as np

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._errors import ModelError
from pomdpfit._labels import action_names
from pomdpfit._model import Model, Primitives
from pomdpfit._priors import AbstractPrior, checked_with_prior, labels_of
from pomdpfit._shocks import Gumbel
from pomdpfit._shown import shown
from pomdpfit._types import ArrayLike, Bool, Float, Int, Theta


@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """The tables of a model at one theta, and the belief from which each agent's s_0 is drawn."""

    successors: Int[np.ndarray, "#Z A K"]
    probability: Float[np.ndarray, "#Z A K S S"]
    reward: Float[np.ndarray, "Z S A"]
    available: Bool[np.ndarray, "Z A"]
    terminal: Float[np.ndarray, "Z S"] | None
    horizon: int | None
    x0: Float[np.ndarray, "#N S"]
    state_labels: tuple[str, ...]
    action_labels: tuple[str, ...]
    primitives: Primitives

    @property
    def observations(self) -> int:
        """|Z|."""
        return self.reward.shape[0]

    @property
    def actions(self) -> int:
        """|A|."""
        return self.reward.shape[2]

    def first_state(self, x0: Float[np.ndarray, "S"], rng: np.random.Generator) -> int:
        """s_0 ~ x0."""
        return draw(x0, rng)

    def move(self, z: int, s: int, a: int, rng: np.random.Generator) -> tuple[int, int]:
        """(z', s') ~ P(. | z, s, a)."""
        law = self.probability[z if len(self.probability) > 1 else 0, a, :, s]
        k, s_next = divmod(draw(law.reshape(-1), rng), law.shape[-1])
        return int(self.successors[z if len(self.successors) > 1 else 0, a, k]), s_next

    def checked_action(self, action: ArrayLike | int) -> int:
        """The number of an action: a whole number, or an array of numpy's that is one."""
        given = np.asarray(action)
        if given.ndim or not np.issubdtype(given.dtype, np.integer):
            raise ModelError(
                f"the action must be one of 0..{self.actions - 1}, a whole number, but it is "
                f"{shown(action)}."
            )
        return int(given)

    def refuse_unless_available(self, z: int, a: int) -> None:
        """An error naming the action where it cannot be taken."""
        if not 0 <= a < self.actions:
            raise ModelError(f"the action must be one of 0..{self.actions - 1}, but it is {a}.")
        if not self.available[z, a]:
            raise ModelError(
                f"action {a} ({self.action_labels[a]}) is not available at z={z}; those that are: "
                f"{np.flatnonzero(self.available[z]).tolist()}."
            )

    def shocks(self, rng: np.random.Generator) -> Float[np.ndarray, "A"]:
        """One period's reward shocks, with mean zero."""
        shock = self.primitives.shock
        if not isinstance(shock, Gumbel):
            raise ModelError(
                f"shocks are drawn for pf.Gumbel alone, not for {type(shock).__name__}: leave "
                "shocks=False, and the rewards without them."
            )
        scale = float(shock.scale)
        return rng.gumbel(-scale * np.euler_gamma, scale, size=self.actions)


def draw(law: Float[np.ndarray, "n"], rng: np.random.Generator) -> int:
    """An index with these probabilities, by one uniform number; never one of probability zero."""
    edges = np.cumsum(law)
    place = np.searchsorted(edges, rng.random() * edges[-1], side="right")
    return int(min(place, np.flatnonzero(law)[-1]))


def make_world(model: Model, theta: Theta, prior: AbstractPrior | None, agents: int = 1) -> World:
    """The world of a model at theta, after every check."""
    primitives, prior, theta = checked_with_prior(model, theta, prior)
    x0 = prior.beliefs(theta, prior.data(range(agents), primitives.states))
    shape = (primitives.observations, primitives.actions)
    available = primitives.available
    return World(
        np.asarray(primitives.kernel.successors),
        np.asarray(primitives.kernel.probability),
        np.asarray(primitives.reward),
        np.ones(shape, dtype=bool) if available is None else np.asarray(available),
        None if primitives.terminal is None else np.asarray(primitives.terminal),
        primitives.horizon,
        np.asarray(x0),
        labels_of(model, primitives.states),
        action_names(model, primitives.actions),
        primitives,
    )


def checked_belief(x0: ArrayLike, states: int) -> Float[np.ndarray, "S"]:
    """One belief, refused (never renormalised) if it is off the simplex."""
    belief = np.asarray(x0, dtype=float)
    if belief.shape != (states,):
        raise ModelError(f"a belief needs shape ({states},) here, but it has {belief.shape}.")
    if not (np.all(belief >= 0) and abs(belief.sum() - 1) <= SUM_TOLERANCE):
        raise ModelError(
            f"a belief must hold probabilities that sum to 1, but it is {belief.tolist()}, which "
            f"sums to {belief.sum():.6g}."
        )
    return belief


def checked_observation(z0: int, observations: int) -> int:
    """A first observation that the model has."""
    whole = isinstance(z0, int | np.integer) and not isinstance(z0, bool)
    if not whole or not 0 <= z0 < observations:
        raise ModelError(f"z0 must be one of 0..{observations - 1}, but it is {z0!r}.")
    return int(z0)
