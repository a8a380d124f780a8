"""What a coarse grid of beliefs knows already: the first correction of a solve.

Whether a start is far from V = T V, or off by what a small move of theta has changed, most of what
it is off by is smooth in the belief. So Newton's method first finds W on a grid with a tenth of the
nodes (each step there costs a tenth), with the right-hand side for which the start itself would be
the answer if nothing were left of it (the full approximation scheme of multigrid methods):

    W - T_c W = R V - T_c R V + R (T V - V),    V <- V + P (W - R V).

R and P carry a function from one grid to the other. A poor correction costs time, not accuracy.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator, Transfer, bellman_operator
from pomdpfit._schemes import AbstractScheme
from pomdpfit._stencil_reads import read_slot
from pomdpfit._types import Array, Float
from pomdpfit.solvers._base import size

_TIMES_COARSER = 10
_FEWEST = 4  # cells on an edge of the coarse grid
_WORTH_IT = 16  # cells on an edge of the grid itself
_LEAVE = 0.03  # of the residual before the last step, which leaves about the square of that
_MOST_STEPS = 30

Field = Float[Array, "Z n c"]


def coarser(scheme: AbstractScheme) -> AbstractScheme | None:
    """The grid to begin with; None where there is little to gain."""
    if scheme.resolution < _WORTH_IT:
        return None
    return type(scheme)(max(_FEWEST, round(scheme.resolution / _TIMES_COARSER)) + 1)


class _State(NamedTuple):
    coefficients: Field
    shift: Field  # of T_c: what makes V's own gap that of R V
    residual: Array  # before the last step
    steps: Array


def coarse_correction(
    operator: BellmanOperator,
    coefficients: Field,
    gap: Field,
    coarse: AbstractScheme,
    step: Callable[[Transfer, Field], Field],
) -> Field:
    """P (W - R V), of V that T leaves this gap; zero where W could not be had."""
    fine, states = operator.scheme, operator.primitives.states
    below = bellman_operator(operator.primitives, coarse)
    down, up = (_carried(fine, coarse, states), _carried(coarse, fine, states))
    start, asked = down(coefficients), down(gap)

    def body(state: _State) -> _State:
        image, transfer = evaluated(below, state.coefficients)
        shift = jnp.where(state.steps == 0, start - image + asked, state.shift)
        left = image + shift - state.coefficients
        better = state.coefficients + step(transfer, left)
        return _State(better, shift, size(left), state.steps + 1)

    def proceed(state: _State) -> Array:
        return (state.residual > _LEAVE * size(asked)) & (state.steps < _MOST_STEPS)

    first = _State(start, jnp.zeros_like(start), jnp.asarray(jnp.inf), jnp.asarray(0))
    change = up(jax.lax.while_loop(proceed, body, first).coefficients - start)
    return jnp.where(jnp.isfinite(size(change)), change, 0.0)


def evaluated(operator: BellmanOperator, coefficients: Field) -> tuple[Field, Transfer]:
    """T V and T'(V), kept: the compiler would else compute them anew for each of their uses."""
    image, transfer = operator.with_derivative(coefficients)
    image, share, turn = jax.lax.optimization_barrier((image, transfer.share, transfer.turn))
    return image, Transfer(transfer.stencil, share, turn, transfer.discount)


def _carried(scheme: AbstractScheme, to: AbstractScheme, states: int) -> Callable[[Field], Field]:
    """The coefficients on another grid of a function that is stored on this one."""
    position, weight = scheme.carried(to, states)
    return lambda d: read_slot(d.reshape(len(d), -1), position, weight)
