"""(I - T'(V))^-1 where observations move one way: a sweep in their order, and resets of rank one.

Without the resets I - T'(V) is block triangular in the order of the plan. Blocks at the start of
the sweep, where one may stay for ever, are solved densely; the others by a few passes over the
chance of staying. A reset adds to every row a multiple u of one number, what d is worth right
after it: g(d). Woodbury's formula puts it back: with L the triangular part,
(L - u g)^-1 b = L^-1 b + L^-1 u (1 - g L^-1 u)^-1 g L^-1 b.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import Transfer
from pomdpfit._stencil import Piece
from pomdpfit._types import Array, Bool, Float, Int
from pomdpfit.solvers._plan import Plan

_SHORT = 8  # in runs of fewer observations laws are looked up on the way
_MOST_RUNS = 3

_DENSE_UP_TO = 1200  # coefficients in a block
_STUCK = 200  # passes over a larger block where one may stay for ever


def reset_columns(transfer: Transfer) -> Float[Array, "Z n c R"]:
    """u: what one more unit of value after each reset is worth at every node."""
    actions = np.array([a for piece in _resets(transfer) for a in piece.actions], dtype=int)
    parts = [transfer.share[:, actions]]
    if transfer.turn is not None:
        parts.append(transfer.turn[:, actions])
    return jnp.moveaxis(jnp.stack(parts, axis=-1), 1, -1)


def _reset_values(transfer: Transfer, d: Float[Array, "Z n c q"]) -> Float[Array, "R q"]:
    """g: what d is worth right after each reset."""
    rows = d.reshape(len(d), -1, d.shape[-1])

    def read(piece: Piece) -> Float[Array, "B q"]:
        found = rows[piece.successors[0, :, :, None], piece.position[0, :, :, 0]]
        return (found * piece.weight[0, :, :, 0, :, 0, None]).sum(axis=(1, 2))

    return jnp.concatenate([read(piece) for piece in _resets(transfer)])


def with_resets(
    transfer: Transfer, swept: Float[Array, "Z n c q"], columns: Float[Array, "Z n c R"]
) -> Float[Array, "Z n c q"]:
    """Woodbury's formula, from L^-1 b and L^-1 u."""
    if columns.shape[-1] == 0:
        return swept
    matrix = jnp.eye(columns.shape[-1]) - _reset_values(transfer, columns)
    after = jnp.linalg.solve(matrix, _reset_values(transfer, swept))
    return swept + sum(columns[..., r, None] * after[r] for r in range(len(after)))


def sweep(
    transfer: Transfer, plan: Plan, right: Float[Array, "Z n c q"]
) -> Float[Array, "Z n c q"]:
    """L^-1 right, up to what the passes leave."""
    Z, n, c, q = right.shape
    order = np.array(plan.order)
    rank = jnp.asarray(np.argsort(order))
    rest = _rest(transfer, plan)
    d = right.reshape(Z, n * c, q)
    stays = any(plan.own)
    for z in order[: plan.sticky]:
        own = _reads(transfer, plan.own, z, int(z)) if stays else None
        d = d.at[z].set(_stuck(own, z, _arriving(transfer, plan, d, z, rank, int(z)), rest[z]))
    for run in _runs(transfer, order[plan.sticky :]):

        def step(d: Array, z: Array, like: int | None = run.like) -> tuple[Array, None]:
            own = _reads(transfer, plan.own, z, like) if stays else None
            right = _arriving(transfer, plan, d, z, rank, like)
            # Without the barrier the whole of d would be copied at every step: what reads it and
            # what writes to it must not become one.
            new = jax.lax.optimization_barrier(_passes(own, z, right, plan.passes, rest[z]))
            return d.at[z].set(new), None

        d = jax.lax.scan(step, d, jnp.asarray(run.observations))[0]
    return d.reshape(Z, n, c, q)


class _Run(NamedTuple):
    """Observations one after the other in the order, and the one whose laws are theirs too."""

    observations: np.ndarray
    like: int | None


def _runs(transfer: Transfer, order: np.ndarray) -> list[_Run]:
    """As few as can be: every one is a program of its own, and short ones are taken together."""
    moving = [piece for piece in transfer.stencil.pieces if not _forgets(piece)]
    if not moving or len(order) == 0:
        return []
    laws = np.array([piece.law for piece in moving])[:, order]
    breaks = np.flatnonzero((laws[:, 1:] != laws[:, :-1]).any(axis=0)) + 1
    runs: list[_Run] = []
    for part in np.split(order, breaks):
        short = len(part) < _SHORT
        if short and runs and runs[-1].like is None:
            runs[-1] = _Run(np.concatenate([runs[-1].observations, part]), None)
        else:
            runs.append(_Run(part, None if short else int(part[0])))
    return runs if len(runs) <= _MOST_RUNS else [_Run(order, None)]


class _Reads(NamedTuple):
    """What T'(V) d at some z is made of: positions in d at successors, and weights."""

    successor: Int[Array, "k"]
    position: Int[Array, "k n V"]
    weight: Float[Array, "k n V c"]

    def __call__(
        self, block: Callable[[int], Float[Array, "m q"]], counts: Bool[Array, "k"]
    ) -> Float[Array, "m q"]:
        """The weighted sum of what stands at the positions, of the successors that count.

        Written out read by read: the compiler makes one pass of it, and of a sum over axes not.
        """
        slots, _, width, c = self.weight.shape
        weight = jnp.where(counts[:, None, None, None], self.weight, 0.0)
        totals: list = [0.0] * c
        for k in range(slots):
            row = block(k)
            for v in range(width):
                found = row[self.position[k, :, v]]
                totals = [t + found * weight[k, :, v, i, None] for i, t in enumerate(totals)]
        return jnp.stack(totals, axis=1).reshape(row.shape)


def _reads(
    transfer: Transfer, slots: tuple[tuple[int, ...], ...], z: Array | int, like: int | None
) -> _Reads:
    """What z reads in these slots of each action, by the laws of `like` (or of z, if not known)."""
    parts = []
    for piece in transfer.stencil.pieces:
        row = jnp.asarray(piece.law)[z] if like is None else piece.law[like]
        successors = piece.successors[z if len(piece.successors) > 1 else 0]
        for b, a in enumerate(piece.actions):
            if _forgets(piece) or not slots[a]:
                continue
            k = np.array(slots[a])
            weight = piece.weight[row, b, k]
            value, share = weight[..., 0], transfer.share[z, a, :, None]
            mixed = [share * value]
            if transfer.turn is not None:
                mixed.append(share * weight[..., 1] + transfer.turn[z, a, :, None] * value)
            parts.append(_Reads(successors[b, k], piece.position[row, b, k], jnp.stack(mixed, -1)))
    return _Reads(*(jnp.concatenate(each) for each in zip(*parts, strict=True)))


def _arriving(
    transfer: Transfer,
    plan: Plan,
    d: Float[Array, "Z m q"],
    z: Array | int,
    rank: Array,
    like: int | None,
) -> Float[Array, "m q"]:
    """The right-hand side and what is known of the observations solved before."""
    if not any(plan.ahead):
        return d[z]
    reads = _reads(transfer, plan.ahead, z, like)
    return d[z] + reads(lambda k: d[reads.successor[k]], rank[reads.successor] < rank[z])


def _rest(transfer: Transfer, plan: Plan) -> Float[Array, "Z m"]:
    """1 / (1 - chance of staying), discounted: the whole series, if all nodes stayed like this."""
    Z, _, n = transfer.share.shape
    here = jnp.arange(Z)[:, None]
    chance = jnp.zeros((Z, n))
    for piece in transfer.stencil.pieces:
        rows = np.array(piece.law)
        for b, a in enumerate(piece.actions):
            for k in plan.own[a]:
                sigma = piece.weight[:, b, k, :, :: piece.weight.shape[-1], 0].sum(axis=-1)[rows]
                stays = piece.successors[:, b, k, None] == here
                chance += jnp.where(stays, transfer.share[:, a] * sigma, 0.0)
    c = 1 if transfer.turn is None else 2
    return jnp.repeat(1.0 / (1.0 - chance), c, axis=1)


def _passes(
    own: _Reads | None,
    z: Array | int,
    right: Float[Array, "m q"],
    count: int,
    rest: Float[Array, "m"],
) -> Float[Array, "m q"]:
    """Neumann's series for the chance of staying; of what is left, as if no belief moved."""
    if own is None or count == 0:
        return right
    again = lambda block: own(lambda _: block, own.successor == z)
    # A loop, not lines: unrolled, the compiler would do the work of each pass in all reads of the
    # next, many times over.
    add = lambda _, state: (state[0] + state[1], again(state[1]))
    block, last = jax.lax.fori_loop(0, count, add, (right, again(right)))
    return block + last * rest[:, None]


def _stuck(
    own: _Reads | None, z: Array | int, right: Float[Array, "m q"], rest: Float[Array, "m"]
) -> Float[Array, "m q"]:
    """A block where one may stay for ever: by LU while it is small."""
    if own is None or len(right) > _DENSE_UP_TO:
        return _passes(own, z, right, _STUCK, rest)
    identity = jnp.eye(len(right))
    matrix = identity - own(lambda _: identity, own.successor == z)
    return jnp.linalg.solve(matrix, right)


def _forgets(piece: Piece) -> bool:
    return piece.pattern.everywhere and piece.pattern.blind


def _resets(transfer: Transfer) -> list[Piece]:
    return [piece for piece in transfer.stencil.pieces if _forgets(piece)]
