"""(I - T'(V))^-T where observations move one way: the sweep of `_ordered`, run backwards.

What the forward sweep reads from its successors, this one hands on to them: it begins where the
other ends, settles one observation at a time and adds to those it reads what it owes them.
Resets, again by Woodbury: (L - u g)^-T b = L^-T b + L^-T g' (1 - u' L^-T g')^-1 u' L^-T b.
"""

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import Transfer
from pomdpfit._types import Array, Float
from pomdpfit.solvers._base import Count
from pomdpfit.solvers._lu import solve
from pomdpfit.solvers._ordered import reset_columns
from pomdpfit.solvers._plan import Plan
from pomdpfit.solvers._reads import (
    Reads,
    Run,
    reads_ahead,
    reads_own,
    resets,
    row_at,
    runs,
    single,
    with_row,
)
from pomdpfit.solvers._staying import Staying, correction, is_small, staying_matrix


def reset_rows(transfer: Transfer) -> Float[Array, "Z n c R"]:
    """g': with what weight the value after each reset reads every coefficient."""
    Z, _, n = transfer.share.shape
    c = 1 if transfer.turn is None else 2
    rows = []
    for piece in resets(transfer):
        for b in range(len(piece.actions)):
            at = piece.successors[0, b, :, None], piece.position[0, b, :, 0]
            rows.append(jnp.zeros((Z, n * c)).at[at].add(piece.weight[0, b, :, 0, :, 0]))
    stacked = jnp.stack(rows, axis=-1) if rows else jnp.zeros((Z, n * c, 0))
    return stacked.reshape(Z, n, c, len(rows))


def with_resets_back(
    transfer: Transfer, swept: Float[Array, "Z n c q"], rows: Float[Array, "Z n c R"]
) -> Float[Array, "Z n c q"]:
    """Woodbury's formula, from L^-T b and L^-T g'."""
    if rows.shape[-1] == 0:
        return swept
    worth = lambda d: jnp.tensordot(reset_columns(transfer), d, ([0, 1, 2], [0, 1, 2]))
    after = solve(jnp.eye(rows.shape[-1]) - worth(rows), worth(swept))
    return swept + sum(rows[..., r, None] * after[r] for r in range(len(after)))


def sweep_back(
    transfer: Transfer, plan: Plan, right: Float[Array, "Z n c q"], stays: Staying
) -> Float[Array, "Z n c q"]:
    """L^-T right, up to what the passes leave."""
    Z, n, c, q = right.shape
    order = np.array(plan.order)
    d = right.reshape(Z, n * c, q)

    def settle(d: Array, z: Array | int, block: Array, run: Run) -> Array:
        d, ahead = with_row(d, block, z), reads_ahead(transfer, plan, z, run)
        if ahead is None:
            return d
        successor = ahead.successor[:, None, None]
        return d.at[successor, ahead.position].add(ahead.owed(block))

    for run in runs(transfer, plan, one=True):

        def step(d: Array, z: Array, run: Run = run) -> tuple[Array, None]:
            own = reads_own(transfer, plan, z, run)
            return settle(d, z, _passes_back(own, row_at(d, z), stays), run), None

        d = jax.lax.scan(step, d, jnp.asarray(run.observations[::-1]))[0]
    for z in order[: plan.sticky][::-1]:
        alone = single(z, np.argsort(order))
        own = reads_own(transfer, plan, z, alone)
        d = settle(d, z, _stuck_back(own, d[z], stays, z), alone)
    return d.reshape(Z, n, c, q)


def _passes_back(
    own: Reads | None, right: Float[Array, "m q"], stays: Staying
) -> Float[Array, "m q"]:
    """The forward passes transposed."""
    if own is None:
        return right
    corrected = correction(own)

    def improve(k: Count, total: Array) -> Array:
        block = corrected * total
        left = (right - block).at[own.position].add(own.owed(block))
        return total + stays.relaxation(k) * left

    return corrected * stays.over_passes(improve, right)


def _stuck_back(
    own: Reads | None, right: Float[Array, "m q"], stays: Staying, z: int
) -> Float[Array, "m q"]:
    """A block where one may stay for ever: by LU while it is small."""
    if own is None or not is_small(right, stays):
        return _passes_back(own, right, stays.where_stuck(z))
    return solve(staying_matrix(own, len(right)).T, right)
