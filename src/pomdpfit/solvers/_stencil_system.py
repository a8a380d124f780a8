"""Solving (I - T'(V)) d = b: the linear step inside Newton's method and behind every derivative.

Small systems are factorised whole. Large ones use GMRES around one ordered sweep over the
observations: block Gauss-Seidel in the plan's order, with the blocks of sticky observations
inverted densely and those of the others handled by a few passes. What the sweep leaves out is the
return from a reset, which is of low rank, so that few Krylov steps remain. T'(V) is the exact one
throughout: the sweep only preconditions.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._stencil import Stencil
from pomdpfit._types import Array, Float
from pomdpfit.solvers._lu import factored, inverse
from pomdpfit.solvers._plan import Plan

_DENSE_UP_TO = 1200
_STICKY_UP_TO = 1200  # coefficients in one observation's block that is inverted densely
_PASSES = 3
_WORST_RESIDUAL = 1e-8  # relative, of a system behind a derivative


def apply(derivative: Stencil, d: Float[Array, "Z n c"]) -> Float[Array, "Z n c"]:
    """T'(V) d."""
    return jnp.einsum("zaknv,zaknvc->znc", derivative.gather(d), derivative.weight)


def linear_solver(
    derivative: Stencil, plan: Plan, tolerance: float, *, transposable: bool = False
) -> Callable[[Array], Array]:
    """A function b -> (I - T'(V))^-1 b, for any number of b; if asked for, one to transpose."""
    rows, _, _, n, _, c = derivative.weight.shape
    if rows * n * c <= _DENSE_UP_TO:
        return _dense(derivative)
    return _swept(derivative, plan, tolerance, transposable)


def _dense(derivative: Stencil) -> Callable[[Array], Array]:
    """LU of the whole system."""
    Z, _, _, n, _, c = derivative.weight.shape
    size = Z * n * c
    rows = jnp.arange(size).reshape(Z, 1, 1, n, 1, c)
    columns = derivative.successors[..., None, None] * (n * c) + derivative.position
    index = tuple(
        jnp.broadcast_to(part, derivative.weight.shape) for part in (rows, columns[..., None])
    )
    matrix = jnp.eye(size) - jnp.zeros((size, size)).at[index].add(derivative.weight)
    solve = factored(matrix)
    return lambda b: solve(b.reshape(-1)).reshape(Z, n, c)


def _swept(
    derivative: Stencil, plan: Plan, tolerance: float, transposable: bool
) -> Callable[[Array], Array]:
    """GMRES preconditioned by the ordered sweep; transposition runs the transposed sweep."""
    sweep = _sweep(derivative, plan)

    def matvec(d: Array) -> Array:
        return d - apply(derivative, d)

    def gmres(matvec: Callable, sweep: Callable, b: Array) -> Array:
        return jax.scipy.sparse.linalg.gmres(
            matvec, b, M=sweep, tol=tolerance, restart=20, maxiter=10, solve_method="incremental"
        )[0]

    def solve(matvec: Callable, b: Array) -> Array:
        return _or_nan(matvec, gmres(matvec, sweep, b), b)

    def transpose_solve(matvec_transposed: Callable, b: Array) -> Array:
        turned = jax.linear_transpose(sweep, b)
        return _or_nan(matvec_transposed, gmres(matvec_transposed, lambda r: turned(r)[0], b), b)

    if not transposable:  # as inside Newton's method, whose residual shows what went wrong
        return lambda b: gmres(matvec, sweep, b)
    return lambda b: jax.lax.custom_linear_solve(matvec, b, solve, transpose_solve)


def _or_nan(matvec: Callable, d: Array, b: Array) -> Array:
    """d if it solves the system, else NaN: a derivative must not be wrong in silence."""
    off = jnp.max(jnp.abs(matvec(d) - b))
    return jnp.where(off <= _WORST_RESIDUAL * jnp.max(jnp.abs(b)), d, jnp.nan)


def _sweep(derivative: Stencil, plan: Plan) -> Callable[[Array], Array]:
    """One block Gauss-Seidel sweep: approximately (I - T'(V))^-1, without the way back."""
    Z, _, _, n, _, c = derivative.weight.shape
    size = n * c
    order = np.arange(Z) if plan.order is None else np.array(plan.order)
    rank = jnp.asarray(np.argsort(order))
    sticky = order[: plan.sticky] if size <= _STICKY_UP_TO else order[:0]
    slot = np.full(Z, -1)
    slot[sticky] = np.arange(len(sticky))
    inverses = _own_inverses(derivative, sticky)
    # Everything that the sweep reads, laid out in its order: edges first, nodes last.
    successors = derivative.successors[order]
    position = jnp.moveaxis(derivative.position[order], 3, -1)
    weight = jnp.moveaxis(derivative.weight[order], (3, 5), (-1, -2))
    solved_before = rank[successors] < jnp.arange(Z)[:, None, None]
    is_own = successors == order[:, None, None]
    rows = (
        jnp.asarray(order),
        jnp.asarray(slot[order]),
        successors[..., None, None] * size + position,
        jnp.where(solved_before[..., None, None, None], weight, 0.0),
        position,
        jnp.where(is_own[..., None, None, None], weight, 0.0),
    )

    def add_up(gathered: Array, weight: Array) -> Array:
        return (gathered[..., None, :] * weight).sum(axis=(0, 1, 2)).T.reshape(size)

    def step(d: Array, row: tuple) -> tuple[Array, None]:
        z, which, reads, known, position, own = row
        right = d[z] + add_up(d.reshape(-1)[reads], known)

        def few_passes(right: Array) -> Array:
            # A loop, not three lines: unrolled, the compiler would fuse each pass into all the
            # reads of the next and do its work many times over.
            def once(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
                new, right = state
                return (right + add_up(new[position], own), right), None

            return jax.lax.scan(once, (right, right), None, length=_PASSES)[0][0]

        if len(sticky) == 0:
            new = few_passes(right)
        else:
            new = jax.lax.cond(which >= 0, lambda r: inverses[which] @ r, few_passes, right)
        return d.at[z].set(new), None

    def sweep(b: Array) -> Array:
        return jax.lax.scan(step, b.reshape(Z, size), rows)[0].reshape(Z, n, c)

    return sweep


def _own_inverses(derivative: Stencil, sticky: np.ndarray) -> Float[Array, "B m m"]:
    """(I - T'(V)_zz)^-1 for each sticky z."""
    n, c = derivative.weight.shape[3], derivative.weight.shape[5]
    size = n * c
    own = (derivative.successors[sticky] == sticky[:, None, None])[..., None, None, None]
    weight = jnp.where(own, derivative.weight[sticky], 0.0)
    position = derivative.position[sticky]

    def block(position: Array, weight: Array) -> Array:
        rows = jnp.arange(size).reshape(n, 1, c)
        index = (
            jnp.broadcast_to(rows, weight.shape),
            jnp.broadcast_to(position[..., None], weight.shape),
        )
        return inverse(jnp.eye(size) - jnp.zeros((size, size)).at[index].add(weight))

    return jax.vmap(block)(position, weight)
