"""Bayes' rule along panels where no number is too small for it, with its reverse mode.

    x_{t+1} = x_t P_t / sigma_t,    sigma_t = sum_s' (x_t P_t)(s')

Of a function with derivatives b_t in x_t and l_t in log sigma_t, the derivative in the mass
x_t P_t is, from the last period back,

    m_t = (y_{t+1} + l_t - <y_{t+1}, x_{t+1}>) / sigma_t,    y_t = b_t + P_t m_t

and the one in P_t is the outer product of x_t and m_t. `_scaled_belief` does the same whatever the
sizes, at several times the cost; whether that is called for is told by `Path.lost`, at the end.
States come first and agents last, which is how the processor likes it.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from pomdpfit._scaled_belief import underflows
from pomdpfit._term_by_term import term_by_term
from pomdpfit._types import Array, Bool, Float, Int

_ROWS_AT_ONCE = 2**16  # what fits the caches
_Total = TypeVar("_Total")
_Rows = TypeVar("_Rows")
_Found = TypeVar("_Found")


class Path(NamedTuple):
    """Beliefs before each move, the chance of what was seen then, and beliefs at the end."""

    x: Float[Array, "T S N"]
    sigma: Float[Array, "T N"]
    last: Float[Array, "S N"]

    @property
    def log_sigma(self) -> Float[Array, "T N"]:
        """log P(z' | history); minus infinity where z' is impossible."""
        possible = self.sigma > 0
        return jnp.where(possible, jnp.log(jnp.where(possible, self.sigma, 1.0)), -jnp.inf)

    def lost(self, matrices: Float[Array, "M S S"]) -> Bool[Array, ""]:
        """Whether a number is so small that products of two may not be floats."""
        return functools.reduce(jnp.logical_or, map(underflows, (matrices, *self)))


def follow(
    matrices: Float[Array, "M S S"], places: Int[Array, "T N"], x0: Float[Array, "N S"]
) -> Path:
    """From x0, by the matrix at each row's place; what is impossible leaves a belief of zeros."""

    def step(x: Float[Array, "S N"], place: Int[Array, "N"]) -> tuple[Array, tuple]:
        P = jnp.moveaxis(matrices[place], 0, -1)
        mass = term_by_term(belief * row for belief, row in zip(x, P, strict=True))
        sigma = term_by_term(mass)
        return mass / jnp.where(sigma > 0, sigma, 1.0), (x, sigma)

    last, (x, sigma) = jax.lax.scan(step, x0.T, places)
    return Path(x, sigma, last)


def pull_back(
    matrices: Float[Array, "M S S"],
    places: Int[Array, "T N"],
    path: Path,
    by_x: tuple[Float[Array, "T N"], ...],
    by_log_sigma: Float[Array, "T N"],
) -> tuple[Float[Array, "T S N"], Float[Array, "S N"]]:
    """m_t of every period, and the derivative in x0; b_t is given state by state."""
    possible = path.sigma > 0
    per_sigma = 1.0 / jnp.where(possible, path.sigma, 1.0)
    by_log_sigma = jnp.where(possible, by_log_sigma, 0.0)

    def step(carried: tuple[Array, Array], row: tuple) -> tuple[tuple[Array, Array], Array]:
        y, following = carried
        place, x, inverse, b, l = row
        m = (y + (l - term_by_term(y * following))) * inverse
        P = jnp.moveaxis(matrices[place], 0, -1)
        return (jnp.stack(b) + term_by_term(P[:, k] * each for k, each in enumerate(m)), x), m

    rows = places, path.x, per_sigma, by_x, by_log_sigma
    (by_x0, _), by_mass = jax.lax.scan(
        step, (jnp.zeros_like(path.last), path.last), rows, reverse=True
    )
    return by_mass, by_x0


def by_matrices(
    like: Float[Array, "M S S"],
    places: Int[Array, "T N"],
    x: Float[Array, "T S N"],
    by_mass: Float[Array, "T S N"],
) -> Float[Array, "M S S"]:
    """The derivative in the table: outer products, added up place by place."""

    def add(total: Array, row: tuple[Array, Array, Array]) -> tuple[Array, None]:
        place, x, m = row
        outer = jnp.moveaxis(x, -2, -1)[..., :, None] * jnp.moveaxis(m, -2, -1)[..., None, :]
        return total.at[place].add(outer), None

    return over_periods(add, jnp.zeros_like(like), (places, x, by_mass))[0]


def over_periods(
    step: Callable[[_Total, _Rows], tuple[_Total, _Found]], none: _Total, rows: _Rows
) -> tuple[_Total, _Found]:
    """A scan over periods; where rows are few, the step with all of them at once."""
    first, *_ = jax.tree.leaves(rows)
    return step(none, rows) if first.size <= _ROWS_AT_ONCE else jax.lax.scan(step, none, rows)
