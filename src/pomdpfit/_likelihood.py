"""The log-likelihood: an observation and a choice term for each agent and period; sums come last.

log l = sum_i sum_t log sigma(z_{t+1}, z_t, x_t, a_t) + log pi(a_t | z_t, x_t)

The paper adds sum_i log x0_i. A belief is a distribution, not the probability of anything in the
data (s0 is not seen), so that term has no place in a likelihood and is left out; it does not
depend on theta when x0 is known.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._belief import run_filter
from pomdpfit._fixed_point import solve_finite, solve_infinite
from pomdpfit._model import Model
from pomdpfit._panel import PanelArrays
from pomdpfit._policy import action_values
from pomdpfit._priors import AbstractPrior
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float, Int, Theta
from pomdpfit.solvers import AbstractSolver, Plan


class Terms(NamedTuple):
    """What the likelihood is made of, and the solution behind it."""

    observation: Float[Array, "N T"]
    choice: Float[Array, "N T"]
    belief: Float[Array, "N T S"]
    coefficients: Float[Array, "*H Z n c"]
    residual: Float[Array, ""]
    steps: Int[Array, ""]


class Problem(eqx.Module):
    """Everything that stays the same while theta moves, apart from the data."""

    model: Model
    prior: AbstractPrior = eqx.field(static=True)
    grid: AbstractScheme = eqx.field(static=True)
    solver: AbstractSolver = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)

    def terms(
        self,
        theta: Theta,
        panel: PanelArrays,
        prior_data: Float[Array, "#N S"],
        start: Float[Array, "Z n c"],
    ) -> Terms:
        """All terms at theta; differentiable in theta."""
        primitives = self.model.primitives(theta)
        x0 = self.prior.beliefs(theta, prior_data)
        filtered = run_filter(primitives.kernel, panel, x0)
        observation = jnp.where(panel.score_observation, filtered.log_sigma, 0.0)
        # The first impossible transition is reported even where it is not scored.
        broken = panel.continues & panel.informs & jnp.isneginf(filtered.log_sigma)
        observation = jnp.where(broken, -jnp.inf, observation)
        if primitives.horizon is None:
            state = solve_infinite(primitives, self.grid, self.solver, self.plan, start)
            values = action_values(primitives, self.grid, state.coefficients)
            coefficients, residual, steps, epoch = *state, None
        else:
            coefficients = solve_finite(primitives, self.grid)
            values = action_values(primitives, self.grid, coefficients)
            epoch = jnp.minimum(panel.epoch, primitives.horizon - 1)
            residual, steps = jnp.zeros(()), jnp.asarray(primitives.horizon)
        log_choice = values.log_choice(panel.z, filtered.belief, epoch)
        chosen = jnp.take_along_axis(log_choice, panel.a[..., None], axis=-1)[..., 0]
        choice = jnp.where(panel.score_choice, chosen, 0.0)
        return Terms(observation, choice, filtered.belief, coefficients, residual, steps)


@eqx.filter_jit
def evaluate(problem: Problem, theta, panel, prior_data, start) -> Terms:  # type: ignore[no-untyped-def]
    """The terms at theta."""
    return problem.terms(theta, panel, prior_data, start)


@eqx.filter_jit
def evaluate_with_gradient(problem: Problem, free, fixed, panel, prior_data, start):  # type: ignore[no-untyped-def]
    """The terms at theta = free | fixed, and the gradient of their sum in `free`."""

    def total(free: dict) -> tuple[Array, Terms]:
        terms = problem.terms(free | fixed, panel, prior_data, start)
        return terms.observation.sum() + terms.choice.sum(), terms

    gradient, terms = jax.grad(total, has_aux=True)(free)
    return terms, gradient


@eqx.filter_jit
def evaluate_with_scores(problem: Problem, directions, theta, panel, prior_data, start):  # type: ignore[no-untyped-def]
    """The terms at theta, and each agent's derivative along each direction (N, p)."""

    def by_agent(theta: dict) -> tuple[Array, Terms]:
        terms = problem.terms(theta, panel, prior_data, start)
        return terms.observation.sum(axis=1) + terms.choice.sum(axis=1), terms

    def along(direction: dict) -> Array:
        return jax.jvp(lambda th: by_agent(th)[0], (theta,), (direction,))[1]

    return by_agent(theta)[1], jax.vmap(along)(directions).T
