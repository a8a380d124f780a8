"""Making a certificate: levels for any model, differences where something resets."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import (
    BellmanOperator,
    bellman_operator,
    memory_needed,
    refuse_if_too_large,
)
from pomdpfit._errors import ModelError, SolveError
from pomdpfit._fixed_point import cold_start, solve_infinite
from pomdpfit._kernel import Kernel
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme, Linear
from pomdpfit._types import Array
from pomdpfit.certificate import _cells, _levels, _regeneration
from pomdpfit.certificate._certificate import Certificate, Relative
from pomdpfit.solvers import Newton, make_plan

# Sums of probabilities may miss one by rounding, which the allowances cover, and by no more.
_MASS_TOLERANCE = 1e-14


def certify_primitives(primitives: Primitives, nodes: int) -> Certificate:
    """Solve the linear scheme on `nodes` nodes an edge and bound the truth around it."""
    grid = Linear(nodes)
    refuse_if_too_large(primitives, grid, "the certificate", _memory_needed)
    primitives = eqx.tree_at(lambda p: p.kernel, primitives, _exact_kernel(primitives))
    if primitives.horizon is not None:
        by_epoch = _certify_finite(primitives, grid)
        levels = _tables(grid, *(part.reshape(-1, *part.shape[2:]) for part in by_epoch))
        return Certificate(*levels, primitives, None, "the horizon is finite")
    plan = make_plan(primitives.kernel)
    upper, alpha, value, rho, operator = _certify_levels(primitives, grid, plan)
    levels = _tables(grid, upper, alpha)
    relative, reason = _relative(primitives, *levels, operator, value, rho)
    return Certificate(*levels, primitives, relative, reason)


def _memory_needed(primitives: Primitives, grid: AbstractScheme) -> int:
    """Bytes for the operator, the vectors that each next cell offers, and the search for the best.

    The factors are those of measured peaks, rounded up.
    """
    S, A, K = primitives.states, primitives.actions, primitives.kernel.successors.shape[2]
    n = grid.size(S)
    vectors = primitives.observations * A * K * n * S * S
    epochs = primitives.horizon or 1
    kept = epochs * primitives.observations * n * (1 + S)
    return memory_needed(primitives, grid) + 8 * (16 * vectors + 3 * n * n + 4 * kept)


def _tables(grid: Linear, upper: Array, alpha: Array) -> tuple[_levels.Upper, _levels.Lower]:
    """Both bounds as functions, if they are numbers."""
    if not bool(jnp.isfinite(upper).all() & jnp.isfinite(alpha).all()):
        raise SolveError("no certificate: the linear scheme was not solved at this theta.")
    return _levels.Upper(upper, grid), _levels.Lower(alpha, grid)


def _exact_kernel(primitives: Primitives) -> Kernel:
    """The kernel with as many rows of successors as of probabilities, if it sums to one exactly."""
    kernel = primitives.kernel
    probability = np.asarray(kernel.probability)
    off = np.abs(probability.sum(axis=(2, 4)) - 1.0) > _MASS_TOLERANCE
    if primitives.available is not None:
        off = off & np.asarray(primitives.available)[:, :, None]
    if off.any():
        z, a, s = (int(i) for i in np.argwhere(off)[0])
        raise ModelError(
            f"no certificate: the kernel at (z={z}, s={s}, a={a}) does not sum to 1 up to "
            "rounding. Derive one entry of each row of probabilities from the others."
        )
    rows = max(len(kernel.successors), len(probability))
    shape = (rows, *kernel.successors.shape[1:])
    return Kernel(
        jnp.broadcast_to(jnp.asarray(kernel.successors), shape),
        jnp.broadcast_to(jnp.asarray(probability), (*shape, *probability.shape[3:])),
        kernel.observations,
        kernel.patterns,
    )


@eqx.filter_jit
def _certify_finite(primitives: Primitives, grid: Linear):  # type: ignore[no-untyped-def]
    return _levels.finite_levels(primitives, grid, bellman_operator(primitives, grid))


@eqx.filter_jit
def _certify_levels(primitives: Primitives, grid: Linear, plan):  # type: ignore[no-untyped-def]
    operator = bellman_operator(primitives, grid)
    solver = Newton(tolerance=0.0, max_steps=30)  # as far as rounding allows
    state = solve_infinite(primitives, grid, solver, plan, cold_start(primitives, grid))
    value = state.coefficients[..., 0]
    if primitives.states == 2:
        value = _cells.convexified(value, grid.resolution)
    upper, rho = _levels.upper_bound(operator, value)
    alpha = _levels.lower_bound(primitives, grid, operator, value, plan)
    return upper, alpha, value, rho, operator


def _relative(
    primitives: Primitives,
    upper: _levels.Upper,
    lower: _levels.Lower,
    operator: BellmanOperator,
    value: Array,
    rho: Array,
) -> tuple[Relative | None, str]:
    """Bounds by regeneration where there is a reset and |S| = 2; else None and the reason."""
    if primitives.states != 2:
        return None, f"bounds by regeneration are proven for |S| = 2, not {primitives.states}"
    reset = _regeneration.reset_action(primitives.kernel, primitives.available)
    if reset is None:
        return None, "no action resets (z, s) to one law whatever came before"
    law = tuple(map(jnp.asarray, _regeneration.reset_law(primitives.kernel, reset)))
    at_reset = jnp.maximum((upper(*law) - lower(*law)).sum(), 0.0)
    at_reset = at_reset + _levels.rounding(upper.table, lower.alpha)
    above, share, found = _bounds_to_reset(
        primitives, upper.grid, operator, value, rho, at_reset, reset
    )
    if not bool(found):
        return None, "the time to a reset is too long for its bounds to close on this grid"
    tables = _levels.Upper(above, upper.grid), _levels.Upper(share, upper.grid)
    return Relative(*tables, at_reset, reset), ""


@eqx.filter_jit
def _bounds_to_reset(primitives, grid, operator, value, rho, at_reset, reset):  # type: ignore[no-untyped-def]
    """S, whether it is proven, and G, which is one at the most."""
    bounds = _cells.cell_bounds(primitives, grid, value, rho)
    stencil = operator.stencil.plain()
    choice = _regeneration.highest_choice(primitives, bounds, 0.0)
    until_reset = _regeneration.recursion(primitives, stencil, bounds.gap, choice, reset)
    above, proven = _regeneration.supersolution(until_reset)
    # The true q lies below q_U by no more than beta times the largest D.
    slack = primitives.discount * (at_reset + jnp.max(above))
    choice = _regeneration.highest_choice(primitives, bounds, slack)
    each_period = jnp.full_like(bounds.gap, 1.0) * (1.0 - primitives.discount)
    discounting = _regeneration.recursion(primitives, stencil, each_period, choice, reset)
    share, found = _regeneration.supersolution(discounting)
    return above, jnp.where(found, share, 1.0), proven
