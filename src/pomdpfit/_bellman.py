"""The soft Bellman operator on a belief grid, nothing else.

(T V)(z, x) = emax_a { r(z, x, a) + beta sum_k sigma_k(x) V(z_k, lambda_k(x)) }

The sum over successors is linear in the stored coefficients of V: `Stencil` holds the positions
and weights, computed once for each theta. What is left of T acts on every node by itself.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit import _grid
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float, Int


class Stencil(eqx.Module):
    """sum_k sigma_k V(z_k, lambda_k) at every node as a sparse linear map of V's coefficients."""

    successors: Int[Array, "#Z A K"]
    position: Int[Array, "#Z A K n V"]
    weight: Float[Array, "#Z A K n V c"]

    def gather(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "#Z A K n V"]:
        """The coefficients that each (z, a, k, node) reads."""
        flat = coefficients.reshape(coefficients.shape[0], -1)
        return flat[self.successors[..., None, None], self.position]

    def __call__(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "#Z A n c"]:
        """The expected value of the next period at every node, for each action."""
        return jnp.einsum("zaknv,zaknvc->zanc", self.gather(coefficients), self.weight)


def memory_needed(primitives: Primitives, scheme: AbstractScheme) -> int:
    """Bytes for the stencil and the work arrays of the same size beside it."""
    kernel, S = primitives.kernel, primitives.states
    rows = max(kernel.successors.shape[0], kernel.probability.shape[0])
    entries = rows * kernel.actions * kernel.successors.shape[2]
    entries *= scheme.size(S) * scheme.width(S)
    return 3 * 8 * entries * (1 + scheme.coefficients)


def refuse_if_too_large(primitives: Primitives, scheme: AbstractScheme) -> None:
    """Raise, with the numbers, if the operator does not fit this machine's memory."""
    S = primitives.states
    what = (
        f"the Bellman operator with {primitives.observations} observations, {scheme.size(S):,} "
        f"belief nodes ({scheme.nodes} an edge, |S| = {S}) and "
        f"{primitives.kernel.successors.shape[2]} successors"
    )
    _grid.refuse_if_too_large(memory_needed(primitives, scheme), what)


class BellmanOperator(eqx.Module):
    """T on coefficients (Z, n, c), with its action values and its derivative."""

    stencil: Stencil
    reward: Float[Array, "Z A n c"]
    primitives: Primitives

    def action_values(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "Z A n c"]:
        """Coefficients of q(z, ., a) = r + beta * expected next value."""
        return self.reward + self.primitives.discount * self.stencil(coefficients)

    def _split(self, q: Float[Array, "Z A n c"]) -> tuple[Array, Array | None, Array | None]:
        """Values with actions last, slopes likewise (or None), and the availability mask."""
        by_action = jnp.moveaxis(q, 1, -1)
        available = self.primitives.available
        mask = None if available is None else available[:, None, :]
        slope = by_action[:, :, 1] if q.shape[-1] == 2 else None
        return by_action[:, :, 0], slope, mask

    def best(self, q: Float[Array, "Z A n c"]) -> Float[Array, "Z n c"]:
        """emax over actions; the slope of emax is the choice-weighted slope (envelope theorem)."""
        value, slope, mask = self._split(q)
        shock = self.primitives.shock
        top = shock.emax(value, mask)
        if slope is None:
            return top[..., None]
        return jnp.stack([top, (shock.choice(value, mask) * slope).sum(axis=-1)], axis=-1)

    def __call__(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "Z n c"]:
        """T V."""
        return self.best(self.action_values(coefficients))

    def derivative(self, coefficients: Float[Array, "Z n c"]) -> Stencil:
        """T'(V), a linear map of the stencil's shape whose actions are to be added up.

        Value row: beta p_a. Slope row: beta p_a on the slopes, and beta times the change of p
        along the slopes of q on the values.
        """
        value, slope, mask = self._split(self.action_values(coefficients))
        shock, beta = self.primitives.shock, self.primitives.discount
        choice = jnp.moveaxis(shock.choice(value, mask), -1, 1)[:, :, None, :, None, None]
        weight = beta * choice * self.stencil.weight
        if slope is not None:
            turn = jax.jvp(lambda q: shock.choice(q, mask), (value,), (slope,))[1]
            turn = jnp.moveaxis(turn, -1, 1)[:, :, None, :, None]
            weight = weight.at[..., 1].add(beta * turn * self.stencil.weight[..., 0])
        shape = weight.shape[:3]
        return Stencil(
            jnp.broadcast_to(self.stencil.successors, shape),
            jnp.broadcast_to(self.stencil.position, weight.shape[:-1]),
            weight,
        )


def bellman_operator(primitives: Primitives, scheme: AbstractScheme) -> BellmanOperator:
    """The operator of these primitives on this scheme's grid."""
    kernel = primitives.kernel
    position, weight = scheme.perspective(jnp.asarray(kernel.probability))
    reward = scheme.linear(jnp.moveaxis(primitives.reward, 2, 1))
    return BellmanOperator(
        Stencil(jnp.asarray(kernel.successors), position, weight), reward, primitives
    )
