"""Kernel and policy of every context side by side.

A context is one row of covariates (a group, a price). The agent takes the covariates of today for
those of all days to come, so each context is a problem of its own, with its own value; what ties
contexts together is the belief, which goes on from one to the next. Tables of all contexts are
stacked into rows (context, z), so that looking one up costs the same however many there are.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator
from pomdpfit._interpolate import interpolate
from pomdpfit._kernel import Kernel
from pomdpfit._policy import ActionValues, action_values_and_gap
from pomdpfit._shocks import AbstractShock
from pomdpfit._types import Array, Float, Int

_T = TypeVar("_T")
Covariates = Mapping[str, Float[Array, "C"]]


class Scene(eqx.Module):
    """What happens and what is chosen at any (context, z, x)."""

    kernel: Kernel
    values: ActionValues  # with a leading axis of contexts on every leaf

    @property
    def contexts(self) -> int:
        """C."""
        return self.values.table.shape[0]

    def row(self, context: Int[Array, "*b"], z: Int[Array, "*b"]) -> Int[Array, "*b"]:
        """Where (context, z) stands in the kernel."""
        return context * self.kernel.observations + z

    def epoch(self, epoch: Int[Array, "*b"]) -> Int[Array, "*b"] | None:
        """The decision epoch that is acted in; None with an infinite horizon."""
        horizon = self.values.primitives.horizon
        return None if horizon is None else jnp.minimum(epoch, horizon - 1)

    def table_row(
        self, context: Int[Array, "*b"], z: Int[Array, "*b"], t: Int[Array, "*b"] | None
    ) -> Int[Array, "*b"]:
        """Where (context, epoch if there is a last one, z) stands among the action values."""
        at = (context, z) if t is None else (context, t, z)
        return jnp.ravel_multi_index(at, self.values.table.shape[: len(at)], mode="clip")

    def q(
        self,
        context: Int[Array, "*b"],
        z: Int[Array, "*b"],
        x: Float[Array, "*b S"],
        t: Int[Array, "*b"] | None,
    ) -> Float[Array, "*b A"]:
        """Q(z, x, .) in each context."""
        return interpolate(self.values.scheme, self.table, self.table_row(context, z, t), x)

    @property
    def table(self) -> Float[Array, "R m A"]:
        """The action values, by `table_row`."""
        table = self.values.table
        return table.reshape(-1, *table.shape[-2:])

    def available(self, context: Int[Array, "*b"], z: Int[Array, "*b"]) -> Array | None:
        """The actions that can be taken."""
        available = self.values.primitives.available
        return None if available is None else available[context, z]

    def log_choice(
        self,
        context: Int[Array, "*b"],
        z: Int[Array, "*b"],
        x: Float[Array, "*b S"],
        t: Int[Array, "*b"] | None,
    ) -> Float[Array, "*b A"]:
        """log pi(a | z, x) in each context."""
        return self.log_choice_at(self.shock, context, z, self.q(context, z, x, t))

    def log_choice_at(
        self,
        shock: AbstractShock,
        context: Int[Array, "*b"],
        z: Int[Array, "*b"],
        q: Float[Array, "*b A"],
    ) -> Float[Array, "*b A"]:
        """log pi(a | z, x) in each context, where Q(z, x, .) is q and shocks are these."""
        available = self.available(context, z)
        if self.contexts == 1:
            return first_context(shock).log_choice(q, available)
        each = lambda shock, q, available: shock.log_choice(q, available)
        for _ in context.shape:
            each = jax.vmap(each, in_axes=(0, 0, None if available is None else 0))
        return each(jax.tree.map(lambda leaf: leaf[context], shock), q, available)

    @property
    def shock(self) -> AbstractShock:
        """The shocks of all contexts."""
        return self.values.primitives.shock


def for_each_context(make: Callable[[dict], _T], covariates: Covariates) -> _T:
    """make(covariates of one context) for all of them, stacked; once if there are none."""
    if not covariates:
        return _alone(make({}))
    return jax.vmap(make)(dict(covariates))


def in_each_context(function: Callable[..., _T], operators: BellmanOperator, value: Array) -> _T:
    """function(operator, value) of every context, from what has a leading axis of contexts.

    One alone is taken out and put back: reads that are batched are more to compile.
    """
    if len(value) > 1:
        return jax.vmap(function)(operators, value)
    return _alone(function(first_context(operators), value[0]))


def _alone(one: _T) -> _T:
    """One context, as if it were stacked."""
    return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, 0), one)


def first_context(stacked: _T) -> _T:
    """The first of what is stacked by context."""
    return jax.tree.map(lambda leaf: leaf[0], stacked)


def stacked_kernel(kernel: Kernel) -> Kernel:
    """Rows (context, z) from a kernel whose leaves have a leading axis of contexts."""

    def rows(table: Array) -> Array:
        contexts, rows, *rest = table.shape
        if contexts > 1 and rows == 1:  # one row serves every z, but not every context
            table = jnp.broadcast_to(table, (contexts, kernel.observations, *rest))
        return table.reshape(-1, *rest)

    successors, probability = jnp.asarray(kernel.successors), jnp.asarray(kernel.probability)
    return Kernel(rows(successors), rows(probability), observations=kernel.observations)


def make_scene(
    operators: BellmanOperator, value: Float[Array, "C *H Z n c"]
) -> tuple[Scene, Float[Array, "C *H Z n c"]]:
    """Action values of every context, from operators and values with a leading context axis.

    And T V - V of every context.
    """
    values, gap = in_each_context(action_values_and_gap, operators, value)
    return Scene(stacked_kernel(operators.primitives.kernel), values), gap


def single_scene(values: ActionValues) -> Scene:
    """One context."""
    values = _alone(values)
    return Scene(stacked_kernel(values.primitives.kernel), values)
