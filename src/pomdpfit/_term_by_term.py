"""Short sums, written out: the compiler joins their terms to what reads the sum."""

import functools
from collections.abc import Iterable

import jax.numpy as jnp

from pomdpfit._types import Array

_SHORT = 8


def term_by_term(parts: Iterable[Array]) -> Array:
    """Their sum, in one order; not a reduction, which would be a pass of its own."""
    return functools.reduce(jnp.add, parts)


def over_last(x: Array) -> Array:
    """x.sum(axis=-1), written out where the axis is short."""
    length = x.shape[-1]
    if length > _SHORT:
        return x.sum(axis=-1)
    return term_by_term(x[..., k] for k in range(length))
