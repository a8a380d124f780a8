"""rollout(): any policy in any world, as a panel."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._model import Model
from pomdpfit._optional import import_extra
from pomdpfit._panel import Panel
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior
from pomdpfit._types import Float, Theta
from pomdpfit.environments._policies import AbstractActor, Policy, make_actor
from pomdpfit.environments._world import World, checked_observation, draw, make_world


class _Episode(Protocol):
    """One agent's world."""

    def begin(self, seed: int) -> int:
        """The first observation."""

    def step(self, a: int) -> tuple[int, bool]:
        """What is seen after the action, and whether it was the last one."""


@dataclasses.dataclass
class _InWorld:
    """In the world of a model: draws the numbers that the model's environment would draw."""

    world: World
    x0: Float[np.ndarray, "S"]
    z0: int

    def begin(self, seed: int) -> int:
        self._rng, self._z, self._epoch = np.random.default_rng(seed), self.z0, 0
        self._s = self.world.first_state(self.x0, self._rng)
        return self._z

    def step(self, a: int) -> tuple[int, bool]:
        self.world.refuse_unless_available(self._z, a)
        self._z, self._s = self.world.move(self._z, self._s, a, self._rng)
        self._epoch += 1
        return self._z, self.world.horizon is not None and self._epoch >= self.world.horizon


@dataclasses.dataclass
class _InEnvironment:
    """In a Gymnasium environment."""

    env: Any

    def begin(self, seed: int) -> int:
        return int(self.env.reset(seed=seed)[0])

    def step(self, a: int) -> tuple[int, bool]:
        z, _, terminated, truncated, _ = self.env.step(a)
        return int(z), bool(terminated or truncated)


@in_float64
def rollout(
    world: Any,
    policy: Policy,
    *,
    agents: int,
    periods: int,
    seed: int,
    theta: Theta | None = None,
    prior: AbstractPrior | None = None,
    z0: int | None = None,
) -> Panel:
    """Let a policy act for `agents` agents over at most `periods` choices each.

    world   a pf.Model (with `theta`, `prior` and `z0`, as in `pf.simulate`), or a Gymnasium
            environment with Discrete observations and actions
    policy  a pf.Solution, which keeps its beliefs by Bayes' rule from the prior; or a function
            policy(z, a) of the observations so far (the present one last) and the actions so far,
            which gives an action or a row of probabilities

    The solution need not be of the world it acts in. Agent i's draws depend on the seed and on i
    alone. The last row of each agent holds z without an action.
    """
    for name, value, least in (("agents", agents, 1), ("periods", periods, 1), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or value < least:
            raise ModelError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    seeds = [np.random.SeedSequence([seed, i]).generate_state(2) for i in range(agents)]
    if isinstance(world, Model):
        if theta is None:
            raise ModelError("a model is a world only at a theta: hand it over as theta=...")
        tables = make_world(world, theta, prior, agents)
        first = checked_observation(0 if z0 is None else z0, tables.observations)
        x0 = np.broadcast_to(tables.x0, (agents, tables.x0.shape[1]))
        episodes: list[_Episode] = [_InWorld(tables, x0[i], first) for i in range(agents)]
        paths = _act(episodes, make_actor(policy, tables.actions, x0), seeds, periods)
    else:
        actions = _discrete_actions(world, theta, z0)
        x0_all = _first_beliefs(world, prior, policy, agents)
        paths = []
        for i in range(agents):  # one environment serves all, one after the other
            actor = make_actor(policy, actions, None if x0_all is None else x0_all[i : i + 1])
            paths += _act([_InEnvironment(world)], actor, seeds[i : i + 1], periods)
    panel = Panel.from_arrays(
        *([np.array(path, dtype=int) for path in each] for each in zip(*paths, strict=True))
    )
    if isinstance(world, Model) and theta is not None:
        own = {name: float(theta[name]) for name in world.space().covariates}
        panel = panel.with_covariates(**own)
        panel = dataclasses.replace(panel, groups=world.group_labels() or ())
    return dataclasses.replace(panel, notes=(f"acted out with seed {seed}",))


def _act(
    episodes: Sequence[_Episode],
    actor: AbstractActor,
    seeds: Sequence[np.ndarray],
    periods: int,
) -> list[tuple[list[int], list[int]]]:
    """All episodes side by side, until each has ended."""
    z = [[episode.begin(int(own[0]))] for episode, own in zip(episodes, seeds, strict=True)]
    a: list[list[int]] = [[] for _ in episodes]
    luck = [np.random.default_rng(int(own[1])) for own in seeds]
    alive = list(range(len(episodes)))
    for _ in range(periods):
        ended = set()
        for i, law in zip(alive, actor.choices(z, a, alive), strict=True):
            a[i].append(draw(law, luck[i]))
            seen, last = episodes[i].step(a[i][-1])
            z[i].append(seen)
            if last:
                ended.add(i)
        alive = [i for i in alive if i not in ended]
        if not alive:
            break
    return list(zip(z, a, strict=True))


def _discrete_actions(env: Any, theta: Theta | None, z0: int | None) -> int:
    """How many actions an environment has, after a look at its spaces."""
    gymnasium = import_extra("gymnasium", "gymnasium", "acting in an environment")
    if not isinstance(env, gymnasium.Env):
        raise ModelError(f"world must be a pf.Model or a gymnasium.Env, not {type(env)}.")
    if theta is not None or z0 is not None:
        raise ModelError("an environment has its own theta and its own z0: leave them out.")
    for name in ("observation_space", "action_space"):
        space = getattr(env, name)
        if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
            raise ModelError(f"the {name} must be Discrete, counted from 0, but it is {space}.")
    return int(env.action_space.n)


def _first_beliefs(
    env: Any, prior: AbstractPrior | None, policy: Policy, agents: int
) -> Float[np.ndarray, "N S"] | None:
    """The prior given, or the one that a model's own environment draws from."""
    if prior is not None:
        states = policy.primitives.states if hasattr(policy, "primitives") else None
        if states is None:
            raise ModelError("a function of what was seen has no use for a prior: leave it out.")
        x0 = np.asarray(prior.beliefs({}, prior.data(range(agents), states)))
    else:
        own = getattr(env.unwrapped, "world", None)
        if not isinstance(own, World):
            return None
        x0 = own.x0
    return np.broadcast_to(x0, (agents, x0.shape[1]))
