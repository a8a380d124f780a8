"""(I - T'(V))^-1 where observations move one way: a sweep in their order, and resets of rank one.

Without the resets I - T'(V) is block triangular in the order of the plan. Blocks at the start of
the sweep, where one may stay for ever, are solved densely; the others by a few passes over the
chance of staying. A reset adds to every row a multiple u of one number, what d is worth right
after it: g(d). Woodbury's formula puts it back: with L the triangular part,
(L - u g)^-1 b = L^-1 b + L^-1 u (1 - g L^-1 u)^-1 g L^-1 b.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import Transfer
from pomdpfit._stencil import Piece
from pomdpfit._types import Array, Float, Int
from pomdpfit.solvers._plan import Plan

_SHORT = 4  # runs of fewer observations are written out, not looped over
_MOST_RUNS = 8

_DENSE_UP_TO = 1200  # coefficients in a block
_STUCK = 200  # passes over a larger block where one may stay for ever


def reset_columns(transfer: Transfer) -> Float[Array, "Z n c R"]:
    """u: what one more unit of value after each reset is worth at every node."""
    actions = [a for piece in _resets(transfer) for a in piece.actions]
    parts = [transfer.share[:, actions]]
    if transfer.turn is not None:
        parts.append(transfer.turn[:, actions])
    return jnp.moveaxis(jnp.stack(parts, axis=-1), 1, -1)


def _reset_values(transfer: Transfer, d: Float[Array, "Z n c q"]) -> Float[Array, "R q"]:
    """g: what d is worth right after each reset."""
    read = lambda piece: jax.vmap(piece, -1, -1)(d)[0, :, 0, 0]
    return jnp.concatenate([read(piece) for piece in _resets(transfer)])


def with_resets(
    transfer: Transfer, swept: Float[Array, "Z n c q"], columns: Float[Array, "Z n c R"]
) -> Float[Array, "Z n c q"]:
    """Woodbury's formula, from L^-1 b and L^-1 u."""
    if columns.shape[-1] == 0:
        return swept
    matrix = jnp.eye(columns.shape[-1]) - _reset_values(transfer, columns)
    return swept + columns @ jnp.linalg.solve(matrix, _reset_values(transfer, swept))


def sweep(
    transfer: Transfer, plan: Plan, right: Float[Array, "Z n c q"]
) -> Float[Array, "Z n c q"]:
    """L^-1 right, up to what the passes leave."""
    Z, n, c, q = right.shape
    order = np.array(plan.order)
    rank = jnp.asarray(np.argsort(order))
    rest = _rest(transfer, plan)
    d = right.reshape(Z, n * c, q)
    for z in order[: plan.sticky]:
        ahead, own = _reads(transfer, plan, z, int(z))
        d = d.at[z].set(_stuck(own, z, _arriving(ahead, d, z, rank), rest[z]))
    for run in _runs(transfer, order[plan.sticky :]):

        def step(d: Array, z: Array, like: int | None = run.like) -> tuple[Array, None]:
            ahead, own = _reads(transfer, plan, z, like)
            right = _arriving(ahead, d, z, rank)
            return d.at[z].set(_passes(own, z, right, plan.passes, rest[z])), None

        if len(run.observations) < _SHORT:
            for z in run.observations:
                d = step(d, z)[0]
        else:
            d = jax.lax.scan(step, d, jnp.asarray(run.observations))[0]
    return d.reshape(Z, n, c, q)


class _Run(NamedTuple):
    """Observations one after the other in the order, and the one whose laws are theirs too."""

    observations: np.ndarray
    like: int | None


def _runs(transfer: Transfer, order: np.ndarray) -> list[_Run]:
    """As few as can be; one whose laws are looked up on the way if there would be many."""
    moving = [piece for piece in transfer.stencil.pieces if not _forgets(piece)]
    laws = np.array([piece.law for piece in moving]).reshape(len(moving), -1)[:, order]
    breaks = np.flatnonzero((laws[:, 1:] != laws[:, :-1]).any(axis=0)) + 1
    if len(order) == 0:
        return []
    if len(breaks) >= _MOST_RUNS:
        return [_Run(order, None)]
    return [_Run(part, int(part[0])) for part in np.split(order, breaks)]


class _Read(NamedTuple):
    """One slot of one action at some z."""

    successor: Int[Array, ""]
    position: Int[Array, "n V"]
    weight: Float[Array, "n V c"]
    share: Float[Array, "n"]
    turn: Float[Array, "n"] | None

    def __call__(self, block: Float[Array, "m q"], counts: Array) -> Float[Array, "m q"]:
        """Its part of T'(V) d at z, from d at the successor; nothing if it does not count."""
        rows = [block[self.position[:, v]] for v in range(self.position.shape[1])]
        worth = [
            sum(row * self.weight[:, v, i, None] for v, row in enumerate(rows))
            for i in range(self.weight.shape[2])
        ]
        share = jnp.where(counts, self.share, 0.0)[:, None]
        if self.turn is None:
            return share * worth[0]
        turn = jnp.where(counts, self.turn, 0.0)[:, None]
        both = jnp.stack([share * worth[0], share * worth[1] + turn * worth[0]], axis=1)
        return both.reshape(block.shape)


def _reads(
    transfer: Transfer, plan: Plan, z: Array | int, like: int | None
) -> tuple[list[_Read], list[_Read]]:
    """What z reads of others and of itself, by the laws of `like` (or of z, where not known)."""
    ahead: list[_Read] = []
    own: list[_Read] = []
    for piece in transfer.stencil.pieces:
        if _forgets(piece):
            continue
        row = jnp.asarray(piece.law)[z] if like is None else piece.law[like]
        successors = piece.successors[z if len(piece.successors) > 1 else 0]
        for b, a in enumerate(piece.actions):
            share = transfer.share[z, a]
            turn = None if transfer.turn is None else transfer.turn[z, a]
            for slots, reads in ((plan.ahead[a], ahead), (plan.own[a], own)):
                for k in slots:
                    table = (piece.position[row, b, k], piece.weight[row, b, k])
                    reads.append(_Read(successors[b, k], *table, share, turn))
    return ahead, own


def _arriving(
    ahead: list[_Read], d: Float[Array, "Z m q"], z: Array | int, rank: Array
) -> Float[Array, "m q"]:
    """The right-hand side and what is known of the observations solved before."""
    parts = (read(d[read.successor], rank[read.successor] < rank[z]) for read in ahead)
    return sum(parts, d[z])


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
    own: list[_Read],
    z: Array | int,
    right: Float[Array, "m q"],
    count: int,
    rest: Float[Array, "m"],
) -> Float[Array, "m q"]:
    """Neumann's series for the chance of staying; of what is left, as if no belief moved."""
    if not own or count == 0:
        return right
    again = lambda block: sum((read(block, read.successor == z) for read in own), 0.0 * right)
    # A loop, not lines: unrolled, the compiler would do the work of each pass in all reads of the
    # next, many times over.
    add = lambda _, state: (state[0] + state[1], again(state[1]))
    block, last = jax.lax.fori_loop(0, count, add, (right, again(right)))
    return block + last * rest[:, None]


def _stuck(
    own: list[_Read], z: Array | int, right: Float[Array, "m q"], rest: Float[Array, "m"]
) -> Float[Array, "m q"]:
    """A block where one may stay for ever: by LU while it is small."""
    if len(right) > _DENSE_UP_TO:
        return _passes(own, z, right, _STUCK, rest)
    identity = jnp.eye(len(right))
    matrix = identity - sum((read(identity, read.successor == z) for read in own), 0.0 * identity)
    return jnp.linalg.solve(matrix, right)


def _forgets(piece: Piece) -> bool:
    return piece.pattern.everywhere and piece.pattern.blind


def _resets(transfer: Transfer) -> list[Piece]:
    return [piece for piece in transfer.stencil.pieces if _forgets(piece)]
