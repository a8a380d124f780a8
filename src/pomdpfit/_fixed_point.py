"""V = T V as a differentiable function of the primitives.

The iteration itself is not differentiated. By the implicit function theorem
dV = (I - T'(V))^-1 (dT)(V), a linear solve of the kind that Newton's method makes. It is made
forward, for all directions at once: a sweep over many right-hand sides costs little more than one,
and much less than a transposed sweep, which would have to scatter where this one gathers.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import bellman_operator
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float
from pomdpfit.solvers import (
    AbstractSolver,
    Plan,
    SolverState,
    backward_induction,
    solve_many,
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


def solve_finite(primitives: Primitives, scheme: AbstractScheme) -> Float[Array, "H Z n c"]:
    """The continuation values of a finite horizon; JAX differentiates the induction as it is."""
    assert primitives.horizon is not None
    assert primitives.terminal is not None
    operator = bellman_operator(primitives, scheme)
    return backward_induction(operator, scheme.linear(primitives.terminal), primitives.horizon)


def attached_value(
    primitives: Primitives, solved: Float[Array, "*H Z n c"], scheme: AbstractScheme, plan: Plan
) -> Float[Array, "*H Z n c"]:
    """The value that has been solved for, as a differentiable function of the primitives."""
    if primitives.horizon is None:
        return implicit_value(primitives, solved, scheme=scheme, plan=plan)
    return solve_finite(primitives, scheme)


def attached_moves(
    primitives_at: Callable[[dict], Primitives],
    at: dict,
    directions: dict,
    solved: Float[Array, "*H Z n c"],
    scheme: AbstractScheme,
    plan: Plan,
) -> Float[Array, "p *H Z n c"]:
    """How the value that has been solved for moves along each of p directions of `at`."""
    if primitives_at(at).horizon is None:
        return implicit_moves(primitives_at, at, directions, solved, scheme, plan)
    value = lambda moved: solve_finite(primitives_at(moved), scheme)
    return jax.vmap(lambda direction: jax.jvp(value, (at,), (direction,))[1])(directions)


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
    return coefficients, _solved(primitives, coefficients, change[..., None], scheme, plan)[..., 0]


def implicit_moves(
    primitives_at: Callable[[dict], Primitives],
    at: dict,
    directions: dict,
    coefficients: Float[Array, "Z n c"],
    scheme: AbstractScheme,
    plan: Plan,
) -> Float[Array, "p Z n c"]:
    """dV along each of p directions in which `at` moves, all solved for in one go."""

    def change(direction: dict) -> Array:
        along = lambda moved: bellman_operator(primitives_at(moved), scheme)(coefficients)
        return jax.jvp(along, (at,), (direction,))[1]

    # One after the other: side by side, the compiler would read V anew for each and every one.
    right = jnp.moveaxis(jax.lax.map(change, directions), 0, -1)
    moves = _solved(primitives_at(at), coefficients, right, scheme, plan)
    return jnp.moveaxis(moves, -1, 0)


def _solved(
    primitives: Primitives,
    coefficients: Float[Array, "Z n c"],
    change: Float[Array, "Z n c q"],
    scheme: AbstractScheme,
    plan: Plan,
) -> Float[Array, "Z n c q"]:
    """(I - T'(V))^-1 change."""
    transfer = bellman_operator(primitives, scheme).derivative(coefficients)
    return solve_many(transfer, change, primitives.kernel, scheme, plan, _LINEAR_TOLERANCE)


def cold_start(primitives: Primitives, scheme: AbstractScheme) -> Float[Array, "Z n c"]:
    """Zeros."""
    shape = (primitives.observations, scheme.size(primitives.states), scheme.coefficients)
    return jax.device_put(np.zeros(shape))  # no program
