"""Where one may stay at an observation: how many passes over that chance, and how corrected.

With sigma the discounted chance of staying, an error that belief moves carry to mu times itself
shrinks by sigma mu a plain pass over what z reads from itself, and by sigma (1 - mu) / (1 - sigma)
a corrected one. Corrected passes take away at once what would be the whole error if no belief moved
while one stays, and cannot make any error larger up to sigma = 1/3. Once the first few have done
with smooth errors, where most of all errors is, the others are relaxed so that the roughest shrink
as fast as they can (Chebyshev's points); on a CPU, for elsewhere a pass takes as long as a call of
it, and to look up by how much it is relaxed is a second call.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from pomdpfit._bellman import Transfer
from pomdpfit._term_by_term import term_by_term
from pomdpfit._types import Array, Float, Int
from pomdpfit.solvers._base import Count
from pomdpfit.solvers._plan import Plan
from pomdpfit.solvers._reads import Reads

_SELDOM = 1 / 3
_FOR_SMOOTH = 4  # passes before the relaxed ones
_MOST_RELAXED = 28
MOST_PASSES = 300  # leave 1e-4 of an error at a chance of 0.97
_STUCK = 200  # passes over a large block where one may stay for ever
_DENSE_UP_TO = 1200  # coefficients in a block
_DENSE_ALONE = 400  # of a solve by itself: larger ones would be most of its memory
_PASSES_A_TURN = 8  # of a loop, on other devices than a CPU

Scalar = float | Float[Array, ""]


@custom_vmap
def _most_of_all(count: Int[Array, ""]) -> Int[Array, ""]:
    """The same for all that are solved side by side: as many as any of them needs."""
    return count


@_most_of_all.def_vmap
def _most_of_each(
    size: int, batched: list[bool], count: Int[Array, "m"]
) -> tuple[Int[Array, ""], bool]:
    return _most_of_all(count.max(axis=0) if batched[0] else count), False


class Staying(NamedTuple):
    """Passes over the chance of staying at one policy."""

    passes: Int[Array, ""]
    relaxations: Float[Array, "r"] | None  # by pass; the last one serves all further passes
    stuck: Int[Array, "Z"] | None  # passes that would do where one may stay for ever

    def longer(self, times: Count) -> "Staying":
        """So many times the passes."""
        stuck = None if self.stuck is None else times * self.stuck
        return self._replace(passes=jnp.minimum(times * self.passes, MOST_PASSES), stuck=stuck)

    def where_stuck(self, z: int) -> "Staying":
        """At an observation where one may stay for ever; where nothing is known, many passes."""
        passes = _STUCK if self.stuck is None else jnp.minimum(self.stuck[z], MOST_PASSES)
        return self._replace(passes=jnp.asarray(passes), relaxations=None)

    def over_passes(self, improve: Callable[[Count, Array], Array], block: Array) -> Array:
        """The block after all passes, improve(k, block) each.

        A device that is no CPU asks its host after every turn of a loop whether there is another,
        which takes longer than a pass: there a turn is some passes, apart from one another, and
        all members of a batch make as many of them.
        """
        if jax.default_backend() == "cpu":
            return jax.lax.fori_loop(0, self.passes, improve, block)

        def turn(k: Count, block: Array) -> Array:
            for j in range(_PASSES_A_TURN):
                block = jax.lax.optimization_barrier(improve(_PASSES_A_TURN * k + j, block))
            return block

        turns = -(-_most_of_all(self.passes) // _PASSES_A_TURN)
        return jax.lax.fori_loop(0, turns, turn, block)

    def relaxation(self, count: Count) -> Scalar:
        """Of the pass after so many."""
        if self.relaxations is None:
            return 1.0
        return self.relaxations[jnp.minimum(count, len(self.relaxations) - 1)]


def staying(transfer: Transfer, plan: Plan, leave: Scalar, *, alone: bool = False) -> Staying:
    """At the policy of this transfer, not at the model's example: a search may have gone far.

    leave  what may be left of the roughest errors; of smooth ones far less is
    alone  blocks where one may stay for ever are told apart by how soon this policy leaves them:
           not for many policies side by side, for which both would be done
    """
    chance = _chance_of_staying(transfer, plan)
    highest = chance.max(axis=1)
    most = highest[np.array(plan.order)[plan.sticky :]].max(initial=0.0)
    relaxed = jax.default_backend() == "cpu"
    passes = jnp.minimum(_enough_passes(most, leave, relaxed), MOST_PASSES)
    relaxations = _relaxations(most, passes) if relaxed else None
    stuck = _enough_passes(highest, leave, False) if alone else None
    return Staying(passes, relaxations, stuck)


def correction(own: Reads) -> Float[Array, "m 1"]:
    """What the terms of a pass over these reads are multiplied by."""
    _, n, width, c = own.weight.shape
    values = [own.weight[k, :, v, 0] for k in range(len(own.weight)) for v in range(0, width, c)]
    chance = term_by_term(values)
    corrected = jnp.where(chance <= _SELDOM, 1.0 / (1.0 - chance), 1.0)
    return jnp.broadcast_to(corrected[:, None], (n, c)).reshape(-1, 1)


def _enough_passes(chance: Float[Array, "*b"], leave: Scalar, relaxed: bool) -> Int[Array, "*b"]:
    """Plain passes are slowest for smooth errors: of those the square of `leave` may be left."""
    inside = jnp.clip(chance, 1e-9, 1 - 1e-9)
    rate = jnp.minimum(inside, _SELDOM) / (1 - inside)
    corrected = jnp.log(leave) / jnp.log(rate)
    if relaxed:
        root, left = jnp.sqrt(1.0 + rate), jnp.minimum(0.5 * leave / rate**_FOR_SMOOTH, 1.0)
        further = jnp.log(left) / jnp.log((root - 1.0) / (root + 1.0))
        corrected = jnp.minimum(corrected, _FOR_SMOOTH + further)
    plain = 2 * jnp.log(leave) / jnp.log(inside)
    passes = jnp.ceil(jnp.where(chance <= _SELDOM, corrected, plain))
    return jnp.where(chance > 0, passes, 0).astype(int)


def _relaxations(chance: Float[Array, ""], passes: Int[Array, ""]) -> Float[Array, "r"]:
    """1 / (1 + e) at Chebyshev's points e between 0 and sigma / (1 - sigma); 1 elsewhere."""
    place = np.arange(_FOR_SMOOTH + _MOST_RELAXED + 1) - _FOR_SMOOTH
    relaxed = jnp.clip(passes - _FOR_SMOOTH, 1, _MOST_RELAXED)
    points = 0.5 * (1.0 - jnp.cos((place + 0.5) * np.pi / relaxed))
    is_relaxed = (place >= 0) & (place < relaxed) & (chance <= _SELDOM)
    return jnp.where(is_relaxed, 1.0 / (1.0 + points * chance / (1.0 - chance)), 1.0)


def _chance_of_staying(transfer: Transfer, plan: Plan) -> Float[Array, "Z n"]:
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
    return chance


def is_small(block: Float[Array, "m q"], stays: Staying) -> bool:
    """Whether what z reads from itself may be written down as a matrix and factorised.

    Derivatives need that where one stays for ever; a solve by itself only takes more steps.
    """
    return len(block) <= (_DENSE_UP_TO if stays.stuck is None else _DENSE_ALONE)


def staying_matrix(own: Reads, size: int) -> Float[Array, "m m"]:
    """I - (what z reads from itself)."""
    identity = jnp.eye(size)
    return identity - own(lambda _: identity)
