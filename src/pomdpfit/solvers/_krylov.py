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
_FINE, _ROUGH = 1e-4, 1e-2  # what is left of the gap, relative: what Newton's next step makes good

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


def krylov_step(transfer: Transfer, improve: Callable[[Field], Field], gap: Field) -> Field:
    """(I - T'(V))^-1 gap, nearly, for a gap without its constant part.

    The error of a Newton step is of the order of the gap itself, so that more than that is wasted.
    """
    return krylov(transfer, improve, gap, jnp.clip(size(gap), _FINE, _ROUGH))
