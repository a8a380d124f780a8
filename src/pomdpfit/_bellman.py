"""The soft Bellman operator on a belief grid, nothing else.

(T V)(z, x) = emax_a { r(z, x, a) + beta sum_k sigma_k(x) V(z_k, lambda_k(x)) }

The sum over successors is linear in the stored coefficients of V: the stencil holds positions and
weights, computed once for each theta. What is left of T acts on every node by itself.
"""

import bisect
import dataclasses
import functools
import math
import os
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._errors import GridTooLargeError
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme
from pomdpfit._stencil import SharedStencil, make_stencil
from pomdpfit._types import Array, Float

_MOST_COEFFICIENTS = 2**32  # positions among them are 32-bit numbers


class Transfer(eqx.Module):
    """d -> sum_a share_a E_a d: what a small change of V tomorrow is worth today.

    Where slopes are kept, `turn` is what a change of values does to the slope of the choice.
    """

    stencil: SharedStencil
    share: Float[Array, "Z A n"]
    turn: Float[Array, "Z A n"] | None
    discount: Float[Array, ""]  # the row sums: constants are moved to discount times themselves

    def __call__(self, d: Float[Array, "Z n c"]) -> Float[Array, "Z n c"]:
        """T'(V) d."""
        # Kept as they are: the compiler would else compute them anew for each of their uses.
        expected = jax.lax.optimization_barrier(self.stencil.by_action(d))
        parts = (self.share[:, a, :, None] * part for a, part in enumerate(expected))
        total = functools.reduce(jnp.add, parts)
        if self.turn is None:
            return total
        turned = sum(self.turn[:, a] * part[..., 0] for a, part in enumerate(expected))
        return jnp.stack([total[..., 0], total[..., 1] + turned], axis=-1)

    def back(self, d: Float[Array, "Z n c"]) -> Float[Array, "Z n c"]:
        """T'(V)' d."""
        asked = self.share[..., None] * d[:, None]
        if self.turn is not None:
            asked = asked.at[..., 0].add(self.turn * d[:, None, :, 1])
        return self.stencil.back(asked)


def memory_needed(primitives: Primitives, scheme: AbstractScheme) -> int:
    """Bytes for the stencil and the work arrays of the same size beside it."""
    kernel, S = primitives.kernel, primitives.states
    laws = sum(len(set(pattern.law)) * pattern.slots for pattern in kernel.sharing())
    stencil = laws * scheme.size(S) * scheme.width(S) * (1 + scheme.coefficients)
    values = primitives.observations * scheme.size(S) * scheme.coefficients
    epochs = 0 if primitives.horizon is None else primitives.horizon
    tables = (8 + 3 * epochs) * values * kernel.actions
    copies = 3 if S <= 2 else 6  # as measured: cells take more to find with more states
    return 8 * (copies * stencil + tables)


def memory_for_each_z(primitives: Primitives, scheme: AbstractScheme) -> int:
    """Bytes where each z has a stencil of its own, and work arrays beside it."""
    S, A, K = primitives.states, primitives.actions, primitives.kernel.successors.shape[2]
    reads = primitives.observations * A * K * scheme.size(S) * scheme.width(S)
    return 8 * 6 * reads * (1 + scheme.coefficients)


def coefficient_count(primitives: Primitives, scheme: AbstractScheme) -> int:
    """H Z n c."""
    values = primitives.observations * scheme.size(primitives.states) * scheme.coefficients
    return values * (primitives.horizon or 1)


def refuse_if_too_large(
    primitives: Primitives,
    scheme: AbstractScheme,
    what: str = "the Bellman operator",
    needed: Callable[[Primitives, AbstractScheme], int] = memory_needed,
    contexts: int = 1,
) -> None:
    """Raise, with the numbers and with what would fit, before anything is allocated."""
    S, there = primitives.states, _machine_memory()
    of = lambda nodes: dataclasses.replace(scheme, nodes=nodes)
    asks = lambda nodes: needed(primitives, of(nodes))
    entries = lambda nodes: contexts * coefficient_count(primitives, of(nodes))
    fits = lambda nodes: asks(nodes) <= 0.8 * there and entries(nodes) <= _MOST_COEFFICIENTS
    if fits(scheme.nodes):
        return
    if asks(scheme.nodes) > 0.8 * there:
        why = (
            f"needs about {asks(scheme.nodes) / 2**30:,.1f} GiB, but this machine has "
            f"{there / 2**30:,.1f} GiB"
        )
    else:
        why = f"has {entries(scheme.nodes):,} coefficients, more than the 2^32 that can be numbered"
    most = bisect.bisect_left(range(scheme.nodes), True, lo=2, key=lambda n: not fits(n)) - 1
    advice = (
        f"Use at most {most} nodes an edge, which are {of(most).size(S):,} belief nodes."
        if most > 1
        else "Not even 2 nodes an edge fit: use fewer hidden states (what is seen belongs into z), "
        "fewer observations, or a kernel with fewer successors."
    )
    of_each = f" in each of {contexts} contexts" if contexts > 1 else ""
    raise GridTooLargeError(
        f"{what} with {primitives.observations} observations, {scheme.size(S):,} belief nodes "
        f"({scheme.nodes} an edge, |S| = {S}) and {primitives.kernel.successors.shape[2]} "
        f"successors{of_each} {why}. {advice}"
    )


def _machine_memory() -> float:
    """Bytes; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


class BellmanOperator(eqx.Module):
    """T on coefficients (Z, n, c), with its action values and its derivative."""

    stencil: SharedStencil
    reward: Float[Array, "Z A n c"]
    primitives: Primitives
    scheme: AbstractScheme = eqx.field(static=True)

    def action_values(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "Z A n c"]:
        """Coefficients of q(z, ., a) = r + beta * expected next value."""
        return self.reward + self.primitives.discount * self.stencil(coefficients)

    def image(self, q: Float[Array, "Z A n c"]) -> Float[Array, "Z n c"]:
        """T V, where the action values of V are known."""
        each = jnp.moveaxis(q, 1, -1)
        return self._image(each[..., 0, :], each[..., 1, :] if q.shape[-1] == 2 else None)

    def _split(self, coefficients: Float[Array, "Z n c"]) -> tuple[Array, Array | None]:
        """Values of q with actions last, and slopes likewise (or None)."""
        beta, expected = self.primitives.discount, self.stencil.by_action(coefficients)
        q = [self.reward[:, a] + beta * part for a, part in enumerate(expected)]
        value = jnp.stack([part[..., 0] for part in q], axis=-1)
        if coefficients.shape[-1] == 1:
            return value, None
        return value, jnp.stack([part[..., 1] for part in q], axis=-1)

    @property
    def _mask(self) -> Array | None:
        available = self.primitives.available
        return None if available is None else available[:, None, :]

    def __call__(self, coefficients: Float[Array, "Z n c"]) -> Float[Array, "Z n c"]:
        """T V = emax of q; its slope is the choice-weighted slope of q (envelope theorem)."""
        return self._image(*self._split(coefficients))

    def _image(self, value: Array, slope: Array | None) -> Float[Array, "Z n c"]:
        emax = lambda q: self.primitives.shock.emax(q, self._mask)
        if slope is None:
            return emax(value)[..., None]
        return jnp.stack(jax.jvp(emax, (value,), (slope,)), axis=-1)

    def with_derivative(self, coefficients: Float[Array, "Z n c"]) -> tuple[Array, Transfer]:
        """T V, and T'(V).

        Value row: beta p_a. Slope row: beta p_a on the slopes, and beta times the change of p
        along the slopes of q on the values.
        """
        value, slope = self._split(coefficients)
        beta, shock = self.primitives.discount, self.primitives.shock
        by_action = lambda p: jnp.stack([beta * p[..., a] for a in range(p.shape[-1])], axis=1)
        both = lambda q: shock.emax_and_choice(q, self._mask)
        if slope is None:
            top, choice = both(value)
            return top[..., None], Transfer(self.stencil, by_action(choice), None, beta)
        (top, choice), (steep, turn) = jax.jvp(both, (value,), (slope,))
        transfer = Transfer(self.stencil, by_action(choice), by_action(turn), beta)
        return jnp.stack([top, steep], axis=-1), transfer

    def derivative(self, coefficients: Float[Array, "Z n c"]) -> Transfer:
        """T'(V)."""
        return self.with_derivative(coefficients)[1]


def bellman_operator(primitives: Primitives, scheme: AbstractScheme) -> BellmanOperator:
    """The operator of these primitives on this scheme's grid."""
    reward = scheme.linear(jnp.moveaxis(primitives.reward, 2, 1))
    return BellmanOperator(make_stencil(primitives.kernel, scheme), reward, primitives, scheme)
