"""Priors: the belief P(s | z0) with which each agent starts."""

import abc
import dataclasses
from collections.abc import Hashable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Simplex
from pomdpfit._errors import ModelError
from pomdpfit._model import Model, Primitives, checked_primitives
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._types import Array, ArrayLike, Float, Theta


class AbstractPrior(abc.ABC):
    """A rule for x0, the first belief of each agent."""

    @abc.abstractmethod
    def space(self, states: int) -> ParameterSpace:
        """The parameters that the prior adds to theta."""

    @abc.abstractmethod
    def data(self, agents: Sequence[Hashable], states: int) -> Float[Array, "#N S"]:
        """What is known of x0, checked, in the order of the agents."""

    def rule(self) -> "AbstractPrior":
        """The prior without its data: hashable, so that compiled code can be kept for it."""
        return self

    @abc.abstractmethod
    def beliefs(self, theta: Theta, data: Float[Array, "#N S"]) -> Float[Array, "#N S"]:
        """x0 of each agent, or one row for all."""


@dataclasses.dataclass(frozen=True)
class KnownPrior(AbstractPrior):
    """x0 is known: one belief for all, one row an agent, or a mapping from agent to belief."""

    belief: ArrayLike | Sequence | Mapping[Hashable, ArrayLike]

    def space(self, states: int) -> ParameterSpace:
        """No parameters."""
        return ParameterSpace({})

    def data(self, agents: Sequence[Hashable], states: int) -> Float[Array, "#N S"]:
        """The beliefs, refused (never renormalised) if they are off the simplex."""
        if isinstance(self.belief, Mapping):
            missing = [agent for agent in agents if agent not in self.belief]
            if missing:
                raise ModelError(f"the known prior has no belief for agent {missing[0]!r}.")
            belief = np.array([self.belief[agent] for agent in agents], dtype=float)
        else:
            belief = np.atleast_2d(np.asarray(self.belief, dtype=float))
        if belief.shape[1] != states or belief.shape[0] not in {1, len(agents)}:
            raise ModelError(
                f"a known prior needs shape ({states},) or ({len(agents)}, {states}) here, but it "
                f"has {belief.shape}."
            )
        names = [
            [
                f"x0(s={s}) of agent {agents[i]!r}" if len(belief) > 1 else f"x0(s={s})"
                for s in range(states)
            ]
            for i in range(len(belief))
        ]
        Simplex().check(belief, np.array(names, dtype=object))
        return jnp.asarray(belief)

    def rule(self) -> "KnownPrior":
        """Beliefs come with the data."""
        return KnownPrior(())

    def beliefs(self, theta: Theta, data: Float[Array, "#N S"]) -> Float[Array, "#N S"]:
        """As given."""
        return data


@dataclasses.dataclass(frozen=True)
class CommonPrior(AbstractPrior):
    """One unknown x0 for all agents, a parameter of its own in theta (uniform to start with)."""

    name: str = "x0"

    def space(self, states: int) -> ParameterSpace:
        """x0 on the simplex."""
        return ParameterSpace({self.name: Parameter(np.full(states, 1 / states), Simplex())})

    def data(self, agents: Sequence[Hashable], states: int) -> Float[Array, "#N S"]:
        """Nothing is known."""
        return jnp.zeros((1, states))

    def beliefs(self, theta: Theta, data: Float[Array, "#N S"]) -> Float[Array, "#N S"]:
        """theta's x0."""
        return jnp.asarray(theta[self.name])[None, :]


def prior_or_default(prior: AbstractPrior | None, states: int) -> AbstractPrior:
    """The prior given; with a single hidden state there is only one."""
    if prior is not None:
        if not isinstance(prior, AbstractPrior):
            raise ModelError(
                f"prior must be a prior object such as pf.KnownPrior(x0), not {type(prior)}."
            )
        return prior
    if states == 1:
        return KnownPrior([1.0])
    raise ModelError(
        f"a model with {states} hidden states needs a prior: pf.KnownPrior(x0) where the first "
        "belief is known, pf.CommonPrior() where it is a parameter."
    )


def checked_with_prior(
    model: Model, theta: Theta, prior: AbstractPrior | None
) -> tuple[Primitives, AbstractPrior, dict[str, Array]]:
    """Primitives, prior and theta (the prior's parameters included), all of them checked."""
    own = model.space()
    primitives = checked_primitives(model, {n: theta[n] for n in own.parameters if n in theta}, own)
    prior = prior_or_default(prior, primitives.states)
    return primitives, prior, (own | prior.space(primitives.states)).check(theta)
