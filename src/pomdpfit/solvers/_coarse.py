"""About (I - T'(V))^-1 where there is no order: a sweep, and low polynomials for what it leaves.

Where observations come back without a reset there is no order to sweep in. But what value
iteration is slow to remove is smooth in the belief: a constant, a function of z, a linear function
of a hidden state that seldom changes. So a sweep is followed by a solution in the space of
polynomials of low degree for each z, d(z, x) = sum_j alpha(z, j) B_j(x), with B_j the Bernstein
polynomials, such that d - T'(V) d equals what is left at the nodes that belong to them. What
remains is for Krylov's method (`_krylov`).
"""

import functools
import itertools
import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit import _grid
from pomdpfit._bellman import Transfer
from pomdpfit._kernel import Kernel
from pomdpfit._schemes import AbstractScheme
from pomdpfit._stencil import Piece, SharedStencil
from pomdpfit._types import Array, Float
from pomdpfit.solvers import _lu

_DEGREES = (6, 5, 4, 3, 2, 1)
_FOR_EACH = 7  # polynomials for each z: with more of them a step costs more than it saves
_UNKNOWNS = 400  # of the coarse system: its LU is to cost no more than a few sweeps
_MOST_UNKNOWNS = 2400  # with the lowest degree


def coarse_degree(observations: int, states: int, scheme: AbstractScheme) -> int:
    """The highest degree with nodes of the grid and a small system; 0 where there is none."""
    size = lambda degree: _grid.node_count(states, degree)
    for degree in _DEGREES:
        small = size(degree) <= min(_FOR_EACH, _UNKNOWNS / observations)
        if scheme.resolution % degree == 0 and small:
            return degree
    return 1 if states > 1 and observations * size(1) <= _MOST_UNKNOWNS else 0


class Coarse(eqx.Module):
    """Polynomials on the belief simplex: their values where the kernel leads, and on the grid."""

    ahead: Float[Array, "Z A K m j"]  # sigma_k B_j(lambda_k) at the coarse nodes
    successors: Array
    own: Float[np.ndarray, "m j"]
    spread: Float[np.ndarray, "n c j"]
    nodes: tuple[int, ...] = eqx.field(static=True)  # the coarse nodes, among those of the grid

    def restricted(self, transfer: Transfer) -> Transfer:
        """T'(V) at the coarse nodes alone."""
        at = np.array(self.nodes)
        turn = None if transfer.turn is None else transfer.turn[:, :, at]
        stencil = _at_nodes(transfer.stencil, at)
        return Transfer(stencil, transfer.share[:, :, at], turn, transfer.discount)

    def inverse(self, share: Float[Array, "Z A m"]) -> Float[Array, "u u"]:
        """From residuals at the coarse nodes to coefficients."""
        Z, m = share.shape[0], len(self.nodes)
        leads = share[:, :, None, :, None] * self.ahead
        z, i, j = np.arange(Z)[:, None, None, None, None], *np.ogrid[:m, :m]
        table = jnp.zeros((Z, m, Z, m))
        table = table.at[z, i, self.successors[..., None, None], j].add(leads)
        stays = np.einsum("yz,mj->ymzj", np.eye(Z), self.own)
        return _lu.inverse((stays - table).reshape(Z * m, Z * m))

    def correction(
        self, inverse: Float[Array, "u u"], residual: Float[Array, "Z m"]
    ) -> Float[Array, "Z n c"]:
        """The polynomials that take the residual away, on the grid."""
        alpha = (inverse @ residual.reshape(-1)).reshape(residual.shape)
        return jnp.einsum("zj,ncj->znc", alpha, self.spread)


def coarse_improvement(
    transfer: Transfer, kernel: Kernel, scheme: AbstractScheme
) -> Callable[[Float[Array, "Z n c"]], Float[Array, "Z n c"]]:
    """From what is left of a right-hand side to about what d lacks."""
    degree = coarse_degree(kernel.observations, kernel.states, scheme)
    if degree == 0:
        return lambda left: left
    coarse = make_coarse(kernel, scheme, degree)
    here = coarse.restricted(transfer)
    inverse = coarse.inverse(here.share)
    return lambda left: left + coarse.correction(inverse, here(left)[..., 0])


def make_coarse(kernel: Kernel, scheme: AbstractScheme, degree: int) -> Coarse:
    """The polynomials of this degree for a kernel on a grid."""
    S, Z = kernel.states, kernel.observations
    coarse, fine = _grid.nodes(S, degree), scheme.beliefs(S)
    probability = jnp.asarray(kernel.probability)
    mass = jnp.einsum("ms,zakst->zakmt", coarse, probability)
    sigma = mass.sum(axis=-1)
    belief = mass / jnp.where(sigma > 0, sigma, 1.0)[..., None]
    # Weighted beforehand, so that what has no mass has no part whatever its belief.
    ahead = sigma[..., None] * _bernstein(belief, degree)
    successors = jnp.asarray(kernel.successors)
    shape = (Z, *successors.shape[1:])
    spread = [_bernstein(fine, degree)]
    if scheme.coefficients == 2:
        spread.append(_slopes(fine[:, 1], degree) / scheme.resolution)
    index = {tuple(np.rint(x * scheme.resolution).astype(int)): k for k, x in enumerate(fine)}
    places = (tuple(np.rint(x * scheme.resolution).astype(int)) for x in coarse)
    return Coarse(
        jnp.broadcast_to(ahead, (*shape, *ahead.shape[3:])),
        jnp.broadcast_to(successors, shape),
        _bernstein(coarse, degree),
        np.stack(spread, axis=1),
        tuple(index[place] for place in places),
    )


@functools.lru_cache(maxsize=64)
def _powers(states: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponents of the Bernstein polynomials, and their factors."""
    drawn = itertools.combinations_with_replacement(range(states), degree)
    rows = sorted([each.count(s) for s in range(states)] for each in drawn)
    factors = [math.factorial(degree) / math.prod(map(math.factorial, row)) for row in rows]
    return np.array(rows), np.array(factors)


def _bernstein(x, degree: int):  # type: ignore[no-untyped-def]  # numpy in, numpy out
    """B_j(x) = degree! / prod_s j_s! * prod_s x_s^j_s; they sum to one."""
    exponents, factors = _powers(x.shape[-1], degree)
    total = factors
    for s in range(x.shape[-1]):
        powers = [0.0 * x[..., s] + 1.0]
        for _ in range(degree):
            powers.append(powers[-1] * x[..., s])
        stack = np.stack if isinstance(x, np.ndarray) else jnp.stack
        total = total * stack([powers[p] for p in exponents[:, s]], axis=-1)
    return total


def _slopes(y: Float[np.ndarray, "n"], degree: int) -> Float[np.ndarray, "n j"]:
    """d B_j(1 - y, y) / dy, for two states."""
    exponents, factors = _powers(2, degree)
    first, second = exponents.T
    with np.errstate(divide="ignore", invalid="ignore"):
        falls = np.where(first > 0, first * (1 - y[:, None]) ** np.maximum(first - 1, 0), 0.0)
        rises = np.where(second > 0, second * y[:, None] ** np.maximum(second - 1, 0), 0.0)
    return factors * (rises * (1 - y[:, None]) ** first - falls * y[:, None] ** second)


def _at_nodes(stencil: SharedStencil, at: np.ndarray) -> SharedStencil:
    def cut(piece: Piece) -> Piece:
        if piece.pattern.blind:
            return piece
        tables = piece.position[:, :, :, at], piece.weight[:, :, :, at]
        return Piece(piece.successors, *tables, piece.actions, piece.law, piece.pattern)

    pieces = tuple(map(cut, stencil.pieces))
    return SharedStencil(pieces, stencil.observations, len(at))
