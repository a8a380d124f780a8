"""The log-likelihood: an observation and a choice term for each agent and period; sums come last.

log l = sum_i sum_t log sigma(z_{t+1}, z_t, x_t, a_t) + log pi(a_t | z_t, x_t)

The paper adds sum_i log x0_i. A belief is a distribution, not the probability of anything in the
data (s0 is not seen), so that term has no place in a likelihood and is left out; it does not
depend on theta when x0 is known.

Solving for the value and scoring the panel are compiled apart: what belongs to the model is
compiled once for all panels. Here the value is given. Their derivatives are joined by the chain
rule, with the value's coefficients v in the middle:
d log l = (partial in theta) + (partial in v) dv/dtheta, the last term by multipliers lambda of the
constraint T(theta, v) = v where a gradient is asked for, by dv/dtheta itself for per-agent scores.
Second derivatives are those of log l + lambda' (T(theta, v) - v) along the directions
(theta_k, dv/dtheta_k), for its derivative in v is zero. The observation terms need no value; where
they alone are asked for, v is None and nothing is solved.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from pomdpfit._belief import filter_by_period
from pomdpfit._fixed_point import attached_moves, constraint, multipliers
from pomdpfit._kernel import Kernel
from pomdpfit._model import Model, Primitives
from pomdpfit._moves import find_moves
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._priors import AbstractPrior
from pomdpfit._scene import Covariates, Scene, for_each_context, make_scene, stacked_kernel
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float, Int, Theta
from pomdpfit.solvers import Plan

_TOGETHER = 64  # directions along which the value is differentiated at once
_ROWS_AT_ONCE = 2**16  # what fits the caches, derivatives included

Value = Float[Array, "C *H Z n c"] | None


class Data(NamedTuple):
    """The panel, what is known of x0, and the covariates of each context.

    `moves` may hold what `find_moves` finds for this panel: it is the same at every theta.
    """

    panel: PanelArrays
    prior: Float[Array, "#N S"]
    covariates: Covariates
    moves: Int[Array, "T N"] | None = None


class Terms(NamedTuple):
    """What the likelihood is made of."""

    observation: Float[Array, "N T"]
    choice: Float[Array, "N T"]
    belief: Float[Array, "N T S"]

    def by_part(self) -> Float[Array, "N 2"]:
        """Each agent's observation and choice part."""
        return jnp.stack([self.observation.sum(axis=1), self.choice.sum(axis=1)], axis=1)

    def by_row(self) -> Float[Array, "N T 2"]:
        """The observation and the choice term of each row."""
        return jnp.stack([self.observation, self.choice], axis=-1)


class Problem(eqx.Module):
    """Everything that stays the same while theta moves, apart from the data."""

    model: Model
    prior: AbstractPrior = eqx.field(static=True)
    grid: AbstractScheme = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)

    def primitives(self, theta: Theta, covariates: Covariates) -> Primitives:
        """The primitives of every context, stacked."""
        return for_each_context(lambda w: self.model.primitives({**theta, **w}), covariates)

    def value_moves(
        self, theta: Theta, directions: dict, solved: Array, covariates: Covariates
    ) -> Float[Array, "p C *H Z n c"]:
        """How the value moves along each of p directions."""
        here = {name: theta[name] for name in directions}

        def moves(pair: tuple[Array, dict]) -> Array:
            at = lambda moved: self.model.primitives({**theta, **moved, **pair[1]})
            return attached_moves(at, here, directions, pair[0], self.grid, self.plan)

        if not covariates:
            return moves((solved[0], {}))[:, None]
        return jnp.swapaxes(jax.lax.map(moves, (solved, dict(covariates))), 0, 1)

    def multipliers(
        self, theta: Theta, solved: Array, back: Array, covariates: Covariates
    ) -> Float[Array, "C *H Z n c"]:
        """lambda, for a function of the value with derivative `back`."""

        def one(row: tuple[Array, Array, dict]) -> Array:
            primitives = self.model.primitives({**theta, **row[2]})
            return multipliers(primitives, row[0], row[1], self.grid, self.plan)

        if not covariates:
            return one((solved[0], back[0], {}))[None]
        return jax.lax.map(one, (solved, back, dict(covariates)))

    def constraint(self, theta: Theta, value: Array, by: Array, covariates: Covariates) -> Array:
        """by' (T(theta, value) - value)."""

        def one(row: tuple[Array, Array, dict]) -> Array:
            primitives = self.model.primitives({**theta, **row[2]})
            return (row[1] * constraint(primitives, row[0], self.grid)).sum()

        if not covariates:
            return one((value[0], by[0], {}))
        return jax.lax.map(one, (value, by, dict(covariates))).sum()

    def terms(self, theta: Theta, value: Value, data: Data) -> Terms:
        """All terms at theta, given the value there; differentiable in both."""
        kernel, scene = self.stage(theta, value, data)
        x0 = self.prior.beliefs(theta, data.prior, data.panel, scene)
        return score(kernel, scene, x0, data)

    def stage(self, theta: Theta, value: Value, data: Data) -> tuple[Kernel, Scene | None]:
        """What does not depend on x0: the kernel, and the policy where there is a value."""
        primitives = self.primitives(theta, data.covariates)
        scene = None if value is None else make_scene(primitives, value, self.grid)
        return stacked_kernel(primitives.kernel), scene


def score(kernel: Kernel, scene: Scene | None, x0: Float[Array, "#N S"], data: Data) -> Terms:
    """The terms of agents that start from x0."""
    panel = data.panel
    moves = find_moves(kernel, panel) if data.moves is None else data.moves
    x, log_sigma = filter_by_period(kernel, moves, x0)
    belief = jnp.transpose(x, (2, 0, 1))
    observation = _observation_terms(panel, log_sigma.T)
    if scene is None:
        return Terms(observation, jnp.zeros_like(observation), belief)
    chosen = _choice_terms(scene, panel, x).T
    return Terms(observation, jnp.where(panel.score_choice, chosen, 0.0), belief)


def _choice_terms(
    scene: Scene, panel: PanelArrays, x: Float[Array, "T S N"]
) -> Float[Array, "T N"]:
    """log pi(a_t | z_t, x_t), some periods at a time: derivatives need room for these alone."""
    horizon = scene.values.primitives.horizon

    @jax.checkpoint
    def period(row: tuple[Array, ...]) -> Float[Array, "N"]:
        context, z, a, epoch, x = row
        t = None if horizon is None else jnp.minimum(epoch, horizon - 1)
        return _taken(scene.log_choice(context, z, x.T, t), a)

    columns = (panel.context, panel.z, panel.a, panel.epoch)
    rows = (*(column.T for column in columns), x)
    T, N = panel.z.T.shape
    return jax.lax.map(period, rows, batch_size=min(T, max(1, _ROWS_AT_ONCE // N)))


def _taken(log_choice: Float[Array, "*b A"], a: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """log_choice[..., a], by masks: its reverse mode would be slow by index."""
    each = (jnp.where(a == k, log_choice[..., k], 0.0) for k in range(log_choice.shape[-1]))
    return functools.reduce(jnp.add, each)


def _observation_terms(panel: PanelArrays, log_sigma: Array) -> Float[Array, "N T"]:
    observation = jnp.where(panel.score_observation, log_sigma, 0.0)
    # The first impossible transition is reported even where it is not scored.
    broken = panel.continues & panel.informs & jnp.isneginf(log_sigma)
    return jnp.where(broken, -jnp.inf, observation)


@eqx.filter_jit
def evaluate(problem: Problem, theta: Theta, value: Value, data: Data) -> Terms:
    """The terms at theta."""
    return problem.terms(theta, value, data)


def pull(
    problem: Problem, free: dict, fixed: dict, value: Value, data: Data, weights: Array
) -> tuple[Terms, dict]:
    """The terms at theta = free | fixed, and the gradient in `free` of their weighted sum."""
    terms, direct, back = _pull_terms(problem, free, fixed, value, data, weights)
    if value is None:
        return terms, direct
    by = _multipliers(problem, free | fixed, value, data.covariates, back)
    through, _ = _pull_constraint(problem, free, fixed, value, data.covariates, by)
    return terms, {name: leaf + through[name] for name, leaf in direct.items()}


@eqx.filter_jit
def _pull_terms(problem, free, fixed, value, data, weights):  # type: ignore[no-untyped-def]
    def total(free: dict, value: Value) -> tuple[Array, Terms]:
        terms = problem.terms(free | fixed, value, data)
        # An agent of weight zero is left out, even where its likelihood is zero.
        parts = jnp.where(weights > 0, terms.by_part(), 0.0)
        return (weights * parts).sum(), terms

    (direct, back), terms = jax.grad(total, argnums=(0, 1), has_aux=True)(free, value)
    return terms, direct, back


@eqx.filter_jit
def _multipliers(problem, theta, value, covariates, back):  # type: ignore[no-untyped-def]
    return problem.multipliers(theta, value, back, covariates)


@eqx.filter_jit
def _pull_constraint(problem, free, fixed, value, covariates, by):  # type: ignore[no-untyped-def]
    worth = lambda free, value: problem.constraint(free | fixed, value, by, covariates)
    return jax.grad(worth, argnums=(0, 1))(free, value)


class Lagrangian(NamedTuple):
    """log l + lambda' (T(theta, v) - v), weighted by agent, with its derivatives."""

    problem: Problem
    weights: Array
    by: Value

    def slope(self, free: dict, fixed: dict, value: Value, data: Data) -> tuple[dict, Value]:
        """In theta, and in v."""
        _, direct, back = _pull_terms(self.problem, free, fixed, value, data, self.weights)
        if value is None:
            return direct, None
        through, own = _pull_constraint(self.problem, free, fixed, value, data.covariates, self.by)
        return {name: leaf + through[name] for name, leaf in direct.items()}, back + own


def lagrangian(
    problem: Problem, free: dict, fixed: dict, value: Value, data: Data, weights: Array
) -> Lagrangian:
    """With the multipliers at theta = free | fixed."""
    if value is None:
        return Lagrangian(problem, weights, None)
    _, _, back = _pull_terms(problem, free, fixed, value, data, weights)
    by = _multipliers(problem, free | fixed, value, data.covariates, back)
    return Lagrangian(problem, weights, by)


def value_moves(
    problem: Problem,
    directions: dict,
    theta: Theta,
    value: Array,
    covariates: Covariates,
    free: tuple[str, ...],
) -> Float[Array, "p C *H Z n c"]:
    """How the value moves along each of p directions.

    It is differentiated in all leaves that are `free`, whichever the directions move: so that a
    fit compiles this once.
    """
    names = free if set(directions) <= set(free) else tuple(directions)
    own = {name: theta[name] for name in names if name in problem.model.parameters()}
    rest = {name: leaf for name, leaf in theta.items() if name not in own}
    by_entry = _unit_moves(problem, own, rest, value, covariates)
    count = len(next(iter(directions.values())))
    still = {name: np.zeros((count, *np.shape(leaf))) for name, leaf in own.items()}
    along = still | {name: move for name, move in directions.items() if name in own}
    rows = [np.reshape(along[name], (count, -1)) for name in sorted(own)]
    return jnp.tensordot(np.concatenate([*rows, np.zeros((count, 0))], axis=1), by_entry, 1)


@eqx.filter_jit
def _unit_moves(problem, own, rest, value, covariates):  # type: ignore[no-untyped-def]
    """One direction for each entry: one program, whatever directions are asked for later."""
    flat, unflatten = jax.flatten_util.ravel_pytree(own)
    parts = []
    for k in range(0, flat.size, _TOGETHER):
        directions = jax.vmap(unflatten)(jnp.eye(flat.size)[k : k + _TOGETHER])
        parts.append(problem.value_moves(own | rest, directions, value, covariates))
    return jnp.concatenate(parts) if parts else jnp.zeros((0, *value.shape))


def push(
    problem: Problem,
    directions: dict,
    theta: Theta,
    value: Value,
    data: Data,
    free: tuple[str, ...],
    parts: Callable[[Terms], Array] = Terms.by_part,
) -> tuple[Terms, Float[Array, "N *T 2 p"]]:
    """The terms at theta, and the derivative of their parts (by agent or row) along directions."""
    moves = None
    if value is not None:
        moves = value_moves(problem, directions, theta, value, data.covariates, free)
    return _push_terms(problem, directions, moves, theta, value, data, parts)


@eqx.filter_jit
def _push_terms(problem, directions, moves, theta, value, data, parts):  # type: ignore[no-untyped-def]
    def of(moved: dict, value: Value) -> Array:
        return parts(problem.terms({**theta, **moved}, value, data))

    def along(direction: dict, move: Value) -> Array:
        here = {name: theta[name] for name in direction}
        return jax.jvp(of, (here, value), (direction, move))[1]

    derivatives = jax.vmap(along)(directions, moves)
    return problem.terms(theta, value, data), jnp.moveaxis(derivatives, 0, -1)
