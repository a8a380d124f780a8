"""Relative value iteration: the plain reference."""

import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator
from pomdpfit._types import Array
from pomdpfit.solvers._base import AbstractSolver, SolverState, iterate
from pomdpfit.solvers._plan import Plan


class RelativeValueIteration(AbstractSolver):
    """V <- T V + g beta / (1 - beta), where g is the middle of T V - V at the nodes.

    A constant added to V moves T V by beta times it, so the level is solved for in every step
    (MacQueen's extrapolation) and what remains converges at the rate at which the controlled
    process forgets where it was, not at beta.
    """

    tolerance: float = 1e-10
    max_steps: int = 100_000

    def run(self, operator: BellmanOperator, start: Array, plan: Plan) -> SolverState:
        """One application of the operator a step."""
        beta = operator.primitives.discount

        def step(coefficients: Array, image: Array) -> Array:
            change = (image - coefficients)[..., 0]
            middle = 0.5 * (jnp.max(change) + jnp.min(change))
            return image.at[..., 0].add(beta / (1.0 - beta) * middle)

        return iterate(step, operator, start, self.tolerance, self.max_steps)
