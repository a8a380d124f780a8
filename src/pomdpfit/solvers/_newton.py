"""Newton's method on V = T V, with linear steps in the form that the successor graph allows."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator, Transfer
from pomdpfit._schemes import AbstractScheme
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
from pomdpfit.solvers._nested import coarse_correction, coarser, evaluated
from pomdpfit.solvers._ordered import reset_columns, sweep, with_resets
from pomdpfit.solvers._plan import Plan
from pomdpfit.solvers._relative_value_iteration import extrapolated
from pomdpfit.solvers._staying import staying

_PATIENCE = 30  # steps without a smaller residual, after which value iteration takes over
_LEAVE = 1e-2  # of an error, by a sweep: the next step makes it good
_LEAVE_LITTLE = 1e-3  # after a coarse grid, where two steps are to do
_LEAVE_SLOPES = 1e-4  # where slopes are kept: what is left at one z may grow on the way to the next
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

    coarse_first  with an order, on a CPU: correct the start on a coarse grid of beliefs first
                  (`_nested`), after which two steps will mostly do. It takes a second longer to
                  compile: likelihoods, whose solves are a small part of a fit, do without
    """

    tolerance: float = 1e-10
    max_steps: int = 100_000
    coarse_first: bool = True

    def run(self, operator: BellmanOperator, start: Array, plan: Plan) -> SolverState:
        """Some eight ordered steps from a cold start at a discount of 0.9999, four from a warm.

        As a part of larger programs, and for many operators side by side: without a coarse grid.
        """
        if plan.order is None:
            return self._without_order(operator, start, plan)
        step: Step = lambda transfer, gap, effort: ordered_step(transfer, plan, gap, effort)
        return _steps(operator, start, step, self.tolerance, self.max_steps)

    def rounds(self, plan: Plan) -> tuple[Round, ...]:
        """Steps after a coarse grid; without an order, after value iteration if need be."""
        if plan.order is not None:
            return (lambda operator, start, _: self._from_coarse(operator, start, plan),)
        limits = self.tolerance, self.max_steps
        sweeps: Round = lambda operator, start, _: first_sweeps(operator, start, *limits)
        return sweeps, self._go_on

    def _from_coarse(self, operator: BellmanOperator, start: Array, plan: Plan) -> SolverState:
        coarse = coarser(operator.scheme) if self.coarse_first else None
        if coarse is None or jax.default_backend() != "cpu":
            return self.run(operator, start, plan)
        step: Step = lambda transfer, gap, effort: ordered_step(
            transfer, plan, gap, effort, _LEAVE_LITTLE
        )
        return _nested_steps(operator, start, coarse, step, self.tolerance, self.max_steps)

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


def ordered_step(
    transfer: Transfer, plan: Plan, gap: Field, effort: Count, leave: float = _LEAVE
) -> Field:
    """The same of a gap without its middle, up to what the passes of the sweep leave."""
    columns = reset_columns(transfer)
    right = jnp.concatenate([gap[..., None], columns], axis=-1)
    stays = staying(transfer, plan, leave if transfer.turn is None else _LEAVE_SLOPES)
    swept = sweep(transfer, plan, right, stays.longer(effort))
    return with_resets(transfer, swept[..., :1], swept[..., 1:])[..., 0]


class _Progress(NamedTuple):
    """How the residual has fared, and what has been made of it."""

    steps: Array
    least: Array  # residual so far, and for how many steps it has not been beaten
    idle: Array
    effort: Array  # of sweeps; zero once their steps are not used any more


def _beginning(made: Count) -> _Progress:
    zero = jnp.asarray(0)
    return _Progress(jnp.asarray(made), jnp.asarray(jnp.inf), zero, zero + 1)


def _stepped(
    coefficients: Field, image: Field, transfer: Transfer, step: Step, progress: _Progress
) -> tuple[Field, _Progress]:
    """V after one step, or after one of value iteration where steps lead nowhere."""
    gap = image - coefficients
    residual = size(gap)
    steps, least, idle, effort = progress
    idle = jnp.where((residual < least) & (idle <= _PATIENCE), 0, idle + 1)
    doubled = jnp.where((idle > 0) & (idle % _DOUBT == 0), 2, 1) * effort
    effort = jnp.where(idle <= _PATIENCE, doubled, 0)
    change = newton_step(transfer, step, gap, effort)
    plain = extrapolated(coefficients, image, transfer.discount)
    good = (idle <= _PATIENCE) & jnp.isfinite(size(change))
    new = jnp.where(good, coefficients + change, plain)
    return new, _Progress(steps + 1, jnp.minimum(residual, least), idle, effort)


class _State(NamedTuple):
    coefficients: Array
    image: Array
    share: Array
    turn: Array | None
    progress: _Progress


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

    def at(coefficients: Array, progress: _Progress) -> _State:
        image, transfer = operator.with_derivative(coefficients)
        return _State(coefficients, image, transfer.share, transfer.turn, progress)

    def body(state: _State) -> _State:
        coefficients, image, share, turn, progress = state
        transfer = Transfer(operator.stencil, share, turn, operator.primitives.discount)
        return at(*_stepped(coefficients, image, transfer, step, progress))

    def proceed(state: _State) -> Array:
        steps = state.progress.steps
        return unsolved(state.coefficients, state.image, steps, tolerance, max_steps)

    end = jax.lax.while_loop(proceed, body, at(start, _beginning(made)))
    return SolverState(end.coefficients, size(end.image - end.coefficients), end.progress.steps)


class _Nested(NamedTuple):
    coefficients: Array
    residual: Array
    corrected: Array  # whether the coarse grid has been asked
    done: Array
    progress: _Progress


def _nested_steps(
    operator: BellmanOperator,
    start: Array,
    coarse: AbstractScheme,
    step: Step,
    tolerance: float,
    max_steps: int,
) -> SolverState:
    """The same after a correction on a coarse grid, in a loop of which each turn begins with T.

    So T is compiled once. Not to be run for many operators side by side: they would all take every
    branch, at every turn.
    """
    once: Callable = lambda transfer, gap: newton_step(transfer, step, gap, 1)

    def body(state: _Nested) -> _Nested:
        coefficients, _, corrected, _, progress = state
        image, transfer = evaluated(operator, coefficients)
        gap = image - coefficients
        done = ~unsolved(coefficients, image, progress.steps, tolerance, max_steps)
        stay = lambda: (coefficients, progress)
        correct = lambda: (
            coefficients + coarse_correction(operator, coefficients, gap, coarse, once),
            progress,
        )
        go_on = lambda: _stepped(coefficients, image, transfer, step, progress)
        which = jnp.where(done, 0, jnp.where(corrected, 2, 1))
        new, progress = jax.lax.switch(which, [stay, correct, go_on])
        return _Nested(new, size(gap), corrected | True, done, progress)

    no = jnp.asarray(False)
    first = _Nested(start, jnp.asarray(jnp.inf), no, no, _beginning(0))
    end = jax.lax.while_loop(lambda state: ~state.done, body, first)
    return SolverState(end.coefficients, end.residual, end.progress.steps)
