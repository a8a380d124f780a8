"""Priors: the belief P(s | z0) with which each agent starts."""

import abc
import contextlib
import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._bellman import memory_for_each_z, refuse_if_too_large
from pomdpfit._constraints import Simplex
from pomdpfit._errors import ModelError
from pomdpfit._model import Model, Primitives, checked_primitives, require_model
from pomdpfit._on_device import on_device
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._scene import Scene
from pomdpfit._schemes import default_scheme, law_degree, law_scheme
from pomdpfit._stationary import stationary_beliefs
from pomdpfit._types import Array, ArrayLike, Float, Theta

_LAW_NODES = {2: 121, 3: 41}  # by |S|


class AbstractPrior(abc.ABC):
    """A rule for x0, the first belief of each agent."""

    needs_policy: ClassVar[bool] = False  # whether x0 depends on what is chosen
    by_agent: ClassVar[bool] = False  # whether each agent's x0 is estimated by itself

    def space(self, labels: Sequence[str]) -> ParameterSpace:
        """The parameters that the prior adds to theta; `labels` name the hidden states."""
        return ParameterSpace({})

    def data(self, agents: Sequence[Hashable], states: int) -> Float[Array, "#N S"]:
        """What is known of x0, checked, in the order of the agents."""
        return jnp.full((1, states), 1.0 / states)

    def check(self, primitives: Primitives) -> None:  # noqa: B027
        """Raise where this prior has no meaning."""

    def rule(self) -> "AbstractPrior":
        """The prior without its data: hashable, so that compiled code can be kept for it."""
        return self

    @abc.abstractmethod
    def beliefs(
        self,
        theta: Theta,
        data: Float[Array, "#N S"],
        panel: PanelArrays | None = None,
        scene: Scene | None = None,
    ) -> Float[Array, "#N S"]:
        """x0 of each agent, or one row for all."""


@dataclasses.dataclass(frozen=True)
class KnownPrior(AbstractPrior):
    """x0 is known: one belief for all, one row an agent, or a mapping from agent to belief.

    A list, a tuple, an array or a Series of the same numbers is the same prior. A data frame whose
    index names the agents is read by these names, and by position where its rows are only counted.
    """

    belief: ArrayLike | Sequence | Mapping[Hashable, ArrayLike]

    def __post_init__(self) -> None:
        """One belief becomes a tuple, rows become an array; what is no number is refused later."""
        belief: Any = self.belief
        if isinstance(belief, pd.DataFrame) and not isinstance(belief.index, pd.RangeIndex):
            if not belief.index.is_unique:
                twice = belief.index[belief.index.duplicated()][0]
                raise ModelError(f"the known prior has two rows for agent {twice!r}: keep one.")
            belief = dict(zip(belief.index, belief.to_numpy(), strict=True))
        elif not isinstance(belief, Mapping):
            with contextlib.suppress(TypeError, ValueError):
                rows = np.asarray(belief, dtype=float)
                rows = rows[0] if rows.ndim == 2 and len(rows) == 1 else rows
                belief = tuple(rows.tolist()) if rows.ndim == 1 else rows
        object.__setattr__(self, "belief", belief)

    def rows(self, agents: Sequence[Hashable]) -> Float[np.ndarray, "#N S"]:
        """The beliefs of these agents, or one row for all."""
        if isinstance(self.belief, Mapping):
            return _as_numbers([_of_agent(self.belief, agent) for agent in agents])
        return np.atleast_2d(_as_numbers(self.belief))

    def data(self, agents: Sequence[Hashable], states: int) -> Float[Array, "#N S"]:
        """The beliefs, refused (never renormalised) if they are off the simplex."""
        belief = self.rows(agents)
        if belief.ndim != 2 or belief.shape[1] != states or len(belief) not in {1, len(agents)}:
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
        try:
            Simplex().check(belief, np.array(names, dtype=object))
        except ModelError as error:
            raise ModelError(f"pf.KnownPrior(x0): {error}") from error
        return on_device(belief)

    def rule(self) -> "KnownPrior":
        """Beliefs come with the data."""
        return KnownPrior(())

    def beliefs(self, theta, data, panel=None, scene=None):  # type: ignore[no-untyped-def]
        """As given."""
        return data


def _of_agent(belief: Mapping[Hashable, ArrayLike], agent: Hashable) -> ArrayLike:
    """The belief of an agent; a part (agent, k) of one that was split at a gap may have its.

    Files name agents in text: where no number 7 is listed, "7" is that agent.
    """
    whole = agent[:1] if isinstance(agent, tuple) and len(agent) == 2 else ()
    for name in (agent, *whole):
        for spelling in (name, str(name)):
            if spelling in belief:
                return belief[spelling]
    raise ModelError(f"the known prior has no belief for agent {agent!r}.")


def _as_numbers(belief: ArrayLike | Sequence) -> np.ndarray:
    """An array of numbers, or an error: rows of different lengths and words are neither."""
    try:
        return np.asarray(belief, dtype=float)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"a known prior must be an array of probabilities, one row for all agents or one each, "
            f"all of the same length, but it is {belief!r}."
        ) from error


@dataclasses.dataclass(frozen=True)
class CommonPrior(AbstractPrior):
    """One unknown x0 for all agents, a parameter of its own in theta (uniform to start with)."""

    name: str = "x0"

    def space(self, labels: Sequence[str]) -> ParameterSpace:
        """x0 on the simplex."""
        uniform = np.full(len(labels), 1 / len(labels))
        return ParameterSpace({self.name: Parameter(uniform, Simplex(), labels=(tuple(labels),))})

    def beliefs(self, theta, data, panel=None, scene=None):  # type: ignore[no-untyped-def]
        """theta's x0."""
        return jnp.asarray(theta[self.name])[None, :]


@dataclasses.dataclass(frozen=True)
class AgentPriors(AbstractPrior):
    """Each agent has an unknown x0 of its own, estimated with the rest (`pf.Joint` alone).

    x0 of agent i maximises that agent's likelihood at every theta, so theta moves along the
    profile. An agent's observation likelihood is linear in its x0: without the choices the maximum
    is always a vertex.
    """

    by_agent: ClassVar[bool] = True

    def beliefs(self, theta, data, panel=None, scene=None):  # type: ignore[no-untyped-def]
        """The profile's maximisers, which come as data; uniform before there are any."""
        if panel is None:
            raise ModelError(
                "each agent's own prior is found from what it saw and did: it is for fit and "
                "log_likelihood. Elsewhere hand the beliefs found to pf.KnownPrior, as in "
                "pf.KnownPrior(est.agent_priors)."
            )
        return data


@dataclasses.dataclass(frozen=True)
class StationaryPrior(AbstractPrior):
    """x0 = E[x | z0] under the stationary law of (z, x) and the policy at theta: no parameters.

    The law is that of the chain on at least `nodes` beliefs an edge (121 for two hidden states, 41
    for three, fewer for more); mass between nodes is split so that mean and variance of the belief
    are kept. `LogLikelihood.prior_error` and the summary of a fit say what x0 may be off by.
    """

    nodes: int | None = None
    needs_policy: ClassVar[bool] = True

    def cells(self, states: int) -> int:
        """How many cells an edge the law's grid has; an even number, so that it can be halved."""
        default = _LAW_NODES.get(states) or default_scheme(states).nodes
        nodes = default if self.nodes is None else self.nodes
        return 2 * max(1, math.ceil((nodes - 1) / law_degree(states) / 2))

    def check(self, primitives: Primitives) -> None:
        """With a finite horizon the policy changes with the epoch, and nothing is stationary."""
        if primitives.horizon is not None:
            raise ModelError(
                "a stationary prior needs an infinite horizon: with a last epoch the policy "
                "changes from one to the next. Use pf.KnownPrior or pf.CommonPrior."
            )
        grid = law_scheme(primitives.states, self.cells(primitives.states))
        refuse_if_too_large(primitives, grid, "pf.StationaryPrior", memory_for_each_z)

    def beliefs(self, theta, data, panel=None, scene=None):  # type: ignore[no-untyped-def]
        """The row of each agent's first context and observation."""
        return self.on_cells(1, panel, scene)

    def on_cells(
        self, part: int, panel: PanelArrays | None, scene: Scene | None
    ) -> Float[Array, "N S"]:
        """The same on a grid with a part of the cells: 1 for all, 2 for a half."""
        if panel is None or scene is None:
            raise ModelError(
                "a stationary prior follows from the policy and the first observation: it is for "
                "fit and log_likelihood. To simulate from it, hand its beliefs to pf.KnownPrior."
            )
        table = stationary_beliefs(scene, self.cells(scene.kernel.states) // part)
        return table[panel.context[:, 0], panel.z[:, 0]]


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


def labels_of(model: Model, states: int) -> tuple[str, ...]:
    """Names of the hidden states; their numbers where the model has none."""
    return model.state_labels() or tuple(map(str, range(states)))


def checked_with_prior(
    model: Model, theta: Theta, prior: AbstractPrior | None
) -> tuple[Primitives, AbstractPrior, dict[str, Array]]:
    """Primitives, prior and theta (the prior's parameters included), all of them checked."""
    require_model(model)
    own = model.space()
    primitives = checked_primitives(model, {n: theta[n] for n in own.parameters if n in theta}, own)
    prior = prior_or_default(prior, primitives.states)
    space = own | prior.space(labels_of(model, primitives.states))
    return primitives, prior, space.check(theta)
