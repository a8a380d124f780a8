"""From theta to what a panel is scored by, with derivatives through the Bellman equation.

theta alone makes the ground: operators, and beliefs to start from. With the coefficients v of the
value it makes the stage(ground, v), where v solves gap(ground, v) = T(ground, v) - v = 0. Forward,
dv = (I - T')^-1 (partial gap) for all directions at once. Backward, a function with derivative b in
v has multipliers lambda = (I - T')^-T b, and its derivative in theta through v is
lambda' (partial gap), whatever the number of parameters. Ground and stage have derivatives of their
own, so that no program needs to hold both: the chain rule joins them.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator, bellman_operator
from pomdpfit._fixed_point import multipliers, value_mover
from pomdpfit._kernel import Kernel
from pomdpfit._model import Model, Primitives
from pomdpfit._policy import action_values_along, action_values_back
from pomdpfit._priors import AbstractPrior
from pomdpfit._scene import (
    Covariates,
    first_context,
    for_each_context,
    in_each_context,
    make_scene,
    stacked_kernel,
)
from pomdpfit._schemes import AbstractScheme
from pomdpfit._stage import Data, Stage, Value
from pomdpfit._types import Array, Float, Theta
from pomdpfit.solvers import Plan


class Ground(eqx.Module):
    """What theta alone makes of the model and the prior, before a value is known."""

    made: BellmanOperator | Primitives  # of every context, stacked; operators if choices count
    x0: Float[Array, "#N S"] | None  # None where it follows from the policy
    theta: dict  # empty unless it does

    @property
    def operators(self) -> BellmanOperator:
        """Where choices count."""
        assert isinstance(self.made, BellmanOperator)
        return self.made

    @property
    def kernel(self) -> Kernel:
        """Of every context."""
        made = self.made
        return made.kernel if isinstance(made, Primitives) else made.primitives.kernel

    def split(self) -> tuple["Ground", "Ground"]:
        """What has derivatives, and the rest: `eqx.combine` puts them together again."""
        return eqx.partition(self, eqx.is_inexact_array)


class Moves(NamedTuple):
    """How the value and what is scored by it move along each of p directions."""

    value: Float[Array, "p C *H Z n c"] | None
    stage: Stage


class Problem(eqx.Module):
    """Everything that stays the same while theta moves, apart from the data."""

    model: Model
    prior: AbstractPrior = eqx.field(static=True)
    grid: AbstractScheme = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)

    def primitives(self, theta: Theta, covariates: Covariates) -> Primitives:
        """The primitives of every context, stacked."""
        return for_each_context(lambda w: self.model.primitives({**theta, **w}), covariates)

    def ground(self, theta: Theta, data: Data, *, with_choices: bool) -> Ground:
        """What theta makes, with operators only where choices are to be scored."""
        made: BellmanOperator | Primitives
        if with_choices:
            each = lambda w: bellman_operator(self.model.primitives({**theta, **w}), self.grid)
            made = for_each_context(each, data.covariates)
        else:
            made = self.primitives(theta, data.covariates)
        if self.prior.needs_policy:
            return Ground(made, None, dict(theta))
        return Ground(made, self.prior.beliefs(theta, data.prior, data.panel), {})

    def stage(self, ground: Ground, value: Value, data: Data) -> Stage:
        """Without a value there are no choices to be scored."""
        return self._stage_and_gap(ground, value, data)[0]

    def _stage_and_gap(self, ground: Ground, value: Value, data: Data) -> tuple[Stage, Value]:
        scene, gap = (None, None) if value is None else make_scene(ground.operators, value)
        x0 = ground.x0
        if x0 is None:
            x0 = self.prior.beliefs(ground.theta, data.prior, data.panel, scene)
        return Stage(stacked_kernel(ground.kernel), x0, scene), gap

    def _moving(self, ground: Ground, value: Value, data: Data) -> tuple[Stage, Value]:
        stage, gap = self._stage_and_gap(ground, value, data)
        return stage.split()[0], gap

    def pull(
        self, free: dict, fixed: dict, value: Value, data: Data, back: Stage, by: Value
    ) -> dict:
        """The derivative in `free` of back' stage + by' gap."""
        ground = self.ground(free | fixed, data, with_choices=value is not None)
        to_ground, _ = self.pull_stage(ground, value, data, back, by)
        return self.pull_ground(free, fixed, data, to_ground, with_choices=value is not None)

    def pull_ground(
        self, free: dict, fixed: dict, data: Data, back: Ground, *, with_choices: bool
    ) -> dict:
        """The derivative in `free` of back' ground."""
        at = lambda free: self.ground(free | fixed, data, with_choices=with_choices).split()[0]
        return jax.vjp(at, free)[1](back)[0]

    def pull_stage(
        self, ground: Ground, value: Value, data: Data, back: Stage, by: Value
    ) -> tuple[Ground, Value]:
        """The derivative in the ground and in the value of back' stage + by' gap."""
        moving, still = ground.split()
        at = lambda moving, value: self._moving(eqx.combine(moving, still), value, data)
        return jax.vjp(at, moving, value)[1]((back, by))

    def pull_value(
        self, ground: Ground, value: Array, data: Data, back: Stage
    ) -> Float[Array, "C *H Z n c"]:
        """The derivative of back' stage in the value alone."""
        if not self._in_action_values_alone or back.scene is None:
            moving = lambda value: self._moving(ground, value, data)[0]
            return jax.vjp(moving, value)[1](back)[0]
        return in_each_context(action_values_back, ground.operators, back.scene.values.table)

    def multipliers(
        self, ground: Ground, value: Array, back: Float[Array, "C *H Z n c"]
    ) -> Float[Array, "C *H Z n c"]:
        """lambda, for a function with the derivative `back` in the value."""
        each = lambda operator, value, back: multipliers(operator, value, back, self.plan)
        return by_context(each, ground.operators, value, back)

    def mover(
        self, theta: Theta, names: Iterable[str], value: Value, data: Data
    ) -> Callable[[dict], Moves]:
        """Moves along p directions in which these leaves of theta go, as a function of them."""
        ground = self.ground(theta, data, with_choices=value is not None)
        to_ground = self._ground_along(theta, names, data, with_choices=value is not None)
        to_stage = self._stage_along(ground, value, data)

        def moves(directions: dict) -> Moves:
            # One after the other: side by side, the compiler would read V anew for each of them.
            stage, gap = jax.lax.map(lambda each: to_stage(to_ground(each)), directions)
            if value is None:
                return Moves(None, stage)
            moved = self.move_value(ground, value, gap)
            return Moves(moved, self.with_value(ground, value, data, stage, moved))

        return moves

    def move_ground(self, theta: Theta, data: Data, directions: dict) -> Ground:
        """How it moves along p directions, where choices count."""
        along = self._ground_along(theta, directions, data, with_choices=True)
        return jax.lax.map(along, directions)

    def move_stage(
        self, ground: Ground, value: Value, data: Data, moved: Ground
    ) -> tuple[Stage, Value]:
        """How stage and gap move with the ground in p ways, at a value that stays."""
        return jax.lax.map(self._stage_along(ground, value, data), moved)

    def _ground_along(
        self, theta: Theta, names: Iterable[str], data: Data, *, with_choices: bool
    ) -> Callable[[dict], Ground]:
        made = lambda theta: self.ground(theta, data, with_choices=with_choices).split()[0]
        at = lambda moved: made({**theta, **moved})
        return jax.linearize(at, {name: theta[name] for name in names})[1]

    def _stage_along(
        self, ground: Ground, value: Value, data: Data
    ) -> Callable[[Ground], tuple[Stage, Value]]:
        moving, still = ground.split()
        at = lambda moving: self._moving(eqx.combine(moving, still), value, data)
        return jax.linearize(at, moving)[1]

    def move_value(
        self, ground: Ground, value: Array, gap: Float[Array, "p C *H Z n c"]
    ) -> Float[Array, "p C *H Z n c"]:
        """dv, where the gap at a value that stays moves so."""
        each = lambda operator, value, gap: value_mover(operator, value, self.plan)(gap)
        by_row = by_context(each, ground.operators, value, jnp.swapaxes(gap, 0, 1))
        return jnp.swapaxes(by_row, 0, 1)

    def with_value(
        self,
        ground: Ground,
        value: Array,
        data: Data,
        stage: Stage,
        moved: Float[Array, "p C *H Z n c"],
    ) -> Stage:
        """Moves of the stage at a value that stays, made those at a value that moves too."""
        if not self._in_action_values_alone:
            moving = lambda value: self._moving(ground, value, data)[0]
            along = jax.vmap(jax.linearize(moving, value)[1])
            return jax.tree.map(jnp.add, stage, along(moved))
        more = jax.vmap(lambda dv: in_each_context(action_values_along, ground.operators, dv))
        add = lambda table: table + more(moved)
        return eqx.tree_at(lambda stage: stage.scene.values.table, stage, replace_fn=add)

    @property
    def _in_action_values_alone(self) -> bool:
        """Whether nothing else hangs on the value; on it they hang linearly."""
        return self.model.horizon() is None and not self.prior.needs_policy


def without_slopes(problem: Problem, *_: object) -> bool:
    """Whether V is kept by values alone: sweeps over it then need no more than light programs."""
    return problem.grid.coefficients == 1


def by_context(each: Callable, operators: BellmanOperator, *rows: Array) -> Array:
    """One context after the other: each is as much work as a machine has room for."""
    if len(operators.reward) == 1:
        return each(first_context(operators), *(part[0] for part in rows))[None]
    moving, rest = eqx.partition(operators, eqx.is_array)
    one = lambda row: each(eqx.combine(row[0], rest), *row[1])
    return jax.lax.map(one, (moving, rows))
