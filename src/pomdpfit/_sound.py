"""Whether primitives are those of a model, as a value that compiled programs can go by."""

import jax.numpy as jnp

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._model import Primitives
from pomdpfit._types import Array, Bool


def sound(primitives: Primitives) -> Bool[Array, ""]:
    """What `Primitives.check` asks of numbers, without the words."""
    kernel = jnp.asarray(primitives.kernel.probability)
    off = jnp.abs(kernel.sum(axis=(2, 4)) - 1.0) > SUM_TOLERANCE
    if primitives.available is not None:
        off = off & primitives.available[:, :, None]
    beta = primitives.discount
    below = beta < 1 if primitives.horizon is None else beta <= 1
    proper = jnp.all(kernel >= 0) & ~jnp.any(off) & (beta >= 0) & below
    return proper & jnp.all(jnp.isfinite(primitives.reward))
