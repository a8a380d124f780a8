"""Short sums, written out: the compiler joins their terms to what reads the sum."""

import functools
from collections.abc import Iterable

import jax.numpy as jnp

from pomdpfit._types import Array


def term_by_term(parts: Iterable[Array]) -> Array:
    """Their sum, in one order; not a reduction, which would be a pass of its own."""
    return functools.reduce(jnp.add, parts)
