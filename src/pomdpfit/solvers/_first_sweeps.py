"""Value iteration for as long as it promises to be done soon.

Where a process forgets quickly a dozen sweeps solve it, and whatever prepares a better step costs
more. The rate at which residuals fall tells, from the second sweep on.
"""

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator
from pomdpfit._types import Array
from pomdpfit.solvers._base import SolverState, enough, size
from pomdpfit.solvers._relative_value_iteration import extrapolated

_TRIAL = 2  # sweeps before the rate is believed
_SOON = 30  # further sweeps: what Krylov's method costs at least, its preparation included


def first_sweeps(
    operator: BellmanOperator, start: Array, tolerance: float, max_steps: int
) -> SolverState:
    """Solved, or left for Newton's method to go on from."""
    beta = operator.primitives.discount

    def at(coefficients: Array, steps: Array, before: Array) -> tuple:
        image = operator(coefficients)
        return coefficients, image, size(image - coefficients), before, steps

    def proceed(state: tuple) -> Array:
        coefficients, _, residual, before, steps = state
        fall = jnp.log(residual / before)
        soon = (fall < 0) & (jnp.log(tolerance / residual) >= _SOON * fall)
        done = enough(residual, size(coefficients), tolerance) | ~jnp.isfinite(residual)
        return ~done & (steps < max_steps) & ((steps < _TRIAL) | soon)

    def body(state: tuple) -> tuple:
        coefficients, image, residual, _, steps = state
        return at(extrapolated(coefficients, image, beta), steps + 1, residual)

    first = at(start, jnp.asarray(0), jnp.asarray(jnp.inf))
    coefficients, _, residual, _, steps = jax.lax.while_loop(proceed, body, first)
    return SolverState(coefficients, residual, steps)
