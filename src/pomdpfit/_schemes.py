"""Interpolation on the belief simplex: how a value function is stored at nodes and read between.

A scheme stores c coefficients at each node. All it must tell is linear in them: the value at a
belief, and the coefficients at the nodes of the perspective sigma V(m / sigma), m = x P, which is
what the Bellman operator adds up over successors.
"""

import abc
import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit import _grid
from pomdpfit._errors import ModelError
from pomdpfit._term_by_term import over_last
from pomdpfit._types import Array, Float, Int


@dataclasses.dataclass(frozen=True)
class AbstractScheme(abc.ABC):
    """An interpolation scheme with `nodes` points on each edge of the simplex."""

    nodes: int = 101

    def __post_init__(self) -> None:
        if not isinstance(self.nodes, int | np.integer) or self.nodes < 2:
            raise ModelError(f"a belief grid needs at least 2 nodes an edge, not {self.nodes}.")

    @property
    def resolution(self) -> int:
        """M: beliefs at nodes are multiples of 1/M."""
        return self.nodes - 1

    @property
    @abc.abstractmethod
    def coefficients(self) -> int:
        """c, the number of coefficients at a node."""

    @abc.abstractmethod
    def width(self, states: int) -> int:
        """How many coefficients one evaluation reads."""

    def beliefs(self, states: int) -> Float[np.ndarray, "n S"]:
        """The nodes as beliefs."""
        return _grid.nodes(states, self.resolution)

    def size(self, states: int) -> int:
        """n, the number of nodes."""
        return _grid.node_count(states, self.resolution)

    @abc.abstractmethod
    def check(self, states: int) -> None:
        """Raise if the scheme does not serve so many hidden states."""

    @abc.abstractmethod
    def basis(self, x: Float[Array, "*b S"]) -> tuple[Int[Array, "*b V"], Float[Array, "*b V"]]:
        """Positions among the n * c coefficients, and weights, of the value at x."""

    @abc.abstractmethod
    def carried(
        self, to: "AbstractScheme", states: int
    ) -> tuple[Int[Array, "n V"], Float[Array, "n V c"]]:
        """Positions and weights of the coefficients, on another grid of this kind, of V."""

    @abc.abstractmethod
    def perspective(
        self, kernel: Float[Array, "*b K S S"]
    ) -> tuple[Int[Array, "*b K n V"], Float[Array, "*b K n V c"]]:
        """Positions and weights of the coefficients of x -> sigma(x) V(x P / sigma(x)) at nodes."""

    @abc.abstractmethod
    def linear(self, r: Float[Array, "*b S"]) -> Float[Array, "*b n c"]:
        """The coefficients of the linear function x -> sum_s x(s) r(s)."""


@dataclasses.dataclass(frozen=True)
class Linear(AbstractScheme):
    """Piecewise linear on the Freudenthal triangulation: any |S|, values to O(h^2), from above."""

    @property
    def coefficients(self) -> int:
        """The value."""
        return 1

    def width(self, states: int) -> int:
        """The vertices of a cell."""
        return states

    def check(self, states: int) -> None:
        """Any number of states will do."""

    @functools.partial(jax.jit, static_argnums=0)
    def basis(self, x):  # type: ignore[no-untyped-def]
        """Barycentric weights."""
        return _grid.locate(x, self.resolution)

    def carried(self, to, states):  # type: ignore[no-untyped-def]
        """The values at the other nodes."""
        position, weight = self.basis(to.beliefs(states))
        return position, weight[..., None]

    @functools.partial(jax.jit, static_argnums=0)
    def perspective(self, kernel):  # type: ignore[no-untyped-def]
        """sigma times the barycentric weights of the next belief."""
        sigma, belief = _next_beliefs(self.beliefs(kernel.shape[-1]), kernel)
        position, weight = self.basis(belief)
        return position, (sigma[..., None] * weight)[..., None]

    def linear(self, r):  # type: ignore[no-untyped-def]
        """The values at the nodes."""
        return jnp.einsum("...s,ns->...n", r, self.beliefs(r.shape[-1]))[..., None]


_FEW_STATES, _SOME_STATES = 3, 8  # up to which cells are cubic, and up to which quadratic


def law_degree(states: int) -> int:
    """The degree of the polynomials by which a law of beliefs is split between nodes."""
    return 3 if states <= _FEW_STATES else 2 if states <= _SOME_STATES else 1


def law_scheme(states: int, cells: int) -> "Lagrange":
    """The scheme of a law on `cells` cells an edge."""
    degree = law_degree(states)
    return Lagrange(degree * cells + 1, degree)


@dataclasses.dataclass(frozen=True)
class Lagrange(Linear):
    """A polynomial of a degree on each cell of a Freudenthal triangulation `degree` times as wide.

    For laws of beliefs. Splitting a point's mass by these weights keeps all moments of the belief
    up to the degree, and so its variance, which linear weights raise by up to h^2 / 4 at every
    step. What is expected of a smooth function of the belief is off by O(h^(degree + 1)). Weights
    may be negative: the values bound nothing.
    """

    degree: int = 3

    def width(self, states: int) -> int:
        """The nodes of a cell."""
        return _grid.node_count(states, self.degree)

    @functools.partial(jax.jit, static_argnums=0)
    def basis(self, x):  # type: ignore[no-untyped-def]
        """Node alpha of a cell, sum_v alpha_v vertex_v / degree, has by Silvester's formula the
        weight prod_v prod_(k < alpha_v) (degree t_v - k) / (k + 1), t the barycentric weights.
        """
        states, cells = x.shape[-1], self.resolution // self.degree
        vertex, t = _grid.locate(x, cells)
        if self.degree == 1 or states == 1:
            return vertex, t
        alpha = np.round(_grid.nodes(states, self.degree) * self.degree).astype(int)
        position = _grid.between(vertex, alpha, states, cells)
        weight = jnp.ones(position.shape)
        for v in range(states):
            steps = [(self.degree * t[..., v] - k) / (k + 1) for k in range(self.degree)]
            powers = jnp.stack([jnp.ones(t.shape[:-1]), *itertools.accumulate(steps, jnp.multiply)])
            weight = weight * jnp.moveaxis(powers[alpha[:, v]], 0, -1)
        return position, weight


@dataclasses.dataclass(frozen=True)
class Smooth(AbstractScheme):
    """Cubic Hermite on two hidden states: value and slope at each node, values to O(h^4).

    The slope (stored times h, so that both coefficients have the unit of value) is that of the
    Bellman backup itself, by the envelope theorem, and the interpolant is once differentiable. It
    is not monotone and bounds nothing: see the certificate.
    """

    @property
    def coefficients(self) -> int:
        """Value and h * slope."""
        return 2

    def width(self, states: int) -> int:
        """Two coefficients at either end of a cell."""
        return 4

    def check(self, states: int) -> None:
        """Two states only."""
        if states != 2:
            raise ModelError(
                f"the smooth scheme serves two hidden states, not {states}: use pf.Linear."
            )

    def _cell(self, y: Array) -> tuple[Array, Array]:
        """Left node of the cell that holds y = x(1), and the position inside it."""
        scaled = _grid.clip(y, 0.0, 1.0) * self.resolution
        left = jnp.minimum(jnp.floor(scaled), self.resolution - 1)
        return left.astype(int), scaled - left

    @functools.partial(jax.jit, static_argnums=0)
    def basis(self, x):  # type: ignore[no-untyped-def]
        """The cubic Hermite basis."""
        left, t = self._cell(x[..., 1])
        return _hermite_positions(left), _hermite(t)

    def carried(self, to, states):  # type: ignore[no-untyped-def]
        """The values at the other nodes, and the slopes times the width of a cell there."""
        left, t = self._cell(to.beliefs(states)[:, 1])
        slope = self.resolution / to.resolution * _hermite_derivative(t)
        return _hermite_positions(left), jnp.stack([_hermite(t), slope], axis=-1)

    @functools.partial(jax.jit, static_argnums=0)
    def perspective(self, kernel):  # type: ignore[no-untyped-def]
        """With m = x P, y = m(1) / sigma: value sigma v(y), slope sigma' v + (m1' - y sigma') v'.

        Where sigma vanishes at a node the belief is the limit from the side of the grid, m'/sigma'.
        """
        h = 1.0 / self.resolution
        nodes = self.beliefs(2)
        direction = kernel[..., 1, :] - kernel[..., 0, :]
        slope = direction.sum(axis=-1)[..., None]
        mass = jnp.einsum("ns,...st->...nt", nodes, kernel)
        sigma = over_last(mass)
        direction = direction[..., None, :]
        here = jnp.where((sigma > 0)[..., None], mass, direction)
        total = jnp.where(sigma > 0, sigma, slope)
        lift = _lift(total)
        y = lift * here[..., 1] / jnp.where(total != 0, lift * total, 1.0)
        left, t = self._cell(y)
        value, scaled_slope = _hermite(t), _hermite_derivative(t)
        along = h * slope[..., None] * value + (
            (direction[..., 1] - y * slope)[..., None] * scaled_slope
        )
        return _hermite_positions(left), jnp.stack([sigma[..., None] * value, along], axis=-1)

    def linear(self, r):  # type: ignore[no-untyped-def]
        """Values at the nodes and h times the constant slope."""
        value = jnp.einsum("...s,ns->...n", r, self.beliefs(2))
        slope = jnp.broadcast_to((r[..., 1] - r[..., 0])[..., None], value.shape)
        return jnp.stack([value, slope / self.resolution], axis=-1)


def default_scheme(states: int) -> AbstractScheme:
    """Smooth for two hidden states, linear otherwise.

    From four states on with a thousand nodes at the most, unless 5 an edge are more.
    """
    if states == 2:
        return Smooth(101)
    resolution = 100 if states == 1 else 40
    while states > 3 and resolution > 4 and _grid.node_count(states, resolution) > 1000:
        resolution -= 1
    return Linear(resolution + 1)


def _next_beliefs(nodes: np.ndarray, kernel: Float[Array, "*b K S S"]) -> tuple[Array, Array]:
    """sigma and m / sigma at every node, m = x P.

    Where sigma is zero the belief is what it would be if z' told nothing: it has no weight, but is
    where the mass goes, and so the derivative, once the kernel gives z' a chance.
    """
    mass = jnp.einsum("ns,...st->...nt", nodes, kernel)
    sigma = over_last(mass)
    possible = sigma > 0
    either = jax.lax.stop_gradient(mass.sum(axis=-3, keepdims=True))
    total = over_last(either)[..., None]
    blind = jnp.where(total > 0, either / jnp.where(total > 0, total, 1.0), 1.0 / nodes.shape[-1])
    lift = _lift(sigma)
    belief = lift[..., None] * mass / jnp.where(possible, lift * sigma, 1.0)[..., None]
    return sigma, jnp.where(possible[..., None], belief, blind)


def _lift(sigma: Array) -> Array:
    """A power of two that both sides of a quotient may be multiplied by without a change of bits.

    Where sigma is tiny, its square, in the derivative of the quotient, would be zero.
    """
    return jnp.where(jnp.abs(sigma) < 2.0**-500, 2.0**600, 1.0)


def _hermite_positions(left: Array) -> Array:
    """Value and slope of the left node, value and slope of the right one."""
    return 2 * left[..., None] + jnp.arange(4)


def _hermite(t: Array) -> Array:
    """Weights of (v0, d0, v1, d1) in the cubic with these values and slopes at t = 0 and 1."""
    u = 1.0 - t
    return jnp.stack([(1 + 2 * t) * u**2, t * u**2, t**2 * (3 - 2 * t), -(t**2) * u], axis=-1)


def _hermite_derivative(t: Array) -> Array:
    """Derivatives of those weights in t."""
    return jnp.stack(
        [6 * t * (t - 1), (1 - t) * (1 - 3 * t), 6 * t * (1 - t), t * (3 * t - 2)], axis=-1
    )
