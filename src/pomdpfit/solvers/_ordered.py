"""(I - T'(V))^-1 where observations move one way: a sweep in their order, and resets of rank one.

Without the resets I - T'(V) is block triangular in the order of the plan. Blocks at the start of
the sweep, where one may stay for ever, are solved densely; the others by a few passes over the
chance of staying. A reset adds to every row a multiple u of one number, what d is worth right
after it: g(d). Woodbury's formula puts it back: with L the triangular part,
(L - u g)^-1 b = L^-1 b + L^-1 u (1 - g L^-1 u)^-1 g L^-1 b.
"""

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import Transfer
from pomdpfit._stencil import Piece
from pomdpfit._types import Array, Float
from pomdpfit.solvers._lu import solve
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
from pomdpfit.solvers._staying import (
    MOST_PASSES,
    Staying,
    correction,
    is_small,
    staying_matrix,
)


def reset_columns(transfer: Transfer) -> Float[Array, "Z n c R"]:
    """u: what one more unit of value after each reset is worth at every node."""
    actions = np.array([a for piece in resets(transfer) for a in piece.actions], dtype=int)
    parts = [transfer.share[:, actions]]
    if transfer.turn is not None:
        parts.append(transfer.turn[:, actions])
    return jnp.moveaxis(jnp.stack(parts, axis=-1), 1, -1)


def beside(
    right: Float[Array, "Z n c q"], resets: Float[Array, "Z n c R"]
) -> Float[Array, "Z n c p"]:
    """Both, for one sweep.

    Put together row by row, as sweeps go through them: else the compiler keeps a second copy.
    """
    Z, n, c, _ = right.shape
    rows = [part.reshape(Z, n * c, part.shape[-1]) for part in (right, resets)]
    both = jnp.concatenate(rows, axis=-1)
    return both.reshape(Z, n, c, both.shape[-1])


def _reset_values(transfer: Transfer, d: Float[Array, "Z n c q"]) -> Float[Array, "R q"]:
    """g: what d is worth right after each reset."""
    rows = d.reshape(len(d), -1, d.shape[-1])

    def read(piece: Piece) -> Float[Array, "B q"]:
        found = rows[piece.successors[0, :, :, None], piece.position[0, :, :, 0]]
        return (found * piece.weight[0, :, :, 0, :, 0, None]).sum(axis=(1, 2))

    return jnp.concatenate([read(piece) for piece in resets(transfer)])


def with_resets(
    transfer: Transfer, swept: Float[Array, "Z n c q"], columns: Float[Array, "Z n c R"]
) -> Float[Array, "Z n c q"]:
    """Woodbury's formula, from L^-1 b and L^-1 u."""
    if columns.shape[-1] == 0:
        return swept
    matrix = jnp.eye(columns.shape[-1]) - _reset_values(transfer, columns)
    after = solve(matrix, _reset_values(transfer, swept))
    return swept + sum(columns[..., r, None] * after[r] for r in range(len(after)))


def sweep(
    transfer: Transfer,
    plan: Plan,
    right: Float[Array, "Z n c q"],
    stays: Staying,
    *,
    one_run: bool = False,
) -> Float[Array, "Z n c q"]:
    """L^-1 right, up to what the passes leave."""
    Z, n, c, q = right.shape
    order = np.array(plan.order)
    d = right.reshape(Z, n * c, q)

    def arriving(d: Array, z: Array | int, run: Run) -> Array:
        ahead = reads_ahead(transfer, plan, z, run)
        here = row_at(d, z)
        return here if ahead is None else here + ahead(lambda k: row_at(d, ahead.successor[k]))

    for z in order[: plan.sticky]:
        alone = single(z, np.argsort(order))
        own = reads_own(transfer, plan, z, alone)
        d = with_row(d, _stuck(own, arriving(d, z, alone), stays, z), z)
    for run in runs(transfer, plan, one=one_run):

        def step(d: Array, z: Array, run: Run = run) -> tuple[Array, None]:
            own = reads_own(transfer, plan, z, run)
            new = _passes(own, arriving(d, z, run), stays)
            return with_row(d, new, z), None

        d = jax.lax.scan(step, d, jnp.asarray(run.observations))[0]
    return d.reshape(Z, n, c, q)


def _passes(own: Reads | None, right: Float[Array, "m q"], stays: Staying) -> Float[Array, "m q"]:
    """(I - what z reads from itself)^-1 right, nearly: Neumann's series, its terms corrected."""
    if own is None:
        return right
    corrected = correction(own)
    left = lambda block: right - block + own(lambda _: block)
    # A loop, not lines: unrolled, the compiler would do the work of each pass in all reads of the
    # next, many times over.
    improve = lambda k, block: block + stays.relaxation(k) * corrected * left(block)
    return stays.over_passes(improve, corrected * right)


def _stuck(
    own: Reads | None, right: Float[Array, "m q"], stays: Staying, z: int
) -> Float[Array, "m q"]:
    """A block where one may stay for ever: by LU while it is small, or passes where they do."""
    if own is None:
        return right
    by_passes = lambda right: _passes(own, right, stays.where_stuck(z))
    if not is_small(right, stays):
        return by_passes(right)
    by_lu = lambda right: solve(staying_matrix(own, len(right)), right)
    if stays.stuck is None:
        return by_lu(right)
    return jax.lax.cond(stays.stuck[z] <= MOST_PASSES, by_passes, by_lu, right)
