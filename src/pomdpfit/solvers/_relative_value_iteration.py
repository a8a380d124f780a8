"""Relative value iteration: the plain reference."""

from collections.abc import Callable

from pomdpfit._bellman import BellmanOperator
from pomdpfit._types import Array, Float
from pomdpfit.solvers._base import AbstractSolver, SolverState, iterate, middle, raised
from pomdpfit.solvers._plan import Plan


def extrapolated(
    coefficients: Float[Array, "Z n c"], image: Float[Array, "Z n c"], beta: Float[Array, ""]
) -> Float[Array, "Z n c"]:
    """T V + g beta / (1 - beta): MacQueen's step from V and T V."""
    return lifted(image, middle(image - coefficients), beta)


def lifted(
    image: Float[Array, "Z n c"], g: Float[Array, ""], beta: Float[Array, ""]
) -> Float[Array, "Z n c"]:
    """The same where g, the middle of T V - V, is known."""
    return raised(image, beta / (1.0 - beta) * g)


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

        step: Callable = lambda coefficients, image: extrapolated(coefficients, image, beta)
        return iterate(step, operator, start, self.tolerance, self.max_steps)
