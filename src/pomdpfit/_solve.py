"""solve(): from theta to a policy at any observation and belief."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import BellmanOperator, bellman_operator, refuse_if_too_large
from pomdpfit._errors import ModelError, Result, SolveError
from pomdpfit._fixed_point import cold_start, continuation_values, solve_round, value_shape
from pomdpfit._model import Model, Primitives, checked_primitives
from pomdpfit._policy import ActionValues, action_values_and_gap, checked_arguments
from pomdpfit._precision import in_float64
from pomdpfit._scene import first_context
from pomdpfit._schemes import AbstractScheme, default_scheme
from pomdpfit._types import Array, ArrayLike, Belief, Float, Int, Theta
from pomdpfit.certificate import Certificate, certify_primitives
from pomdpfit.programs import program
from pomdpfit.solvers import AbstractSolver, Newton, Plan, SolverState, make_plan
from pomdpfit.solvers._base import enough
from pomdpfit.solvers._nested import coarser


class Solution(eqx.Module):
    """The soft value and policy of a model at one theta."""

    values: ActionValues
    coefficients: Float[Array, "*H Z n c"]
    residual: float = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    result: Result = eqx.field(static=True)

    @property
    def grid(self) -> AbstractScheme:
        """The interpolation scheme."""
        return self.values.scheme

    @property
    def primitives(self) -> Primitives:
        """What was solved."""
        return self.values.primitives

    @property
    def converged(self) -> bool:
        """Whether the residual is below the tolerance."""
        return self.result is Result.CONVERGED

    @functools.cached_property
    def bounds(self) -> Certificate:
        """Proven bounds around the truth, from linear interpolation with as many nodes."""
        return certify_primitives(self.primitives, self.grid.nodes)

    def q(
        self, z: Int[ArrayLike, "*b"], x: Belief, t: Int[ArrayLike, "*b"] | None = None
    ) -> Float[Array, "*b A"]:
        """Q(z, x, a) for all a; with a finite horizon, of epoch t."""
        return _q(self.values, *checked_arguments(self.primitives, z, x, t))

    def value(
        self, z: Int[ArrayLike, "*b"], x: Belief, t: Int[ArrayLike, "*b"] | None = None
    ) -> Float[Array, "*b"]:
        """V-bar(z, x) = E max_a {Q(z, x, a) + eps_a}, for shocks with mean zero."""
        return _value(self.values, *checked_arguments(self.primitives, z, x, t))

    def policy(
        self, z: Int[ArrayLike, "*b"], x: Belief, t: Int[ArrayLike, "*b"] | None = None
    ) -> Float[Array, "*b A"]:
        """pi(a | z, x) for all a."""
        return _policy(self.values, *checked_arguments(self.primitives, z, x, t))


_q = eqx.filter_jit(lambda values, z, x, t: values.q(z, x, t))
_value = eqx.filter_jit(lambda values, z, x, t: values.value(z, x, t))
_policy = eqx.filter_jit(lambda values, z, x, t: jnp.exp(values.log_choice(z, x, t)))


@in_float64
def solve(
    model: Model,
    theta: Theta,
    *,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    start: Solution | None = None,
    throw: bool = True,
) -> Solution:
    """Solve the soft Bellman equation at theta.

    grid    pf.Smooth (default for two hidden states) or pf.Linear
    solver  pf.Newton (default) or pf.RelativeValueIteration; not used with a finite horizon
    start   an earlier Solution on the same grid, to start from
    throw   raise SolveError where the tolerance is not reached, instead of returning the result

    Differentiable code starts one level below, at `Likelihood`.
    """
    return solve_primitives(checked_primitives(model, theta), grid, solver, start, throw=throw)


def solve_primitives(
    primitives: Primitives,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    start: Solution | None = None,
    *,
    throw: bool = True,
) -> Solution:
    """`solve` for primitives that have been checked."""
    grid = checked_grid(primitives, grid)
    solver = Newton(coarse_first=coarser(grid) is not None) if solver is None else solver
    first = None if start is None else start.coefficients
    operator = make_operator(primitives, grid)
    state = solved_state(operator, solver, make_plan(primitives.kernel), first)
    result = outcome(state, solver, throw=throw)
    values = _action_values(operator, state.coefficients)
    return Solution(values, state.coefficients, float(state.residual), int(state.steps), result)


def solve_contexts(
    operators: BellmanOperator,
    solver: AbstractSolver,
    plan: Plan,
    start: Float[Array, "C Z n c"] | None,
) -> tuple[Float[Array, "C *H Z n c"], SolverState]:
    """The values that belong to operators stacked by context, and the worst way one was solved."""
    states = []
    for k in range(len(operators.reward)):
        context = np.asarray(k)
        warm = None if start is None else _value_in(start, context)
        states.append(solved_state(_operator_in(operators, context), solver, plan, warm))
        outcome(states[-1], solver, throw=True)
    worst = max(states, key=lambda state: float(state.residual))
    return _side_by_side([state.coefficients for state in states]), worst


def solved_state(
    operator: BellmanOperator,
    solver: AbstractSolver,
    plan: Plan,
    start: Float[Array, "Z n c"] | None,
) -> SolverState:
    """The value that belongs to an operator, from `start` or from nothing.

    Round by round: the later ones are compiled and run only where they are needed.
    """
    primitives = operator.primitives
    if primitives.horizon is not None:
        following = _finite(operator)
        return SolverState(following, jnp.zeros(()), jnp.asarray(primitives.horizon))
    if start is None:
        start = cold_start(primitives, operator.scheme)
    elif start.shape != (shape := value_shape(primitives, operator.scheme)):
        raise ModelError(
            f"start was solved on another grid: it has shape {start.shape}, not {shape}."
        )
    state = _round(operator, solver, plan, 0, start, 0)
    number = 1
    while _how_solved(state, solver) is Result.MAX_STEPS and number < len(solver.rounds(plan)):
        state = _round(operator, solver, plan, number, state.coefficients, state.steps)
        number += 1
    return state


def prepare_solve(
    operators: BellmanOperator, solver: AbstractSolver, plan: Plan
) -> jax.ShapeDtypeStruct:
    """Have the first round compiled ahead; what is returned stands for the values."""
    context = np.asarray(0)
    operator = _operator_in.prepare(operators, context)
    primitives = operator.primitives
    if primitives.horizon is not None:
        one = _finite.prepare(operator)
    else:
        start = cold_start(primitives, operator.scheme)
        one = _round.prepare(operator, solver, plan, 0, start, 0).coefficients
    values = _side_by_side.prepare([one] * len(operators.reward))
    _value_in.prepare(values, context)
    return values


def _how_solved(state: SolverState, solver: AbstractSolver) -> Result:
    residual = np.asarray(state.residual)
    if not np.isfinite(residual):
        return Result.NOT_FINITE
    if residual <= solver.tolerance:  # nearly always: without a look at all of V
        return Result.CONVERGED
    largest = np.abs(np.asarray(state.coefficients)).max()
    return Result.CONVERGED if enough(residual, largest, solver.tolerance) else Result.MAX_STEPS


def outcome(state: SolverState, solver: AbstractSolver, *, throw: bool) -> Result:
    """How the solver ended, as a value; or as an error with advice."""
    result = _how_solved(state, solver)
    if throw and result is not Result.CONVERGED:
        raise SolveError(
            f"the soft Bellman equation was not solved: residual {float(state.residual):.3g} after "
            f"{int(state.steps)} steps, tolerance {solver.tolerance:.3g}. {result.advice()}"
        )
    return result


def finite_derivative(derivative: Array | np.ndarray) -> np.ndarray:
    """The derivative as numbers, or an error where its linear system was not solved."""
    if not np.isfinite(derivative).all():
        raise SolveError(
            "the linear system behind a derivative was not solved to 1e-8. Use fewer belief nodes "
            "or a lower discount; with a small model the system is solved directly."
        )
    return np.asarray(derivative)


def checked_grid(primitives: Primitives, grid: AbstractScheme | None) -> AbstractScheme:
    """The grid given, or the default, after checks of kind and memory."""
    grid = default_scheme(primitives.states) if grid is None else grid
    if not isinstance(grid, AbstractScheme):
        raise ModelError(f"grid must be pf.Smooth(...) or pf.Linear(...), not {type(grid)}.")
    grid.check(primitives.states)
    refuse_if_too_large(primitives, grid)
    return grid


# Made once for all rounds, and for what is read off the value that they end with.
make_operator = program(bellman_operator)
_round = program(solve_round, light=lambda operator, *_: operator.scheme.coefficients == 1)
_finite = program(continuation_values)


@program(light=True)
def _operator_in(operators: BellmanOperator, context: Int[ArrayLike, ""]) -> BellmanOperator:
    if len(operators.reward) == 1:
        return first_context(operators)
    return jax.tree.map(lambda leaf: leaf[context], operators)


@program(light=True)
def _value_in(
    values: Float[Array, "C Z n c"], context: Int[ArrayLike, ""]
) -> Float[Array, "Z n c"]:
    return values[0] if len(values) == 1 else values[context]


@program(light=True)
def _side_by_side(values: list[Float[Array, "*H Z n c"]]) -> Float[Array, "C *H Z n c"]:
    return jnp.stack(values)


@program
def _action_values(operator: BellmanOperator, following: Float[Array, "*H Z n c"]) -> ActionValues:
    return action_values_and_gap(operator, following)[0]


@in_float64
def certify(model: Model, theta: Theta, *, nodes: int | None = None) -> Certificate:
    """Proven bounds on value, choice probabilities and log-likelihood at theta.

    `nodes` on each edge of the belief simplex; as many as the default grid has if not given.
    """
    primitives = checked_primitives(model, theta)
    nodes = default_scheme(primitives.states).nodes if nodes is None else nodes
    return certify_primitives(primitives, nodes)
