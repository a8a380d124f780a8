"""The smallest contract of a solver: an operator and a start in, coefficients and info out."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import BellmanOperator
from pomdpfit._types import Array, Float, Int
from pomdpfit.solvers._plan import Plan


class SolverState(NamedTuple):
    """Coefficients of V and how well they solve V = T V."""

    coefficients: Float[Array, "Z n c"]
    residual: Float[Array, ""]
    steps: Int[Array, ""]


Count = int | Int[Array, ""]
Round = Callable[[BellmanOperator, Float[Array, "Z n c"], Count], SolverState]  # steps so far


class AbstractSolver(eqx.Module):
    """A method for the infinite-horizon fixed point V = T V."""

    tolerance: eqx.AbstractVar[float]
    max_steps: eqx.AbstractVar[int]

    @abc.abstractmethod
    def run(
        self, operator: BellmanOperator, start: Float[Array, "Z n c"], plan: Plan
    ) -> SolverState:
        """Iterate from `start` until the residual max |T V - V| is below the tolerance."""

    def rounds(self, plan: Plan) -> tuple[Round, ...]:
        """What `run` does, as parts of which each is called for only if those before it failed.

        Whoever can look at a residual between programs runs no more of them than are needed: a
        program pays for branches that it does not take.
        """
        return (lambda operator, start, _: self.run(operator, start, plan),)


def enough(residual: Any, largest: Any, tolerance: float) -> Any:
    """Below the tolerance, or below what rounding allows where the largest value is this."""
    return (residual <= tolerance) | (residual <= 8 * np.finfo(float).eps * largest)


def size(x: Float[Array, "*b"], axis: tuple[int, ...] | None = None) -> Float[Array, "*k"]:
    """max |x|; NaN where any entry is.

    Not as max(abs(x)), for which the compiler has no vectors: it would take half the time of T.
    """
    return jnp.maximum(jnp.max(x, axis), -jnp.min(x, axis))


def raised(field: Float[Array, "Z n c *q"], by: Float[Array, "*q"]) -> Float[Array, "Z n c *q"]:
    """The same with values moved by a constant, and slopes where they were."""
    values = np.eye(1, field.shape[2]).reshape(-1, *[1] * (field.ndim - 3))
    return field + values * by


def middle(gap: Float[Array, "Z n c"]) -> Float[Array, ""]:
    """Of the values of T V - V: what the level of V owes, up to the discount."""
    return 0.5 * (jnp.max(gap[..., 0]) + jnp.min(gap[..., 0]))


def unsolved(
    coefficients: Array, image: Array, steps: Array, tolerance: float, max_steps: int
) -> Array:
    """Whether the residual asks for more and is finite."""
    residual = size(image - coefficients)
    done = enough(residual, size(coefficients), tolerance) | ~jnp.isfinite(residual)
    return ~done & (steps < max_steps)


def iterate(
    step: Callable[[Array, Array], Array],
    operator: BellmanOperator,
    start: Array,
    tolerance: float,
    max_steps: int,
) -> SolverState:
    """Apply `step(coefficients, T coefficients)` while the residual asks for it and is finite."""

    def proceed(state: tuple) -> Array:
        coefficients, image, steps = state
        return unsolved(coefficients, image, steps, tolerance, max_steps)

    def body(state: tuple) -> tuple:
        coefficients, image, steps = state
        new = step(coefficients, image)
        return new, operator(new), steps + 1

    first = (start, operator(start), jnp.asarray(0))
    coefficients, image, steps = jax.lax.while_loop(proceed, body, first)
    return SolverState(coefficients, size(image - coefficients), steps)
