"""Newton's method on V = T V, in the form that the successor graph allows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator, Transfer
from pomdpfit._types import Array, Float
from pomdpfit.solvers._base import AbstractSolver, SolverState, size, unsolved
from pomdpfit.solvers._coarse import coarse_degree, make_coarse
from pomdpfit.solvers._corrected_sweeps import corrected_sweeps
from pomdpfit.solvers._ordered import reset_columns, sweep, with_resets
from pomdpfit.solvers._plan import Plan
from pomdpfit.solvers._relative_value_iteration import RelativeValueIteration


class Newton(AbstractSolver):
    """Newton steps in the order of the observations; where there is none, on coarse beliefs.

    Ordered: V <- V + (I - T'(V))^-1 (T V - V), policy iteration for soft policies. With linear
    interpolation T is convex and monotone and the steps climb to the fixed point from wherever
    they start. The step is solved to a relative 1e-4, which the next one makes good.

    Without an order: V <- T V + P (I - T'_c)^-1 R (T T V - T V), each sweep followed by a Newton
    step in polynomials of low degree (see `_coarse`).
    """

    tolerance: float = 1e-10
    max_steps: int = 100_000

    def run(self, operator: BellmanOperator, start: Array, plan: Plan) -> SolverState:
        """Some eight ordered steps from a cold start at a discount of 0.9999, three from a warm."""
        if plan.order is not None:
            return _ordered_steps(operator, start, plan, self.tolerance, self.max_steps)
        kernel, scheme = operator.primitives.kernel, operator.scheme
        degree = coarse_degree(kernel.observations, kernel.states, scheme)
        if degree == 0:
            return RelativeValueIteration(self.tolerance, self.max_steps).run(operator, start, plan)
        coarse = make_coarse(kernel, scheme, degree)
        return corrected_sweeps(operator, coarse, start, self.tolerance, self.max_steps)


def newton_step(
    transfer: Transfer, plan: Plan, gap: Float[Array, "Z n c"]
) -> Float[Array, "Z n c"]:
    """(I - T'(V))^-1 gap, up to what the passes of the sweep leave.

    The middle of the gap is taken out first: (I - T') 1 = (1 - beta) 1 holds exactly.
    """
    middle = _middle(gap)
    gap = gap.at[..., 0].add(-middle)
    columns = reset_columns(transfer)
    swept = sweep(transfer, plan, jnp.concatenate([gap[..., None], columns], axis=-1))
    step = with_resets(transfer, swept[..., :1], swept[..., 1:])[..., 0]
    return step.at[..., 0].add(middle / (1.0 - transfer.discount))


def _middle(gap: Float[Array, "Z n c"]) -> Float[Array, ""]:
    return 0.5 * (jnp.max(gap[..., 0]) + jnp.min(gap[..., 0]))


class _Ordered(NamedTuple):
    coefficients: Array
    image: Array
    share: Array
    turn: Array | None
    steps: Array


def _ordered_steps(
    operator: BellmanOperator, start: Array, plan: Plan, tolerance: float, max_steps: int
) -> SolverState:
    """One evaluation of T with its derivative, and one sweep, a step."""

    def at(coefficients: Array, steps: Array) -> _Ordered:
        image, transfer = operator.with_derivative(coefficients)
        return _Ordered(coefficients, image, transfer.share, transfer.turn, steps)

    def body(state: _Ordered) -> _Ordered:
        transfer = Transfer(operator.stencil, state.share, state.turn, operator.primitives.discount)
        new = state.coefficients + newton_step(transfer, plan, state.image - state.coefficients)
        new = jnp.where(jnp.all(jnp.isfinite(new)), new, state.image)
        return at(new, state.steps + 1)

    def proceed(state: _Ordered) -> Array:
        return unsolved(state.coefficients, state.image, state.steps, tolerance, max_steps)

    end = jax.lax.while_loop(proceed, body, at(start, jnp.asarray(0)))
    return SolverState(end.coefficients, size(end.image - end.coefficients), end.steps)
