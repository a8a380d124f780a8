"""The log-likelihood as one pure JAX function of theta: solve, score and derivative in one program.

`pf.Likelihood` solves the model outside of what JAX sees, from where it was solved last. Samplers
compile the density they walk on, so here all of it is inside: the value v = T(theta, v) by the same
solver, the terms, and the gradient by multipliers,

    dl = partial l + lambda' partial T,    lambda = (I - T')^-T dl/dv.

The iteration itself is not differentiated.
"""

import weakref
from collections.abc import Callable

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator
from pomdpfit._errors import EstimationError
from pomdpfit._evaluate import Likelihood
from pomdpfit._fixed_point import cold_start, continuation_values
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._problem import Problem, by_context
from pomdpfit._score_panel import pull_score
from pomdpfit._sound import sound
from pomdpfit._stage import Data
from pomdpfit._types import Array, Float, Theta
from pomdpfit.solvers import AbstractSolver
from pomdpfit.solvers._base import enough, size

# A likelihood's program is compiled once, whoever asks for it, and goes when the likelihood goes.
_PROGRAMS: weakref.WeakKeyDictionary[Likelihood, Callable[[dict, Data], Array]] = (
    weakref.WeakKeyDictionary()
)


@in_float64
def log_density(likelihood: Likelihood) -> Callable[[Theta], Float[Array, ""]]:
    """theta -> log l(theta): to be compiled, differentiated once (in reverse mode) and sampled.

    theta holds the free leaves; others have the values of the likelihood's space. The density is
    minus infinity, with gradient zero, where theta is no model, where the Bellman equation was not
    solved to the tolerance, and where the panel is impossible.
    """
    density, own = density_of_data(likelihood), data_of(likelihood)
    return lambda theta: density(theta, own)


def data_of(likelihood: Likelihood) -> Data:
    """The panel as the density reads it.

    Which matrix moves each row's belief is for the program to find: it may depend on theta.
    """
    return likelihood._data._replace(moves=None)


def density_of_data(likelihood: Likelihood) -> Callable[[Theta, Data], Float[Array, ""]]:
    """(theta, data) -> log l: one program for all panels of one shape."""
    _refuse(likelihood)
    if likelihood not in _PROGRAMS:
        _PROGRAMS[likelihood] = _differentiable(
            likelihood._problem, likelihood._solver, likelihood.space
        )
    density, free = _PROGRAMS[likelihood], likelihood.space.free_leaves

    def of(theta: Theta, data: Data) -> Float[Array, ""]:
        missing = [name for name in free if name not in theta]
        if missing:
            raise EstimationError(f"theta lacks the parameter {missing[0]!r}.")
        return density({name: jnp.asarray(theta[name], dtype=float) for name in free}, data)

    return of


def _refuse(likelihood: Likelihood) -> None:
    if not isinstance(likelihood, Likelihood):
        raise EstimationError(
            "a posterior needs a model with hidden states, as pf.Likelihood(model, panel, "
            f"prior=...) has it, not {type(likelihood).__name__}."
        )
    if likelihood.prior.by_agent:
        raise EstimationError(
            "with pf.AgentPriors each agent's x0 is set to what suits its data best at every "
            "theta: a profile, which is no likelihood to put a posterior on. Use pf.KnownPrior, "
            "pf.CommonPrior or pf.StationaryPrior."
        )


def _differentiable(
    problem: Problem, solver: AbstractSolver, space: ParameterSpace
) -> Callable[[dict, Data], Array]:
    """log l, with its derivative in the first argument."""
    # Samplers evaluate densities here and there outside of their programs. Compiled by itself, and
    # with its slope wanted or not, all of these share one program.
    with_slope = jax.jit(_with_slope(problem, solver, space))

    @jax.custom_vjp
    def density(free: dict, data: Data) -> Array:
        return with_slope(free, data)[0]

    def back(slope: dict, by: Array) -> tuple[dict, None]:
        return jax.tree.map(lambda leaf: by * leaf, slope), None

    density.defvjp(with_slope, back)
    return density


def _with_slope(
    problem: Problem, solver: AbstractSolver, space: ParameterSpace
) -> Callable[[dict, Data], tuple[Array, dict]]:
    example = space.example()
    fixed = {name: leaf for name, leaf in example.items() if name not in space.free_leaves}

    def of(free: dict, data: Data) -> tuple[Array, dict]:
        ground = problem.ground(free | fixed, data, with_choices=True)
        value = by_context(_solved(problem, solver), ground.operators)
        weights = jnp.ones((data.panel.z.shape[0], 2))
        terms, back = pull_score(problem.stage(ground, value, data), data, weights)
        to_value = problem.pull_value(ground, value, data, back)
        by = problem.multipliers(ground, value, to_value)
        slope = problem.pull(free, fixed, value, data, back, by)
        total = terms.observation.sum() + terms.choice.sum()
        # Without a slope (its linear system was not solved, say) there is nothing to walk on.
        fine = jnp.isfinite(total)
        for leaf in jax.tree.leaves(slope):
            fine = fine & jnp.all(jnp.isfinite(leaf))
        return (
            jnp.where(fine, total, -jnp.inf),
            jax.tree.map(lambda leaf: jnp.where(fine, leaf, 0.0), slope),
        )

    return of


def _solved(
    problem: Problem, solver: AbstractSolver
) -> Callable[[BellmanOperator], Float[Array, "*H Z n c"]]:
    """The value of a context; NaN where it is not to be had, at which all loops end at once."""

    def of(operator: BellmanOperator) -> Array:
        fine = sound(operator.primitives)
        if operator.primitives.horizon is not None:
            return jnp.where(fine, continuation_values(operator), jnp.nan)
        start = jnp.where(fine, cold_start(operator.primitives, problem.grid), jnp.nan)
        state = solver.run(operator, start, problem.plan)
        fine = fine & enough(state.residual, size(state.coefficients), solver.tolerance)
        return jnp.where(fine, state.coefficients, jnp.nan)

    return of
