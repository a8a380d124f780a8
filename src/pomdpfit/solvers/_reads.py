"""What each observation reads from its successors, in the terms that sweeps are written in."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import Transfer
from pomdpfit._stencil import Piece
from pomdpfit._types import Array, Bool, Float, Int
from pomdpfit.solvers._plan import Plan

_SHORT = 8  # in runs of fewer observations laws are looked up on the way
_MOST_RUNS = 3


class Run(NamedTuple):
    """Observations one after the other in the order, and the one whose laws are theirs too."""

    observations: np.ndarray
    like: int | None


def runs(transfer: Transfer, order: np.ndarray, *, one: bool) -> list[Run]:
    """As few as can be: every one is a program of its own, and short ones are taken together.

    Where `one` will do, laws are looked up throughout: a little slower, and compiled sooner.
    """
    moving = [piece for piece in transfer.stencil.pieces if not forgets(piece)]
    if not moving or len(order) == 0:
        return []
    if one:
        return [Run(order, None)]
    laws = np.array([piece.law for piece in moving])[:, order]
    breaks = np.flatnonzero((laws[:, 1:] != laws[:, :-1]).any(axis=0)) + 1
    found: list[Run] = []
    for part in np.split(order, breaks):
        short = len(part) < _SHORT
        if short and found and found[-1].like is None:
            found[-1] = Run(np.concatenate([found[-1].observations, part]), None)
        else:
            found.append(Run(part, None if short else int(part[0])))
    return found if len(found) <= _MOST_RUNS else [Run(order, None)]


class Reads(NamedTuple):
    """What T'(V) d at some z is made of: positions in d at successors, and weights.

    Reads that do not count have weight zero.
    """

    successor: Int[Array, "k"]
    position: Int[Array, "k n V"]
    weight: Float[Array, "k n V c"]

    def __call__(self, block: Callable[[int], Float[Array, "m q"]]) -> Float[Array, "m q"]:
        """The weighted sum of what stands at the positions.

        Written out read by read: the compiler makes one pass of it, and of a sum over axes not.
        """
        slots, _, width, c = self.weight.shape
        totals: list = [0.0] * c
        for k in range(slots):
            row = block(k)
            for v in range(width):
                found = row[self.position[k, :, v]]
                totals = [t + found * self.weight[k, :, v, i, None] for i, t in enumerate(totals)]
        return jnp.stack(totals, axis=1).reshape(row.shape)

    def owed(self, block: Float[Array, "m q"]) -> Float[Array, "k n V q"]:
        """The transpose: the block's parts, by the positions that they were read from."""
        n, c = self.weight.shape[1], self.weight.shape[-1]
        split = block.reshape(n, c, block.shape[-1])
        return sum(self.weight[..., i, None] * split[:, None, i] for i in range(c))  # type: ignore[return-value]


def reads_ahead(
    transfer: Transfer, plan: Plan, z: Array | int, rank: Int[Array, "Z"], like: int | None
) -> Reads | None:
    """What z reads from the observations before it in the order; None if none ever does."""
    if not any(plan.ahead):
        return None
    reads = _reads(transfer, plan.ahead, z, like)
    return _counting(reads, rank[reads.successor] < rank[z])


def reads_own(transfer: Transfer, plan: Plan, z: Array | int, like: int | None) -> Reads | None:
    """What z reads from itself; None if none ever stays."""
    if not any(plan.own):
        return None
    reads = _reads(transfer, plan.own, z, like)
    return _counting(reads, reads.successor == z)


def _reads(
    transfer: Transfer, slots: tuple[tuple[int, ...], ...], z: Array | int, like: int | None
) -> Reads:
    """What z reads in these slots of each action, by the laws of `like` (or of z, if not known)."""
    parts = []
    for piece in transfer.stencil.pieces:
        row = jnp.asarray(piece.law)[z] if like is None else piece.law[like]
        successors = piece.successors[z if len(piece.successors) > 1 else 0]
        for b, a in enumerate(piece.actions):
            if forgets(piece) or not slots[a]:
                continue
            k = np.array(slots[a])
            weight = piece.weight[row, b, k]
            value, share = weight[..., 0], transfer.share[z, a, :, None]
            mixed = [share * value]
            if transfer.turn is not None:
                mixed.append(share * weight[..., 1] + transfer.turn[z, a, :, None] * value)
            parts.append(Reads(successors[b, k], piece.position[row, b, k], jnp.stack(mixed, -1)))
    return Reads(*(jnp.concatenate(each) for each in zip(*parts, strict=True)))


def _counting(reads: Reads, counts: Bool[Array, "k"]) -> Reads:
    return reads._replace(weight=jnp.where(counts[:, None, None, None], reads.weight, 0.0))


def forgets(piece: Piece) -> bool:
    """Whether what follows does not depend on what was before."""
    return piece.pattern.everywhere and piece.pattern.blind


def resets(transfer: Transfer) -> list[Piece]:
    """The pieces that forget."""
    return [piece for piece in transfer.stencil.pieces if forgets(piece)]
