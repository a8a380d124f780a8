"""Value iteration for as long as it promises to be done soon.

Where a process forgets quickly a dozen sweeps solve it, and whatever prepares a better step costs
more. The rate at which residuals fall tells, from the second sweep on.
"""

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator
from pomdpfit._types import Array
from pomdpfit.solvers._base import SolverState, enough, middle, size
from pomdpfit.solvers._relative_value_iteration import lifted

_TRIAL = 2  # sweeps before the rate is believed
_SOON = 30  # further sweeps: what Krylov's method costs at least, its preparation included


def first_sweeps(
    operator: BellmanOperator, start: Array, tolerance: float, max_steps: int
) -> SolverState:
    """Solved, or left for Newton's method to go on from."""
    beta = operator.primitives.discount

    def at(coefficients: Array, steps: Array, before: Array) -> tuple:
        image = operator(coefficients)
        gap = image - coefficients  # read once for both
        return coefficients, image, size(gap), middle(gap), before, steps

    def proceed(state: tuple) -> Array:
        coefficients, _, residual, _, before, steps = state
        fall = jnp.log(residual / before)
        soon = (fall < 0) & (jnp.log(tolerance / residual) >= _SOON * fall)
        done = enough(residual, size(coefficients), tolerance) | ~jnp.isfinite(residual)
        return ~done & (steps < max_steps) & ((steps < _TRIAL) | soon)

    def body(state: tuple) -> tuple:
        _, image, residual, g, _, steps = state
        return at(lifted(image, g, beta), steps + 1, residual)

    first = at(start, jnp.asarray(0), jnp.asarray(jnp.inf))
    coefficients, _, residual, _, _, steps = jax.lax.while_loop(proceed, body, first)
    return SolverState(coefficients, residual, steps)
