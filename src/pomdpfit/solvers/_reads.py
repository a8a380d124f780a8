"""What each observation reads from its successors, in the terms that sweeps are written in."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import Transfer
from pomdpfit._stencil import Piece, as_slice
from pomdpfit._term_by_term import term_by_term
from pomdpfit._types import Array, Bool, Float, Int
from pomdpfit.solvers._plan import Plan

_SHORT = 8  # in runs of fewer observations laws are looked up on the way
_MOST_RUNS = 3


class Run(NamedTuple):
    """Observations one after the other in the order, and the one whose laws are theirs too."""

    observations: np.ndarray
    like: int | None
    rank: np.ndarray  # of all observations in the order

    def shifts(self, piece: Piece) -> tuple[int, ...] | None:
        """How far ahead these observations read, if it is the same for all of them."""
        shifts = piece.pattern.shifts
        if shifts is None or self.like is None or self.like not in piece.pattern.shifted():
            return None
        return shifts

    def before(self, shift: int) -> bool | None:
        """Whether what stands so far ahead comes earlier in the order; None if not always."""
        earlier = self.rank[self.observations + shift] < self.rank[self.observations]
        return None if earlier.any() and not earlier.all() else bool(earlier.all())


def single(z: int, rank: np.ndarray) -> Run:
    """One observation by itself."""
    return Run(np.array([z]), int(z), rank)


def runs(transfer: Transfer, plan: Plan, *, one: bool) -> list[Run]:
    """As few as can be: every one is a program of its own, and short ones are taken together.

    Where `one` will do, laws are looked up throughout: a little slower, and compiled sooner.
    """
    moving = [piece for piece in transfer.stencil.pieces if not forgets(piece)]
    order, rank = np.array(plan.order)[plan.sticky :], np.argsort(np.array(plan.order))
    if not moving or len(order) == 0:
        return []
    if one:
        return [Run(order, None, rank)]
    laws = np.array([piece.law for piece in moving])[:, order]
    breaks = np.flatnonzero((laws[:, 1:] != laws[:, :-1]).any(axis=0)) + 1
    found: list[Run] = []
    for part in np.split(order, breaks):
        short = len(part) < _SHORT
        if short and found and found[-1].like is None:
            found[-1] = Run(np.concatenate([found[-1].observations, part]), None, rank)
        else:
            found.append(Run(part, None if short else int(part[0]), rank))
    return found if len(found) <= _MOST_RUNS else [Run(order, None, rank)]


def row_at(table: Array, z: Array | int) -> Array:
    """table[z], of a real z: where that is known only as it runs, jnp would allow for any other."""
    if isinstance(z, int | np.integer):
        return table[z]
    return jax.lax.dynamic_index_in_dim(table, z, keepdims=False, allow_negative_indices=False)


def with_row(table: Array, row: Array, z: Array | int) -> Array:
    """The table with another row at a real z."""
    return jax.lax.dynamic_update_index_in_dim(table, row, z, axis=0, allow_negative_indices=False)


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
            found, weight = row[self.position[k]], self.weight[k]
            for i in range(c):
                read = found * weight[..., i, None]
                totals[i] = term_by_term([totals[i], *(read[:, v] for v in range(width))])
        return jnp.stack(totals, axis=1).reshape(row.shape)

    def owed(self, block: Float[Array, "m q"]) -> Float[Array, "k n V q"]:
        """The transpose: the block's parts, by the positions that they were read from."""
        n, c = self.weight.shape[1], self.weight.shape[-1]
        split = block.reshape(n, c, block.shape[-1])
        return sum(self.weight[..., i, None] * split[:, None, i] for i in range(c))  # type: ignore[return-value]


def reads_ahead(transfer: Transfer, plan: Plan, z: Array | int, run: Run) -> Reads | None:
    """What z reads from the observations before it in the order; None if none ever does."""
    rank = jnp.asarray(run.rank)
    earlier = lambda next_z: rank[next_z] < row_at(rank, z)
    return _reads(transfer, plan.ahead, z, run, run.before, earlier)


def reads_own(transfer: Transfer, plan: Plan, z: Array | int, run: Run) -> Reads | None:
    """What z reads from itself; None if none ever stays."""
    return _reads(transfer, plan.own, z, run, lambda shift: shift == 0, lambda next_z: next_z == z)


def _reads(
    transfer: Transfer,
    slots: tuple[tuple[int, ...], ...],
    z: Array | int,
    run: Run,
    known: Callable[[int], bool | None],
    counts: Callable[[Int[Array, "k"]], Bool[Array, "k"]],
) -> Reads | None:
    """What z reads in those of these slots of each action that count.

    known   whether the successor so far ahead counts, for all of the run; None if not for all
    counts  which successors do
    """
    found = []
    for piece in transfer.stencil.pieces:
        if forgets(piece):
            continue
        row = row_at(jnp.asarray(piece.law), z) if run.like is None else piece.law[run.like]
        positions, weights = row_at(piece.position, row), row_at(piece.weight, row)
        reached = row_at(piece.successors, z if len(piece.successors) > 1 else 0)
        shifts = run.shifts(piece)
        for b, a in enumerate(piece.actions):
            sure = {k: None if shifts is None else known(shifts[k]) for k in slots[a]}
            chosen = np.array([k for k in slots[a] if sure[k] is not False], dtype=int)
            if len(chosen) == 0:
                continue
            at = as_slice(chosen)
            ahead = None if shifts is None else np.array(shifts)[at]
            next_z = reached[b, at] if ahead is None else jnp.asarray(z + ahead)
            mixed = _mixed(transfer, z, a, weights[b, at])
            if not all(sure[k] for k in chosen):
                mixed = jnp.where(counts(next_z)[:, None, None, None], mixed, 0.0)
            found.append(Reads(next_z, positions[b, at], mixed))
    if len(found) < 2:
        return found[0] if found else None
    return Reads(*map(jnp.concatenate, zip(*found, strict=True)))


def _mixed(
    transfer: Transfer, z: Array | int, a: int, weight: Float[Array, "k n V c"]
) -> Float[Array, "k n V c"]:
    """T'(V)'s weights of what an action reads: on values, and on slopes where they are kept."""
    share = row_at(transfer.share, z)[a, :, None]
    value = weight[..., 0]
    if transfer.turn is None:
        return (share * value)[..., None]
    turn = row_at(transfer.turn, z)[a, :, None]
    return jnp.stack([share * value, share * weight[..., 1] + turn * value], axis=-1)


def forgets(piece: Piece) -> bool:
    """Whether what follows does not depend on what was before."""
    return piece.pattern.everywhere and piece.pattern.blind


def resets(transfer: Transfer) -> list[Piece]:
    """The pieces that forget."""
    return [piece for piece in transfer.stencil.pieces if forgets(piece)]
