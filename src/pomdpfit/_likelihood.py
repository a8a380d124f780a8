"""The log-likelihood: an observation and a choice term for each agent and period; sums come last.

log l = sum_i sum_t log sigma(z_{t+1}, z_t, x_t, a_t) + log pi(a_t | z_t, x_t)

The paper adds sum_i log x0_i. A belief is a distribution, not the probability of anything in the
data (s0 is not seen), so that term has no place in a likelihood and is left out; it does not
depend on theta when x0 is known.

Solving for the value and scoring the panel are compiled apart: what belongs to the model is
compiled once for all panels. Here the value is given. Their derivatives are joined by the chain
rule, with the value's coefficients v in the middle:
d log l = (partial in theta) + (partial in v) dv/dtheta.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._belief import run_filter
from pomdpfit._fixed_point import attached_value
from pomdpfit._model import Model
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._policy import action_values
from pomdpfit._priors import AbstractPrior
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float, Theta
from pomdpfit.solvers import Plan


class Terms(NamedTuple):
    """What the likelihood is made of."""

    observation: Float[Array, "N T"]
    choice: Float[Array, "N T"]
    belief: Float[Array, "N T S"]

    def by_agent(self) -> Float[Array, "N"]:
        """Each agent's log-likelihood."""
        return self.observation.sum(axis=1) + self.choice.sum(axis=1)


class Problem(eqx.Module):
    """Everything that stays the same while theta moves, apart from the data."""

    model: Model
    prior: AbstractPrior = eqx.field(static=True)
    grid: AbstractScheme = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)

    def value(self, theta: Theta, solved: Float[Array, "*H Z n c"]) -> Float[Array, "*H Z n c"]:
        """The value that has been solved for, as a differentiable function of theta."""
        return attached_value(self.model.primitives(theta), solved, self.grid, self.plan)

    def terms(
        self,
        theta: Theta,
        value: Float[Array, "*H Z n c"],
        panel: PanelArrays,
        prior_data: Float[Array, "#N S"],
    ) -> Terms:
        """All terms at theta, given the value there; differentiable in both."""
        primitives = self.model.primitives(theta)
        filtered = run_filter(primitives.kernel, panel, self.prior.beliefs(theta, prior_data))
        observation = jnp.where(panel.score_observation, filtered.log_sigma, 0.0)
        # The first impossible transition is reported even where it is not scored.
        broken = panel.continues & panel.informs & jnp.isneginf(filtered.log_sigma)
        observation = jnp.where(broken, -jnp.inf, observation)
        epoch = None
        if primitives.horizon is not None:
            epoch = jnp.minimum(panel.epoch, primitives.horizon - 1)
        values = action_values(primitives, self.grid, value)
        log_choice = values.log_choice(panel.z, filtered.belief, epoch)
        chosen = jnp.take_along_axis(log_choice, panel.a[..., None], axis=-1)[..., 0]
        choice = jnp.where(panel.score_choice, chosen, 0.0)
        return Terms(observation, choice, filtered.belief)


@eqx.filter_jit
def evaluate(
    problem: Problem, theta: Theta, value: Array, panel: PanelArrays, prior_data: Array
) -> Terms:
    """The terms at theta."""
    return problem.terms(theta, value, panel, prior_data)


def gradient(
    problem: Problem, free: dict, fixed: dict, value: Array, panel: PanelArrays, prior_data: Array
) -> tuple[Terms, dict]:
    """The terms at theta = free | fixed, and the gradient of their sum in `free`."""
    terms, direct, pull = _pull_terms(problem, free, fixed, value, panel, prior_data)
    through_value = _pull_value(problem, free, fixed, value, pull)
    return terms, jax.tree.map(jnp.add, direct, through_value)


@eqx.filter_jit
def _pull_terms(problem, free, fixed, value, panel, prior_data):  # type: ignore[no-untyped-def]
    def total(free: dict, value: Array) -> tuple[Array, Terms]:
        terms = problem.terms(free | fixed, value, panel, prior_data)
        return terms.by_agent().sum(), terms

    (direct, pull), terms = jax.grad(total, argnums=(0, 1), has_aux=True)(free, value)
    return terms, direct, pull


@eqx.filter_jit
def _pull_value(problem, free, fixed, value, pull):  # type: ignore[no-untyped-def]
    _, pullback = jax.vjp(lambda free: problem.value(free | fixed, value), free)
    return pullback(pull)[0]


def scores(
    problem: Problem,
    directions: dict,
    theta: Theta,
    value: Array,
    panel: PanelArrays,
    prior_data: Array,
) -> tuple[Terms, Float[Array, "N p"]]:
    """The terms at theta, and each agent's derivative along each direction."""
    moves = _push_value(problem, directions, theta, value)
    return _push_terms(problem, directions, moves, theta, value, panel, prior_data)


@eqx.filter_jit
def _push_value(problem, directions, theta, value):  # type: ignore[no-untyped-def]
    def along(direction: dict) -> Array:
        return jax.jvp(lambda th: problem.value(th, value), (theta,), (direction,))[1]

    return jax.vmap(along)(directions)


@eqx.filter_jit
def _push_terms(problem, directions, moves, theta, value, panel, prior_data):  # type: ignore[no-untyped-def]
    def terms(theta: dict, value: Array) -> Terms:
        return problem.terms(theta, value, panel, prior_data)

    def along(direction: dict, move: Array) -> Array:
        pushed = jax.jvp(lambda t, v: terms(t, v).by_agent(), (theta, value), (direction, move))
        return pushed[1]

    return terms(theta, value), jax.vmap(along)(directions, moves).T
