"""Where one may stay at an observation: how many passes over that chance, and how corrected.

With sigma the discounted chance of staying, an error that belief moves carry to mu times itself
shrinks by sigma mu a plain pass over what z reads from itself, and by sigma (1 - mu) / (1 - sigma)
a corrected one. Corrected passes take away at once what would be the whole error if no belief moved
while one stays, and cannot make any error larger up to sigma = 1/3.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import Transfer
from pomdpfit._types import Array, Float, Int
from pomdpfit.solvers._base import Count
from pomdpfit.solvers._plan import Plan
from pomdpfit.solvers._reads import Reads

_SELDOM = 1 / 3
_MOST_PASSES = 300  # leave 1e-4 of an error at a chance of 0.97
_DENSE_UP_TO = 1200  # coefficients in a block


class Staying(NamedTuple):
    """Passes over the chance of staying at one policy, and what their terms are multiplied by."""

    passes: Int[Array, ""]
    corrections: Float[Array, "Z m"]

    def longer(self, times: Count) -> "Staying":
        """So many times the passes."""
        return self._replace(passes=jnp.minimum(times * self.passes, _MOST_PASSES))


def staying(transfer: Transfer, plan: Plan, leave: float) -> Staying:
    """At the policy of this transfer, not at the model's example: a search may have gone far.

    `leave` is what may be left of the roughest errors; of smooth ones far less is.
    """
    chance = _chance_of_staying(transfer, plan)
    most = chance[np.array(plan.order)[plan.sticky :]].max(initial=0.0)
    c = 1 if transfer.turn is None else 2
    corrected = jnp.where(chance <= _SELDOM, 1.0 / (1.0 - chance), 1.0)
    return Staying(_enough_passes(most, leave), jnp.repeat(corrected, c, axis=1))


def _enough_passes(chance: Float[Array, ""], leave: float) -> Int[Array, ""]:
    """Plain passes are slowest for smooth errors: of those the square of `leave` may be left."""
    inside = jnp.clip(chance, 1e-9, 1 - 1e-9)
    corrected = math.log(leave) / jnp.log(jnp.minimum(inside, _SELDOM) / (1 - inside))
    plain = 2 * math.log(leave) / jnp.log(inside)
    passes = jnp.ceil(jnp.where(chance <= _SELDOM, corrected, plain))
    return jnp.where(chance > 0, jnp.minimum(passes, _MOST_PASSES), 0).astype(int)


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


def staying_matrix(own: Reads, size: int) -> Float[Array, "m m"] | None:
    """I - (what z reads from itself), while it is small enough to be factorised."""
    if size > _DENSE_UP_TO:
        return None
    identity = jnp.eye(size)
    return identity - own(lambda _: identity)
