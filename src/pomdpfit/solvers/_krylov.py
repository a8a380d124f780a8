"""Newton steps where observations have no order: Krylov's method around a coarse solution.

BiCGStab, for it remembers no more than seven arrays however many steps it takes. Two applications
of T' a step, each followed by the coarse correction.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from pomdpfit._bellman import Transfer
from pomdpfit._types import Array, Float
from pomdpfit.solvers._base import size

_MOST_STEPS = 60
# What is left of the gap, relative: what Newton's next step makes good.
_FINE, _ROUGH = 1e-5, 1e-2
_SOME = 0.1  # what is left is judged by its root mean square, gaps by the largest

Field = Float[Array, "Z n c"]


def krylov(
    apply: Callable[[Field], Field],
    improve: Callable[[Field], Field],
    right: Field,
    tolerance: Float[Array, ""] | float,
) -> Field:
    """(I - T')^-1 right, up to what is tolerated or the most steps leave."""
    return jax.scipy.sparse.linalg.bicgstab(
        lambda d: d - apply(d), right, M=improve, tol=tolerance, maxiter=_MOST_STEPS
    )[0]


def krylov_step(
    transfer: Transfer, improve: Callable[[Field], Field], gap: Field, tolerance: float
) -> Field:
    """(I - T'(V))^-1 gap, nearly, for a gap without its constant part.

    The error of a Newton step is of the order of the gap itself, so that more than some of that is
    wasted; and so is what brings the gap further below the tolerance than some of it.
    """
    largest = size(gap)
    left = _SOME * jnp.maximum(largest, tolerance / largest)
    return krylov(transfer, improve, gap, jnp.clip(left, _FINE, _ROUGH))
