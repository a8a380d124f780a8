"""From theta to what a panel is scored by, with derivatives through the Bellman equation.

The value's coefficients v stand in the middle: stage(theta, v), where v solves
gap(theta, v) = T(theta, v) - v = 0. Forward, dv = (I - T')^-1 (partial gap) for all directions at
once. Backward, a function with derivative b in v has multipliers lambda = (I - T')^-T b, and its
derivative in theta through v is lambda' (partial gap), whatever the number of parameters.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator, bellman_operator
from pomdpfit._fixed_point import multipliers, value_mover
from pomdpfit._model import Model, Primitives
from pomdpfit._policy import action_values_along
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

    def _operators(self, theta: Theta, covariates: Covariates) -> BellmanOperator:
        """The Bellman operator of every context, stacked.

        Made in one way wherever it is needed, so that a program has it once.
        """
        make = lambda w: bellman_operator(self.model.primitives({**theta, **w}), self.grid)
        return for_each_context(make, covariates)

    def stage(self, theta: Theta, value: Value, data: Data) -> Stage:
        """Without a value there are no choices to be scored."""
        return self._stage_and_gap(theta, value, data)[0]

    def _stage_and_gap(self, theta: Theta, value: Value, data: Data) -> tuple[Stage, Value]:
        if value is None:
            scene, gap = None, None
            primitives = self.primitives(theta, data.covariates)
        else:
            operators = self._operators(theta, data.covariates)
            scene, gap = make_scene(operators, value)
            primitives = operators.primitives
        x0 = self.prior.beliefs(theta, data.prior, data.panel, scene)
        return Stage(stacked_kernel(primitives.kernel), x0, scene), gap

    def _moving(self, theta: Theta, value: Value, data: Data) -> tuple[Stage, Value]:
        stage, gap = self._stage_and_gap(theta, value, data)
        return stage.split()[0], gap

    def pull(
        self, free: dict, fixed: dict, value: Value, data: Data, back: Stage, by: Value
    ) -> tuple[dict, Value]:
        """The derivative in `free` and in the value of back' stage + by' gap."""
        at = lambda free, value: self._moving(free | fixed, value, data)
        return jax.vjp(at, free, value)[1]((back, by))

    def multipliers(
        self, free: dict, fixed: dict, value: Array, data: Data, back: Stage
    ) -> Float[Array, "C *H Z n c"]:
        """lambda, for a function of the stage with derivative `back`."""
        in_value = self._back_to_value(free | fixed, value, data, back)
        each = lambda operator, value, back: multipliers(operator, value, back, self.plan)
        return self.by_context(each, free | fixed, data.covariates, value, in_value)

    def mover(
        self, theta: Theta, names: Iterable[str], value: Value, data: Data
    ) -> Callable[[dict], Moves]:
        """Moves along p directions in which these leaves of theta go, as a function of them."""
        here = {name: theta[name] for name in names}
        at = lambda moved: self._moving({**theta, **moved}, value, data)
        along = jax.linearize(at, here)[1]
        if value is None:
            return lambda directions: Moves(None, jax.lax.map(along, directions)[0])
        solve = self._value_mover(theta, value, data.covariates)
        through = self._through_value(theta, value, data)

        def moves(directions: dict) -> Moves:
            # One after the other: side by side, the compiler would read V anew for each of them.
            stage, gap = jax.lax.map(along, directions)
            moved = solve(gap)
            return Moves(moved, through(stage, moved))

        return moves

    @property
    def _in_action_values_alone(self) -> bool:
        """Whether nothing else hangs on the value; on it they hang linearly."""
        return self.model.horizon() is None and not self.prior.needs_policy

    def _back_to_value(
        self, theta: Theta, value: Array, data: Data, back: Stage
    ) -> Float[Array, "C *H Z n c"]:
        """The derivative in the value, theta apart, of what has the derivative `back`."""
        if not self._in_action_values_alone or back.scene is None:
            moving = lambda value: self._moving(theta, value, data)[0]
            return jax.vjp(moving, value)[1](back)[0]
        operators = self._operators(theta, data.covariates)
        each = lambda value: in_each_context(action_values_along, operators, value)
        return jax.vjp(each, value)[1](back.scene.values.table)[0]

    def _through_value(
        self, theta: Theta, value: Array, data: Data
    ) -> Callable[[Stage, Float[Array, "p C *H Z n c"]], Stage]:
        """Moves of the stage at a value that stays, made those at a value that moves too."""
        if not self._in_action_values_alone:
            moving = lambda value: self._moving(theta, value, data)[0]
            along = jax.vmap(jax.linearize(moving, value)[1])
            return lambda stage, moved: jax.tree.map(jnp.add, stage, along(moved))
        operators = self._operators(theta, data.covariates)
        each = jax.vmap(lambda moved: in_each_context(action_values_along, operators, moved))

        def add(stage: Stage, moved: Array) -> Stage:
            more = lambda table: table + each(moved)
            return eqx.tree_at(lambda stage: stage.scene.values.table, stage, replace_fn=more)

        return add

    def _value_mover(
        self, theta: Theta, value: Array, covariates: Covariates
    ) -> Callable[[Float[Array, "p C *H Z n c"]], Float[Array, "p C *H Z n c"]]:
        mover = lambda operator, value: value_mover(operator, value, self.plan)
        if not covariates:
            one = mover(first_context(self._operators(theta, {})), value[0])
            return lambda gap: one(gap[:, 0])[:, None]
        each = lambda operator, value, gap: mover(operator, value)(gap)

        def of(gap: Array) -> Array:
            rows = value, jnp.swapaxes(gap, 0, 1)
            return jnp.swapaxes(self.by_context(each, theta, covariates, *rows), 0, 1)

        return of

    def by_context(
        self, each: Callable, theta: Theta, covariates: Covariates, *rows: Array
    ) -> Array:
        """One context after the other: each is as much work as a machine has room for."""
        operators = self._operators(theta, covariates)
        if not covariates:
            return each(first_context(operators), *(part[0] for part in rows))[None]
        moving, rest = eqx.partition(operators, eqx.is_array)
        one = lambda row: each(eqx.combine(row[0], rest), *row[1])
        return jax.lax.map(one, (moving, rows))
