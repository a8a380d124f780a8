"""Newton's method on V = T V, with linear steps in the form that the successor graph allows."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator, Transfer
from pomdpfit._types import Array, Float
from pomdpfit.solvers._base import (
    AbstractSolver,
    Count,
    Round,
    SolverState,
    enough,
    middle,
    size,
    unsolved,
)
from pomdpfit.solvers._coarse import coarse_improvement
from pomdpfit.solvers._first_sweeps import first_sweeps
from pomdpfit.solvers._krylov import krylov_step
from pomdpfit.solvers._ordered import reset_columns, sweep, with_resets
from pomdpfit.solvers._plan import Plan
from pomdpfit.solvers._relative_value_iteration import extrapolated
from pomdpfit.solvers._staying import staying

_PATIENCE = 30  # steps without a smaller residual, after which value iteration takes over
_LEAVE = 1e-2  # of an error, by a sweep: the next step makes it good
_DOUBT = 4  # such steps, after which sweeps make twice the passes

Field = Float[Array, "Z n c"]
Step = Callable[[Transfer, Field, Count], Field]


class Newton(AbstractSolver):
    """V <- V + (I - T'(V))^-1 (T V - V): policy iteration, for soft policies.

    Linear steps are solved by a sweep in the order of the observations (`_ordered`), or where there
    is none by Krylov's method (`_krylov`), to a relative 1e-4 or so, which the next step makes
    good. Without an order value iteration is tried first, and may be all (`_first_sweeps`). With
    linear interpolation T is convex and monotone, and exact steps climb to the fixed point from
    wherever they start. Should steps lead nowhere, value iteration with MacQueen's extrapolation
    goes on.
    """

    tolerance: float = 1e-10
    max_steps: int = 100_000

    def run(self, operator: BellmanOperator, start: Array, plan: Plan) -> SolverState:
        """Some eight ordered steps from a cold start at a discount of 0.9999, four from a warm."""
        if plan.order is None:
            return self._without_order(operator, start, plan)
        step: Step = lambda transfer, gap, effort: ordered_step(transfer, plan, gap, effort)
        return _steps(operator, start, step, self.tolerance, self.max_steps)

    def rounds(self, plan: Plan) -> tuple[Round, ...]:
        """Without an order, value iteration for as long as it does; then Newton's steps."""
        if plan.order is not None:
            return super().rounds(plan)
        limits = self.tolerance, self.max_steps
        sweeps: Round = lambda operator, start, _: first_sweeps(operator, start, *limits)
        return sweeps, self._go_on

    def _without_order(self, operator: BellmanOperator, start: Array, plan: Plan) -> SolverState:
        sweeps, steps = self.rounds(plan)
        swept = sweeps(operator, start, 0)
        solved = enough(swept.residual, size(swept.coefficients), self.tolerance)
        go_on = lambda swept: steps(operator, swept.coefficients, swept.steps)
        return jax.lax.cond(solved, lambda swept: swept, go_on, swept)

    def _go_on(self, operator: BellmanOperator, start: Array, steps: Count) -> SolverState:
        # Once, for the policy at the start: it only guides, and its LU costs many sweeps.
        kernel, scheme = operator.primitives.kernel, operator.scheme
        improve = coarse_improvement(operator.derivative(start), kernel, scheme)
        step: Step = lambda transfer, gap, _: krylov_step(transfer, improve, gap)
        return _steps(operator, start, step, self.tolerance, self.max_steps, steps)


def newton_step(transfer: Transfer, step: Step, gap: Field, effort: Count) -> Field:
    """(I - T'(V))^-1 gap, nearly.

    The middle of the gap is taken out first: (I - T') 1 = (1 - beta) 1 holds exactly.
    """
    level = middle(gap)
    change = step(transfer, gap.at[..., 0].add(-level), effort)
    return change.at[..., 0].add(level / (1.0 - transfer.discount))


def ordered_step(transfer: Transfer, plan: Plan, gap: Field, effort: Count) -> Field:
    """The same of a gap without its middle, up to what the passes of the sweep leave.

    Where slopes are kept, what is left at one observation may grow on the way to the next.
    """
    columns = reset_columns(transfer)
    right = jnp.concatenate([gap[..., None], columns], axis=-1)
    stays = staying(transfer, plan, _LEAVE if transfer.turn is None else _LEAVE**2)
    swept = sweep(transfer, plan, right, stays.longer(effort))
    return with_resets(transfer, swept[..., :1], swept[..., 1:])[..., 0]


class _State(NamedTuple):
    coefficients: Array
    image: Array
    share: Array
    turn: Array | None
    steps: Array
    least: Array  # residual so far, and for how many steps it has not been beaten
    idle: Array
    effort: Array  # of sweeps; zero once their steps are not used any more


def _steps(
    operator: BellmanOperator,
    start: Array,
    step: Step,
    tolerance: float,
    max_steps: int,
    made: Count = 0,
) -> SolverState:
    """One evaluation of T with its derivative, and one linear step, each time.

    made  steps that have led to the start
    """
    beta = operator.primitives.discount

    def at(coefficients: Array, *progress: Array) -> _State:
        image, transfer = operator.with_derivative(coefficients)
        return _State(coefficients, image, transfer.share, transfer.turn, *progress)

    def body(state: _State) -> _State:
        gap = state.image - state.coefficients
        residual = size(gap)
        idle = jnp.where((residual < state.least) & (state.idle <= _PATIENCE), 0, state.idle + 1)
        doubled = jnp.where((idle > 0) & (idle % _DOUBT == 0), 2, 1) * state.effort
        effort = jnp.where(idle <= _PATIENCE, doubled, 0)
        transfer = Transfer(operator.stencil, state.share, state.turn, beta)
        change = newton_step(transfer, step, gap, effort)
        plain = extrapolated(state.coefficients, state.image, beta)
        good = (idle <= _PATIENCE) & jnp.isfinite(size(change))
        new = jnp.where(good, state.coefficients + change, plain)
        return at(new, state.steps + 1, jnp.minimum(residual, state.least), idle, effort)

    def proceed(state: _State) -> Array:
        return unsolved(state.coefficients, state.image, state.steps, tolerance, max_steps)

    zero, big = jnp.asarray(0), jnp.asarray(jnp.inf)
    first = at(start, jnp.asarray(made), big, zero, zero + 1)
    end = jax.lax.while_loop(proceed, body, first)
    return SolverState(end.coefficients, size(end.image - end.coefficients), end.steps)
