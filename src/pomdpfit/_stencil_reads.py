"""V read at the positions of a stencil and weighed: linear in V, and in the weights.

Written as one gather and a sum over its axes, a read takes three times as long: here each entry of
the result is a sum of a few terms, for which the compiler makes one loop.
"""

import functools

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from pomdpfit._term_by_term import term_by_term
from pomdpfit._types import Array, Float, Int

_UNROLLED = 32
IN_BOUNDS = "promise_in_bounds"  # schemes clip positions, and tables are read by real rows


@jax.jit  # traced once, however many programs (and actions, and slots) it is part of
def read_slot(
    rows: Float[Array, "z m"], position: Int[Array, "n V"], weight: Float[Array, "n V c"]
) -> Float[Array, "z n c"]:
    """One successor of each z; or one function on another grid."""
    width = position.shape[1]
    # Vertex by vertex: cut from one read of all, they are read anew for each sum.
    return term_by_term(rows[:, position[:, v]][..., None] * weight[:, v] for v in range(width))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _together(
    slices: tuple[tuple[int, int], ...] | None,
    flat: Float[Array, "Z m"],
    successors: Int[Array, "z B K"],
    position: Int[Array, "B K n V"],
    weight: Float[Array, "B K n V c"],
) -> Float[Array, "z B n c"]:
    """All z of one law: whole rows of V are read at the same positions, which is quick.

    slices  the rows that each slot reads, where they stand side by side: quicker still
    """
    B, K, n, width = position.shape

    def rows(b: int, k: int) -> Array:
        return flat[successors[:, b, k]] if slices is None else flat[slice(*slices[k])]

    def action(b: int) -> Array:
        if K * width <= _UNROLLED:
            slots = (read_slot(rows(b, k), position[b, k], weight[b, k]) for k in range(K))
            return term_by_term(slots)
        zero = jnp.zeros((len(successors), n, weight.shape[-1]))
        add = lambda total, slot: (total + read_slot(flat[slot[0]], *slot[1:]), None)
        return jax.lax.scan(add, zero, (successors[:, b].T, position[b], weight[b]))[0]

    return jnp.stack([action(b) for b in range(B)], axis=1)


@functools.partial(_together.defjvp, symbolic_zeros=True)
def _together_jvp(
    slices: tuple[tuple[int, int], ...] | None, primals: tuple, tangents: tuple
) -> tuple[Array, Array]:
    """dweight's term is a read like any other."""
    flat, successors, position, _ = primals
    image = _together(slices, *primals)
    change = _change_of_values(tangents[0], primals, image)
    if isinstance(tangents[3], SymbolicZero):
        return image, change
    return image, change + _together(slices, flat, successors, position, tangents[3])


@jax.custom_jvp
def _each(
    flat: Float[Array, "Z m"],
    successors: Int[Array, "#z B K"],
    position: Int[Array, "z B K n V"],
    weight: Float[Array, "z B K n V c"],
) -> Float[Array, "z B n c"]:
    """Every z by a law of its own: entry by entry."""
    z, B, K, n, width = position.shape
    values, row = flat.reshape(-1), jnp.uint32(flat.shape[1])

    def slot(first: Int[Array, "z"], position: Array, weight: Array) -> Float[Array, "z n c"]:
        at = first.astype(jnp.uint32)[:, None] * row
        read = lambda v: values.at[at + position[..., v]].get(mode=IN_BOUNDS)
        return term_by_term(read(v)[..., None] * weight[..., v, :] for v in range(width))

    def action(b: int) -> Array:
        # Slot by slot and action by action: cut from one read of all, T takes twice as long.
        slots = successors[:, b], position[:, b], weight[:, b]
        if K * width <= _UNROLLED:
            return term_by_term(slot(*(part[:, k] for part in slots)) for k in range(K))
        zero = jnp.zeros((z, n, weight.shape[-1]))
        add = lambda total, parts: (total + slot(*parts), None)
        return jax.lax.scan(add, zero, tuple(jnp.moveaxis(part, 1, 0) for part in slots))[0]

    return jnp.stack([action(b) for b in range(B)], axis=1)


@functools.partial(_each.defjvp, symbolic_zeros=True)
def _each_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """dweight's term is a sum over axes: its transpose is one product."""
    flat, successors, position, _ = primals
    image = _each(*primals)
    change = _change_of_values(tangents[0], primals, image)
    if isinstance(tangents[3], SymbolicZero):
        return image, change
    return image, change + summed(gathered(flat, successors, position), tangents[3])


def _change_of_values(tangent: Array | SymbolicZero, primals: tuple, image: Array) -> Array:
    """dV's term: one read of all positions.

    Its transpose is then one loop that adds to all of them, where that of many reads would be many.
    """
    if isinstance(tangent, SymbolicZero):
        return jnp.zeros_like(image)
    _, successors, position, weight = primals
    return summed(gathered(tangent, successors, position), weight)


def gathered(
    flat: Float[Array, "Z m"], successors: Int[Array, "z B K"], position: Int[Array, "*z B K n V"]
) -> Float[Array, "z B K n V"]:
    """All that is read, in one array."""
    return flat[successors[..., None, None], position]


def summed(
    read: Float[Array, "z B K n V"], weight: Float[Array, "*z B K n V c"]
) -> Float[Array, "z B n c"]:
    """The same, weighed and added up over slots and vertices."""
    return (read[..., None] * weight).sum(axis=(2, 4))


read_together = jax.jit(_together, static_argnums=0)  # traced once
read_each = jax.jit(_each)
