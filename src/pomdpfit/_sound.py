"""Whether primitives are those of a model, as a value that compiled programs can go by.

A search asks at every step. What is wrong is said in words by `Primitives.check`, once it is.
"""

import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._kernel import Kernel
from pomdpfit._model import Model, Primitives
from pomdpfit._types import Array, Bool, Theta
from pomdpfit.programs import program


def sound_primitives(model: Model, theta: Theta) -> Primitives:
    """Primitives after every check on their numbers, for a theta that has been checked.

    Shapes and labels, which no theta moves, are for `checked_primitives`.
    """
    primitives, fine = _judged(model, theta)
    if not fine:
        primitives.check()
    primitives.shock.check(primitives.actions)
    return primitives


def prepare_sound(model: Model, theta: Theta) -> Primitives:
    """Have that compiled ahead; what is returned stands for the primitives."""
    return _judged.prepare(model, theta)[0]


@program(light=True)
def _judged(model: Model, theta: Theta) -> tuple[Primitives, Bool[Array, ""]]:
    primitives = model.primitives(theta)
    return primitives, sound(primitives)


def sound(primitives: Primitives) -> Bool[Array, ""]:
    """What `Primitives.check` asks of numbers, without the words; shocks are left out."""
    kernel = jnp.asarray(primitives.kernel.probability)
    off = jnp.abs(kernel.sum(axis=(2, 4)) - 1.0) > SUM_TOLERANCE
    if primitives.available is not None:
        off = off & primitives.available[:, :, None]
    beta = primitives.discount
    below = beta < 1 if primitives.horizon is None else beta <= 1
    proper = jnp.all((kernel >= 0) & jnp.isfinite(kernel)) & ~jnp.any(off) & (beta >= 0) & below
    proper = proper & jnp.all(jnp.isfinite(primitives.reward))
    if primitives.terminal is not None:
        proper = proper & jnp.all(jnp.isfinite(primitives.terminal))
    return proper & _distinct(primitives.kernel) & _as_shared(primitives.kernel)


def _distinct(kernel: Kernel) -> Bool[Array, ""]:
    """Whether all successors are observations, and none with mass comes after itself."""
    successors, probability = jnp.asarray(kernel.successors), jnp.asarray(kernel.probability)
    inside = jnp.all((successors >= 0) & (successors < kernel.observations))
    earlier = np.tril(np.ones((successors.shape[-1],) * 2, dtype=bool), k=-1)
    same = (successors[..., :, None] == successors[..., None, :]) & earlier
    return inside & ~jnp.any(same.any(axis=-1) & (probability > 0).any(axis=(3, 4)))


def _as_shared(kernel: Kernel) -> Bool[Array, ""]:
    """Whether the rows of each action are shared as its pattern says."""
    successors, probability = jnp.asarray(kernel.successors), jnp.asarray(kernel.probability)
    kept = jnp.asarray(True)
    for a, pattern in enumerate(kernel.patterns or ()):
        own = probability[:, a]
        like = own[np.array(pattern.law)] if len(own) > 1 else own
        kept = kept & jnp.all(own == like) & ~jnp.any(own[:, pattern.slots :])
        if pattern.everywhere:
            here = successors[:, a]
            kept = kept & jnp.all(own == own[:1]) & jnp.all(here == here[:1])
        if pattern.blind:
            kept = kept & jnp.all(own == own[:, :, :1])
        if pattern.shifts is not None:
            at, slots = pattern.shifted(), pattern.slots
            here = jnp.broadcast_to(successors[:, a, :slots], (len(pattern.law), slots))[at]
            told = len(pattern.shifts) == slots
            kept = kept & told & jnp.all(here - at[:, None] == np.resize(pattern.shifts, slots))
    return kept
