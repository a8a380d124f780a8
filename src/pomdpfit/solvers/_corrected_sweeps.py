"""Value iteration with coarse Newton corrections, accelerated: for models without an order.

g(V) = T V + P (I - T'_c)^-1 R (T T V - T V): a sweep, and what it leaves at the coarse nodes taken
out by polynomials (see `_coarse`). What converges slowly even so is extrapolated from the last few
steps (Anderson's mixing): V <- g(V) - sum_j gamma_j (change of g in step j), with gamma such that
the same combination of changes of g(V) - V comes closest to g(V) - V.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator
from pomdpfit._types import Array, Float, Int
from pomdpfit.solvers._base import SolverState, size, unsolved
from pomdpfit.solvers._coarse import Coarse

_SAME_POLICY = 1e-3  # shares of actions that have moved less keep the factors of the coarse system
_DEPTH = 8  # steps that are remembered
_RIDGE = 1e-13  # of the squared length of a change: what rounding leaves to be fitted
_WORSE = 2.0  # a residual that has grown so much since the last step: begin afresh
_PATIENCE = 50  # steps without a smaller residual, after which all this is given up


class _State(NamedTuple):
    coefficients: Float[Array, "Z n c"]
    image: Float[Array, "Z n c"]
    steps: Int[Array, ""]
    least: Float[Array, ""]  # residual so far, and for how many steps it has not been beaten
    idle: Int[Array, ""]
    share: Float[Array, "Z A m"]  # for which the coarse system was factorised
    inverse: Float[Array, "u u"]
    memory: "_Memory"


class _Memory(NamedTuple):
    """The last changes of g(V) and of g(V) - V, and the last two of them whole."""

    moved: Float[Array, "depth N"]
    changed: Float[Array, "depth N"]
    mapped: Float[Array, "N"]
    off: Float[Array, "N"]
    length: Int[Array, ""]


def corrected_sweeps(
    operator: BellmanOperator, coarse: Coarse, start: Array, tolerance: float, max_steps: int
) -> SolverState:
    """One evaluation of T a step, one at the coarse nodes, and now and then a small LU."""
    here, at = coarse.restrict(operator), jnp.asarray(coarse.nodes)
    beta = operator.primitives.discount

    def body(state: _State) -> _State:
        swept = state.image
        image, transfer = here.with_derivative(swept)
        share, inverse = jax.lax.cond(
            jnp.max(jnp.abs(transfer.share - state.share)) > _SAME_POLICY,
            lambda: (transfer.share, coarse.inverse(transfer.share)),
            lambda: (state.share, state.inverse),
        )
        left = (image - swept[:, at])[..., 0]
        mapped = swept + coarse.correction(inverse, left)
        new, memory = _mixed(state.memory, state.coefficients, mapped)
        # MacQueen's extrapolation alone, should corrections lead nowhere.
        middle = 0.5 * (jnp.max(left) + jnp.min(left))
        plain = swept.at[..., 0].add(middle / (1.0 - beta))
        new = jnp.where((state.idle > _PATIENCE) | ~jnp.all(jnp.isfinite(new)), plain, new)
        image = operator(new)
        residual = size(image - new)
        idle = jnp.where(residual < state.least, 0, state.idle + 1)
        idle = jnp.where(state.idle > _PATIENCE, state.idle, idle)  # once and for all
        least = jnp.minimum(residual, state.least)
        worse = residual > _WORSE * size(state.image - state.coefficients)
        memory = memory._replace(length=jnp.where(worse, 0, memory.length))
        return _State(new, image, state.steps + 1, least, idle, share, inverse, memory)

    def proceed(state: _State) -> Array:
        return unsolved(state.coefficients, state.image, state.steps, tolerance, max_steps)

    end = jax.lax.while_loop(proceed, body, _first(operator, coarse, start))
    return SolverState(end.coefficients, size(end.image - end.coefficients), end.steps)


def _first(operator: BellmanOperator, coarse: Coarse, start: Array) -> _State:
    image, zero = operator(start), jnp.asarray(0)
    Z, unknowns = len(start), len(start) * len(coarse.nodes)
    nowhere = jnp.full((Z, operator.reward.shape[1], len(coarse.nodes)), -1.0)
    rows, flat = jnp.zeros((_DEPTH, start.size)), jnp.zeros(start.size)
    return _State(
        start,
        image,
        zero,
        size(image - start),
        zero,
        nowhere,
        jnp.zeros((unknowns, unknowns)),
        _Memory(rows, rows, flat, flat, zero),
    )


def _mixed(
    memory: _Memory, coefficients: Float[Array, "Z n c"], mapped: Float[Array, "Z n c"]
) -> tuple[Float[Array, "Z n c"], _Memory]:
    """Anderson's next point, and the memory with this step in it."""
    g = mapped.reshape(-1)
    off = mapped - coefficients
    # The level of V is known least, by 1 / (1 - beta), and the coarse step finds it anyway.
    off = off.at[..., 0].add(-off[..., 0].mean()).reshape(-1)
    slot = (memory.length - 1) % _DEPTH
    known = memory.length > 0
    write = lambda rows, row: rows.at[slot].set(jnp.where(known, row, rows[slot]))
    moved = write(memory.moved, g - memory.mapped)
    changed = write(memory.changed, off - memory.off)
    used = (jnp.arange(_DEPTH) < memory.length)[:, None]  # of others the norm is infinite
    # Changes shrink as steps go on: rows of unit length keep the old ones from drowning the new.
    norm = jnp.sqrt((changed**2).sum(axis=1, keepdims=True))
    norm = jnp.where(used & (norm > 0), norm, jnp.inf)
    rows, steps = changed / norm, moved / norm
    gamma = jnp.linalg.solve(rows @ rows.T + _RIDGE * jnp.eye(_DEPTH), rows @ off)
    new = g - gamma @ steps
    return new.reshape(mapped.shape), _Memory(moved, changed, g, off, memory.length + 1)
