"""Solving d - T'(V) d = b for many b at once, and its transpose: what is behind every derivative.

What Newton's method uses as a step is used here as a preconditioner and refined until the residual
is gone: d <- d + (about (I - T')^-1) (b - d + T' d). Whatever the plan, the answer is that of the
exact T'(V), or NaN.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from pomdpfit._bellman import Transfer
from pomdpfit._kernel import Kernel
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float
from pomdpfit.solvers._base import raised, size
from pomdpfit.solvers._coarse import coarse_improvement
from pomdpfit.solvers._krylov import krylov
from pomdpfit.solvers._lu import factored, solve
from pomdpfit.solvers._ordered import beside, reset_columns, sweep, with_resets
from pomdpfit.solvers._ordered_back import reset_rows, sweep_back, with_resets_back
from pomdpfit.solvers._plan import Plan
from pomdpfit.solvers._staying import staying

_DENSE_UP_TO = 400
_LEAVE = 1e-9  # of an error, by a sweep: passes cost less than a second sweep
_LEAVE_BACK = 1e-10  # by one backwards, which leaves more than this says
_MOST_REFINEMENTS = 1000
_PATIENCE = 30  # refinements that bring nothing
_INNER = 1e-4  # of a refinement by Krylov's method
_WORST_RESIDUAL = 1e-8  # relative, of a system behind a derivative

Many = Float[Array, "Z n c q"]


def many_solver(
    transfer: Transfer, kernel: Kernel, scheme: AbstractScheme, plan: Plan, tolerance: float
) -> Callable[[Many], Many]:
    """(I - T'(V))^-1 of every column, NaN where that could not be had; what can be, is prepared."""
    apply = jax.vmap(transfer, -1, -1)
    shape = kernel.observations, scheme.size(kernel.states), scheme.coefficients
    if math.prod(shape) <= _DENSE_UP_TO:
        by_lu = factored(_matrix(apply, shape))
        return lambda right: by_lu(right.reshape(-1, right.shape[-1])).reshape(right.shape)
    if plan.order is not None:
        stays = staying(transfer, plan, _LEAVE)
        swept = lambda right: sweep(transfer, plan, right, stays, one_run=True)
        improve = _beside(swept, reset_columns(transfer), functools.partial(with_resets, transfer))
    else:
        coarsely = coarse_improvement(transfer, kernel, scheme)
        improve = jax.vmap(lambda left: krylov(transfer, coarsely, left, _INNER), -1, -1)
    level = _level(transfer.discount)
    return lambda right: _refined(apply, improve, level, right, tolerance)


def solve_back(
    transfer: Transfer,
    right: Float[Array, "Z n c"],
    kernel: Kernel,
    scheme: AbstractScheme,
    plan: Plan,
    tolerance: float,
) -> Float[Array, "Z n c"]:
    """(I - T'(V))^-T right; NaN where that could not be had."""
    if right.size <= _DENSE_UP_TO:
        matrix = _matrix(jax.vmap(transfer, -1, -1), right.shape)
        return solve(matrix.T, right.reshape(-1)).reshape(right.shape)
    if plan.order is not None:
        stays = staying(transfer, plan, _LEAVE_BACK)
        swept = lambda left: sweep_back(transfer, plan, left, stays)
        joined = functools.partial(with_resets_back, transfer)
        improve = _beside(swept, reset_rows(transfer), joined)
    else:
        coarsely = _transposed(coarse_improvement(transfer, kernel, scheme), right)
        improve = _one_column(lambda left: krylov(transfer.back, coarsely, left, _INNER))
    as_it_is: Callable = lambda d, left: (d, left)
    back = _one_column(transfer.back)
    return _refined(back, improve, as_it_is, right[..., None], tolerance)[..., 0]


def _transposed(linear: Callable, like: Array) -> Callable:
    # Not `jax.linear_transpose`, which does not know the rules that are written for derivatives.
    transpose = jax.vjp(linear, jnp.zeros_like(like))[1]
    return lambda d: transpose(d)[0]


def _beside(
    swept: Callable[[Many], Many], resets: Many, joined: Callable[[Many, Many], Many]
) -> Callable[[Many], Many]:
    """Sweeps of what is left and of the resets together, each time: so a program has one sweep.

    Swept once and kept, the resets would be a second one, and compile for as long as the first.
    """

    def improve(left: Many) -> Many:
        q = left.shape[-1]
        both = swept(beside(left, resets))
        return joined(both[..., :q], both[..., q:])

    return improve


def _one_column(linear: Callable) -> Callable[[Many], Many]:
    return lambda d: linear(d[..., 0])[..., None]


def _matrix(apply: Callable[[Many], Many], shape: tuple[int, ...]) -> Float[Array, "m m"]:
    """I - T'(V), written out."""
    m = math.prod(shape)
    return jnp.eye(m) - apply(jnp.eye(m).reshape(*shape, m)).reshape(m, m)


def _level(discount: Float[Array, ""]) -> Callable[[Many, Many], tuple[Many, Many]]:
    """Constants are known exactly: (I - T') 1 = (1 - beta) 1."""

    def level(d: Many, left: Many) -> tuple[Many, Many]:
        value = left[:, :, 0]
        middle = 0.5 * (value.max(axis=(0, 1)) + value.min(axis=(0, 1)))
        return raised(d, middle / (1.0 - discount)), raised(left, -middle)

    return level


def _refined(
    apply: Callable[[Many], Many],
    improve: Callable[[Many], Many],
    level: Callable[[Many, Many], tuple[Many, Many]],
    right: Many,
    tolerance: float,
) -> Many:
    """d until what is left of `right` is below the tolerance, or does not get smaller."""
    scale = jnp.maximum(size(right, (0, 1, 2)), jnp.finfo(right.dtype).tiny)

    def worst(left: Many) -> Array:
        return jnp.max(size(left, (0, 1, 2)) / scale)

    def body(state: tuple) -> tuple:
        d, left, _, least, sweeps, idle = state
        d, left = level(d, left)
        d = d + improve(left)
        left = right - d + apply(d)
        now = worst(left)
        idle = jnp.where(now < 0.5 * least, 0, idle + 1)
        return d, left, now, jnp.minimum(now, least), sweeps + 1, idle

    def proceed(state: tuple) -> Array:
        _, _, now, _, sweeps, idle = state
        patience = jnp.where(now <= _WORST_RESIDUAL, 1, _PATIENCE)  # what is left may be rounding
        return (
            (now > tolerance) & (sweeps < _MOST_REFINEMENTS) & (idle < patience) & jnp.isfinite(now)
        )

    zero, big = jnp.zeros_like(right), jnp.asarray(jnp.inf)
    first = (zero, right, jnp.asarray(1.0), big, jnp.asarray(0), jnp.asarray(0))
    d, _, now, *_ = jax.lax.while_loop(proceed, body, first)
    return jnp.where(now <= _WORST_RESIDUAL, d, jnp.nan)
