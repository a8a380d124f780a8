"""Newton's method on V = T V, with linear steps in the form that the successor graph allows."""

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
    size,
)
from pomdpfit.solvers._coarse import coarse_improvement
from pomdpfit.solvers._first_sweeps import first_sweeps
from pomdpfit.solvers._krylov import krylov_step
from pomdpfit.solvers._nested import coarser
from pomdpfit.solvers._newton_loops import Step, steps, steps_alone
from pomdpfit.solvers._ordered import beside, reset_columns, sweep, with_resets
from pomdpfit.solvers._plan import Plan
from pomdpfit.solvers._staying import staying

_LEAVE = 1e-2  # of an error, by a sweep: the next step makes it good
_LEAVE_LITTLE = 1e-3  # after a coarse grid, where one step or two are to do
_LEAVE_SLOPES = 1e-4  # where slopes are kept: what is left at one z may grow on the way to the next

Field = Float[Array, "Z n c"]


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
        step: Step = lambda transfer, gap, effort: ordered_step(transfer, plan, gap, effort, _LEAVE)
        return steps(operator, start, step, self.tolerance, self.max_steps)

    def rounds(self, plan: Plan) -> tuple[Round, ...]:
        """Steps after a coarse grid; without an order, after value iteration if need be."""
        if plan.order is not None:
            return (lambda operator, start, _: self._alone(operator, start, plan),)
        limits = self.tolerance, self.max_steps
        sweeps: Round = lambda operator, start, _: first_sweeps(operator, start, *limits)
        return sweeps, self._go_on

    def _alone(self, operator: BellmanOperator, start: Array, plan: Plan) -> SolverState:
        worth_it = self.coarse_first and jax.default_backend() == "cpu"
        coarse = coarser(operator.scheme) if worth_it else None
        # Compiled in half the time, by likelihoods; with slopes a quarter slower.
        one_run = not self.coarse_first and operator.scheme.coefficients == 1

        def step(transfer: Transfer, gap: Field, effort: Count) -> Field:
            leave = _LEAVE if coarse is None else _may_be_left(size(gap), self.tolerance)
            return ordered_step(transfer, plan, gap, effort, leave, alone=True, one_run=one_run)

        return steps_alone(operator, start, coarse, step, self.tolerance, self.max_steps)

    def _without_order(self, operator: BellmanOperator, start: Array, plan: Plan) -> SolverState:
        sweeps, go_on = self.rounds(plan)
        swept = sweeps(operator, start, 0)
        solved = enough(swept.residual, size(swept.coefficients), self.tolerance)
        more = lambda swept: go_on(operator, swept.coefficients, swept.steps)
        return jax.lax.cond(solved, lambda swept: swept, more, swept)

    def _go_on(self, operator: BellmanOperator, start: Array, made: Count) -> SolverState:
        # Once, for the policy at the start: it only guides, and its LU costs many sweeps.
        kernel, scheme = operator.primitives.kernel, operator.scheme
        improve = coarse_improvement(operator.derivative(start), kernel, scheme)
        step: Step = lambda transfer, gap, _: krylov_step(transfer, improve, gap)
        return steps(operator, start, step, self.tolerance, self.max_steps, made)


def _may_be_left(gap: Float[Array, ""], tolerance: float) -> Float[Array, ""]:
    """Of an error by a sweep: some of what an exact step leaves of it, or of what may remain.

    An exact step about squares a gap. After a coarse grid errors are rough; of smooth ones, as
    they are without, a sweep leaves far less than it may.
    """
    return jnp.minimum(0.3 * jnp.maximum(gap, tolerance / gap), _LEAVE_LITTLE)


def ordered_step(
    transfer: Transfer,
    plan: Plan,
    gap: Field,
    effort: Count,
    leave: float | Float[Array, ""],
    *,
    alone: bool = False,
    one_run: bool = False,
) -> Field:
    """(I - T'(V))^-1 gap, of a gap without its middle, up to what the passes of the sweep leave."""
    right = beside(gap[..., None], reset_columns(transfer))
    leave = leave if transfer.turn is None else jnp.minimum(leave, _LEAVE_SLOPES)
    stays = staying(transfer, plan, leave, alone=alone)
    swept = sweep(transfer, plan, right, stays.longer(effort), one_run=one_run)
    return with_resets(transfer, swept[..., :1], swept[..., 1:])[..., 0]
