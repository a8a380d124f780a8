"""The expected value of the next period as a sparse linear map of V's coefficients.

E_a V (z, node) = sum_k sigma_k(node) V(z_k, lambda_k(node)): positions and weights depend on z only
through the law P(z_k, s' | z, s, a), which most z share by construction (`Kernel.patterns`). So
they are computed once for each law, and V is read for all z of a law at once.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._kernel import Kernel, Pattern
from pomdpfit._schemes import AbstractScheme
from pomdpfit._stencil_reads import IN_BOUNDS, gathered, read_each, read_together, summed
from pomdpfit._term_by_term import term_by_term
from pomdpfit._types import Array, Float, Int

_LEAST_SHARED = 4  # z with one law that are read together; fewer are read each by itself
_FEW_ENTRIES = 4096  # read at once where that takes no time: it is less to compile


class Stencil(eqx.Module):
    """Positions and weights for every (z, a, k, node): the plain form."""

    successors: Int[Array, "#Z A K"]
    position: Int[Array, "#Z A K n V"]
    weight: Float[Array, "#Z A K n V c"]

    def gather(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "#Z A K n V"]:
        """The coefficients that each (z, a, k, node) reads."""
        flat = coefficients.reshape(coefficients.shape[0], -1)
        return gathered(flat, self.successors, self.position)

    def __call__(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "#Z A n c"]:
        """The expected value of the next period at every node, for each action."""
        return summed(self.gather(coefficients), self.weight)

    def read_each(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "Z A n c"]:
        """The same, entry by entry: quicker, and more to compile."""
        flat = coefficients.reshape(coefficients.shape[0], -1)
        return read_each(flat, self.successors, self.position, self.weight)


class Piece(eqx.Module):
    """The actions whose laws follow one pattern: a row of positions and weights for each law."""

    successors: Int[Array, "#Z B K"]
    position: Int[Array, "L B K m V"]
    weight: Float[Array, "L B K m V c"]
    actions: tuple[int, ...] = eqx.field(static=True)
    law: tuple[int, ...] = eqx.field(static=True)  # z -> row
    pattern: Pattern = eqx.field(static=True)

    def plain(self) -> Stencil:
        """A row for every z."""
        rows = jnp.asarray(self.law) if len(self.position) > 1 else jnp.zeros(1, dtype=int)
        return Stencil(self.successors, self.position[rows], self.weight[rows])

    def __call__(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "#Z B m c"]:
        """E_a V for the actions of this piece; m is 1 where the belief does not matter."""
        flat = coefficients.reshape(coefficients.shape[0], -1)
        if self.pattern.everywhere and self.pattern.blind:
            # A few numbers: written as a sum over axes they are computed once, not for each reader.
            return Stencil(self.successors, self.position, self.weight)(coefficients)
        if self.pattern.everywhere:
            return read_together(None, flat, self.successors, self.position[0], self.weight[0])
        rows = np.array(self.law)
        if self.pattern.shifts is None:
            places, parts = self._by_law(coefficients, flat, np.arange(len(rows)))
            in_order = (places == np.arange(len(rows))).all()
            return parts if in_order else parts[np.argsort(places)]
        alike = self.pattern.shifted()
        whole = self._side_by_side(flat, rows[alike[0]])
        others = np.setdiff1d(np.arange(len(rows)), alike)
        if len(others) == 0:
            return whole
        places, parts = self._by_law(coefficients, flat, others)
        # Not joined to the others: the compiler would then compute every one many times over.
        return _overwritten(whole, places, parts)

    def add_owed(
        self, owed: Float[Array, "Z*m"], asked: Float[Array, "Z B n c"]
    ) -> Float[Array, "Z*m"]:
        """The transpose of a read, added: what each coefficient has part in of what is asked."""
        if self.pattern.everywhere:
            asked = asked.sum(axis=0, keepdims=True)
        if self.pattern.blind:
            asked = asked.sum(axis=2, keepdims=True)
        plain, row = self.plain(), jnp.uint32(len(owed) // len(self.law))
        at = plain.successors[..., None, None] * row + plain.position
        by = asked[:, :, None, :, None]
        each = (plain.weight[..., i] * by[..., i] for i in range(by.shape[-1]))
        return owed.at[at].add(term_by_term(each), mode=IN_BOUNDS)

    def _side_by_side(self, flat: Float[Array, "Z m"], row: int) -> Float[Array, "Z B n c"]:
        """By the commonest law at every z, as far ahead as it leads.

        So each slot reads a slice of V, which is quicker than rows here and there.
        """
        shifts, Z = np.array(self.pattern.shifts), len(flat)
        before, after = max(0, -shifts.min()), max(0, shifts.max())
        slices = tuple((int(before + k), int(before + k) + Z) for k in shifts)
        ahead = np.arange(Z)[:, None, None] + np.broadcast_to(shifts, self.position.shape[1:3])
        padded = jnp.pad(flat, ((before, after), (0, 0)))
        return read_together(slices, padded, before + ahead, self.position[row], self.weight[row])

    def _by_law(
        self, coefficients: Float[Array, "Z n c"], flat: Float[Array, "Z m"], these: np.ndarray
    ) -> tuple[np.ndarray, Float[Array, "z B n c"]]:
        """Some z, in the order in which they were read: those of one law together."""
        rows, many = np.array(self.law), len(self.successors) > 1
        shared, single = _by_law(rows[these])
        found, order = [], []
        for row, places in shared:
            zs = these[places]
            successors = self.successors[as_slice(zs)] if many else self.successors
            part = read_together(None, flat, successors, self.position[row], self.weight[row])
            found.append(jnp.broadcast_to(part, (len(zs), *part.shape[1:])))
            order.append(zs)
        if len(single):
            zs = these[single]
            successors = self.successors[as_slice(zs)] if many else self.successors
            law = as_slice(rows[zs])
            own = Stencil(successors, self.position[law], self.weight[law])
            few = own.position.size <= _FEW_ENTRIES
            found.append(own(coefficients) if few else own.read_each(coefficients))
            order.append(zs)
        return np.concatenate(order), found[0] if len(found) == 1 else jnp.concatenate(found)


def _overwritten(whole: Array, places: np.ndarray, parts: Array) -> Array:
    """The whole, with parts of it replaced.

    As one block where that can be; but not on a CPU, where the compiler would make it a part of
    whatever reads the whole, and compute the whole anew for each of its uses.
    """
    block = isinstance(as_slice(places), slice)
    if block and jax.default_backend() != "cpu":
        return jax.lax.dynamic_update_slice_in_dim(whole, parts, int(places[0]), axis=0)
    return whole.at[places].set(parts, unique_indices=True)


def as_slice(rows: np.ndarray) -> np.ndarray | slice:
    """Rows that follow each other, as a slice: it is read where it is, others are copied first."""
    first, count = int(rows[0]), len(rows)
    return slice(first, first + count) if (rows == first + np.arange(count)).all() else rows


def _by_law(rows: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], np.ndarray]:
    """The places of each row that many share, and all other places."""
    groups = [(int(row), np.flatnonzero(rows == row)) for row in np.unique(rows)]
    shared = [(row, zs) for row, zs in groups if len(zs) >= _LEAST_SHARED]
    rest = [zs for _, zs in groups if len(zs) < _LEAST_SHARED]
    return shared, np.sort(np.concatenate(rest)) if rest else np.array([], dtype=int)


class SharedStencil(eqx.Module):
    """E_a V of all actions, piece by piece."""

    pieces: tuple[Piece, ...]
    observations: int = eqx.field(static=True)
    nodes: int = eqx.field(static=True)

    def by_action(self, coefficients: Float[Array, "Z n c"]) -> list[Float[Array, "#Z #n c"]]:
        """E_a V, no larger than it needs to be, for each action."""
        found: dict[int, Array] = {}
        for piece in self.pieces:
            part = piece(coefficients)
            found |= {a: part[:, b] for b, a in enumerate(piece.actions)}
        return [found[a] for a in range(len(found))]

    def __call__(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "Z A n c"]:
        """E_a V at every (z, a, node)."""
        shape = (self.observations, self.nodes, coefficients.shape[-1])
        parts = [jnp.broadcast_to(part, shape) for part in self.by_action(coefficients)]
        return jnp.stack(parts, axis=1)

    def back(self, asked: Float[Array, "Z A n c"]) -> Float[Array, "Z n c"]:
        """The transpose of a call."""
        Z, _, n, c = asked.shape
        owed = jnp.zeros(Z * n * c)
        for piece in self.pieces:
            owed = piece.add_owed(owed, asked[:, np.array(piece.actions)])
        return owed.reshape(Z, n, c)

    def plain(self) -> Stencil:
        """Everything written out."""
        each = {}
        Z, n, K = self.observations, self.nodes, max(p.position.shape[2] for p in self.pieces)
        for piece in self.pieces:
            whole = piece.plain()
            short = K - whole.position.shape[2]
            for b, a in enumerate(piece.actions):
                successors = jnp.pad(whole.successors[:, b], [(0, 0), (0, short)], mode="edge")
                position = jnp.pad(whole.position[:, b], [(0, 0), (0, short), (0, 0), (0, 0)])
                weight = jnp.pad(whole.weight[:, b], [(0, 0), (0, short), *[(0, 0)] * 3])
                each[a] = (
                    jnp.broadcast_to(successors, (Z, K)),
                    jnp.broadcast_to(position, (Z, K, n, *position.shape[3:])),
                    jnp.broadcast_to(weight, (Z, K, n, *weight.shape[3:])),
                )
        rows = [each[a] for a in range(len(each))]
        return Stencil(*(jnp.stack(parts, axis=1) for parts in zip(*rows, strict=True)))


def make_stencil(kernel: Kernel, scheme: AbstractScheme) -> SharedStencil:
    """The pieces of a kernel on a scheme's grid."""
    by_pattern: dict[Pattern, list[int]] = {}
    for a, pattern in enumerate(kernel.sharing()):
        by_pattern.setdefault(pattern, []).append(a)
    pieces = tuple(_piece(kernel, scheme, p, tuple(actions)) for p, actions in by_pattern.items())
    return SharedStencil(pieces, kernel.observations, scheme.size(kernel.states))


def _piece(
    kernel: Kernel, scheme: AbstractScheme, pattern: Pattern, actions: tuple[int, ...]
) -> Piece:
    successors, probability = jnp.asarray(kernel.successors), jnp.asarray(kernel.probability)
    first, law = np.unique(pattern.law, return_inverse=True)
    rows = first if len(probability) > 1 and not pattern.everywhere else np.zeros(1, dtype=int)
    if pattern.everywhere:
        successors = successors[:1]
    law = law if len(rows) > 1 else np.zeros_like(law)
    own = np.array(actions)
    position, weight = scheme.perspective(probability[rows][:, own, : pattern.slots])
    if pattern.blind:  # every node reads the same
        position, weight = position[:, :, :, :1], weight[:, :, :, :1]
    return Piece(
        successors[:, own, : pattern.slots].astype(np.uint32),
        position.astype(np.uint32),
        weight,
        actions,
        tuple(map(int, law)),
        pattern,
    )
