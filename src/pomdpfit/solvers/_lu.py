"""Dense systems by LU, of which many may be solved at a time on any number of threads.

jaxlib 0.10.2 hands the matrices of a batch to the pool of threads that it is itself run by,
and waits for them there: on a machine with two cores two such calls at a time wait for ever. So on
a CPU the matrices of a batch are factored one after the other, which is no slower. The triangular
systems that remain are not among those calls.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from pomdpfit._types import Array, Float

Columns = Float[Array, "m *q"]


def factored(matrix: Float[Array, "m m"]) -> Callable[[Columns], Columns]:
    """A function right -> matrix^-1 right, to be differentiated and transposed like any other."""
    factors = _factor(jax.lax.stop_gradient(matrix))
    return lambda right: jax.lax.custom_linear_solve(
        lambda d: matrix @ d,
        right,
        lambda _, b: jax.scipy.linalg.lu_solve(factors, b),
        lambda _, b: jax.scipy.linalg.lu_solve(factors, b, trans=1),
    )


def solve(matrix: Float[Array, "m m"], right: Columns) -> Columns:
    """matrix^-1 right; of one equation a quotient, without a call of LAPACK."""
    return right / matrix[0, 0] if len(matrix) == 1 else factored(matrix)(right)


def inverse(matrix: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """matrix^-1."""
    return solve(matrix, jnp.eye(len(matrix)))


@custom_vmap
def _factor(matrix: Float[Array, "m m"]) -> tuple[Array, Array]:
    return jax.scipy.linalg.lu_factor(matrix)


@_factor.def_vmap
def _factor_many(_: int, __: list[bool], matrices: Float[Array, "k m m"]) -> tuple:
    factors = jax.lax.platform_dependent(
        matrices,
        cpu=lambda each: jax.lax.map(_factor, each),
        default=jax.vmap(jax.scipy.linalg.lu_factor),
    )
    return factors, (True, True)
