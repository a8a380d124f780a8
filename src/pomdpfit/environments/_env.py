"""The environment itself; the only module that imports Gymnasium at its top."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from pomdpfit._errors import ModelError
from pomdpfit.environments._world import World, checked_belief, checked_observation

_OPTIONS = ("prior", "z0")


class ModelEnv(gymnasium.Env):
    """A POMDP to act in: made by `pf.to_gymnasium`.

    `info` holds the hidden `state` and its `state_label`, the `epoch`, an `action_mask` (1 where an
    action is available) and, with shocks, the `shock` of every action in the coming choice; at the
    end of a finite horizon also `terminal`, the terminal value of (z, s), which is no reward.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own convention)

    def __init__(self, world: World, z0: int, periods: int | None, shocks: bool) -> None:
        self.world, self.z0, self.periods, self.shocks = world, z0, periods, shocks
        self.observation_space = spaces.Discrete(world.observations)
        self.action_space = spaces.Discrete(world.actions)
        self.state_labels, self.action_labels = world.state_labels, world.action_labels
        self.x0 = world.x0[0]
        self._z: int | None = None
        self._shock = np.zeros(world.actions)
        if shocks:
            world.shocks(np.random.default_rng(0))  # refused now rather than at the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """z_0, with s_0 drawn from the prior; `x0` is the belief that it was drawn from."""
        super().reset(seed=seed)
        options = options or {}
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise ModelError(f"there is no option {unknown[0]!r}; the options are prior and z0.")
        states = len(self.state_labels)
        self.x0 = checked_belief(options.get("prior", self.world.x0[0]), states)
        self._z = checked_observation(options.get("z0", self.z0), self.world.observations)
        self._s, self._epoch = self.world.first_state(self.x0, self.np_random), 0
        return self._z, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """z', r(z, s, a), whether the horizon ends here, whether the periods do, and info."""
        if self._z is None:
            raise ModelError("the episode has not begun: call reset() first.")
        world = self.world
        a = world.checked_action(action)
        world.refuse_unless_available(self._z, a)
        reward = float(world.reward[self._z, self._s, a] + self._shock[a])
        self._z, self._s = world.move(self._z, self._s, a, self.np_random)
        self._epoch += 1
        terminated = world.horizon is not None and self._epoch >= world.horizon
        truncated = self.periods is not None and self._epoch >= self.periods
        z, info = self._z, self._info()
        if terminated and world.terminal is not None:
            info["terminal"] = float(world.terminal[z, self._s])
        if terminated:
            self._z = None  # there is no epoch to act in
        return z, reward, terminated, truncated and not terminated, info

    def _info(self) -> dict[str, Any]:
        assert self._z is not None
        info = {
            "state": self._s,
            "state_label": self.state_labels[self._s],
            "epoch": self._epoch,
            "action_mask": self.world.available[self._z].astype(np.int8),
        }
        if self.shocks:
            self._shock = self.world.shocks(self.np_random)
            info["shock"] = self._shock.copy()
        return info
