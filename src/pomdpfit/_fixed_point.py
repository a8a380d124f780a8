"""V = T V as a differentiable function of the primitives.

The iteration itself is not differentiated. By the implicit function theorem
dV = (I - T'(V))^-1 (dT)(V), a linear solve of the kind that Newton's method makes: forward for many
directions at once (`value_mover`), or transposed for one function of V, whatever the number of
parameters. There, with b = dl/dV, lambda = (I - T'(V))^-T b are the multipliers of the constraint
V = T V, and dl = lambda' (dT)(V).

A finite horizon is read in the same way: V = F(primitives), with multipliers b.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import BellmanOperator, bellman_operator
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float
from pomdpfit.solvers import (
    AbstractSolver,
    Count,
    Plan,
    SolverState,
    backward_induction,
    many_solver,
    solve_back,
)

_LINEAR_TOLERANCE = 1e-10


def solve_infinite(
    primitives: Primitives,
    scheme: AbstractScheme,
    solver: AbstractSolver,
    plan: Plan,
    start: Float[Array, "Z n c"],
) -> SolverState:
    """The fixed point from `start`, without derivatives."""
    frozen = jax.tree.map(jax.lax.stop_gradient, primitives)
    return solver.run(bellman_operator(frozen, scheme), jax.lax.stop_gradient(start), plan)


def solve_round(
    operator: BellmanOperator,
    solver: AbstractSolver,
    plan: Plan,
    number: int,
    start: Float[Array, "Z n c"],
    steps: Count,
) -> SolverState:
    """One of the solver's rounds; no derivatives are asked of it."""
    return solver.rounds(plan)[number](operator, start, steps)


def solve_finite(primitives: Primitives, scheme: AbstractScheme) -> Float[Array, "H Z n c"]:
    """The continuation values of a finite horizon."""
    return continuation_values(bellman_operator(primitives, scheme))


def continuation_values(operator: BellmanOperator) -> Float[Array, "H Z n c"]:
    """The same, of an operator that is at hand; JAX differentiates the induction as it is."""
    primitives = operator.primitives
    assert primitives.horizon is not None
    assert primitives.terminal is not None
    last = operator.scheme.linear(primitives.terminal)
    return backward_induction(operator, last, primitives.horizon)


def attached_value(
    primitives: Primitives, solved: Float[Array, "*H Z n c"], scheme: AbstractScheme, plan: Plan
) -> Float[Array, "*H Z n c"]:
    """The value that has been solved for, as a differentiable function of the primitives."""
    if primitives.horizon is None:
        return implicit_value(primitives, solved, scheme=scheme, plan=plan)
    return solve_finite(primitives, scheme)


@eqx.filter_custom_jvp
def implicit_value(
    primitives: Primitives, coefficients: Array, *, scheme: AbstractScheme, plan: Plan
) -> Array:
    """The fixed point itself, with the derivative in the primitives that the rule below gives."""
    return coefficients


@implicit_value.def_jvp
def _implicit_jvp(
    primals: tuple, tangents: tuple, *, scheme: AbstractScheme, plan: Plan
) -> tuple[Array, Array]:
    primitives, coefficients = primals
    along: Callable = lambda p: bellman_operator(p, scheme)(coefficients)
    _, change = eqx.filter_jvp(along, (primitives,), (tangents[0],))
    solve = _linear_solver(bellman_operator(primitives, scheme), coefficients, plan)
    return coefficients, solve(change[..., None])[..., 0]


def value_mover(
    operator: BellmanOperator, solved: Float[Array, "*H Z n c"], plan: Plan
) -> Callable[[Float[Array, "p *H Z n c"]], Float[Array, "p *H Z n c"]]:
    """From p changes of T V, at the value that has been solved for, to changes of V."""
    if operator.primitives.horizon is not None:
        return lambda change: change
    solve = _linear_solver(operator, solved, plan)
    return lambda change: jnp.moveaxis(solve(jnp.moveaxis(change, 0, -1)), -1, 0)


def _linear_solver(
    operator: BellmanOperator, solved: Float[Array, "Z n c"], plan: Plan
) -> Callable[[Array], Array]:
    """(I - T'(V))^-1, of many columns."""
    kernel, transfer = operator.primitives.kernel, operator.derivative(solved)
    return many_solver(transfer, kernel, operator.scheme, plan, _LINEAR_TOLERANCE)


def multipliers(
    operator: BellmanOperator,
    solved: Float[Array, "*H Z n c"],
    back: Float[Array, "*H Z n c"],
    plan: Plan,
) -> Float[Array, "*H Z n c"]:
    """lambda, for a function of the value whose derivative there is `back`."""
    if operator.primitives.horizon is not None:
        return back
    kernel, transfer = operator.primitives.kernel, operator.derivative(solved)
    return solve_back(transfer, back, kernel, operator.scheme, plan, _LINEAR_TOLERANCE)


def cold_start(primitives: Primitives, scheme: AbstractScheme) -> Float[Array, "Z n c"]:
    """Zeros."""
    return jax.device_put(np.zeros(value_shape(primitives, scheme)))  # no program


def value_shape(primitives: Primitives, scheme: AbstractScheme) -> tuple[int, int, int]:
    """Of the coefficients of V."""
    return primitives.observations, scheme.size(primitives.states), scheme.coefficients
