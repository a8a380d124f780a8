"""What is proven about the solution of a model at one theta, and how it is read."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._model import Primitives
from pomdpfit._policy import checked_arguments
from pomdpfit._types import Array, ArrayLike, Belief, Float, Int
from pomdpfit.certificate import _levels


class Relative(eqx.Module):
    """-min(G, 1) D_R <= D - D_R <= S, where D = V_U - V and D_R is its mean after a reset."""

    above: _levels.Upper  # S
    share: _levels.Upper  # G
    at_reset: Float[Array, ""]  # D_R
    reset: int = eqx.field(static=True)


@dataclasses.dataclass(frozen=True)
class LikelihoodInterval:
    """low <= log-likelihood <= high, proven; and the point estimate that was computed."""

    low: float
    high: float
    estimate: float

    @property
    def holds_estimate(self) -> bool:
        """Whether the point estimate lies inside."""
        return self.low <= self.estimate <= self.high

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low


class Certificate(eqx.Module):
    """Proven bounds on V, on log pi and on the log-likelihood at one theta.

    `reason` says why differences of value are bounded by the bracket of levels alone, where they
    are; it is empty where the sharper bounds by regeneration hold.
    """

    upper: _levels.Upper
    lower: _levels.Lower
    primitives: Primitives
    relative: Relative | None
    reason: str = eqx.field(static=True)

    @property
    def nodes(self) -> int:
        """Nodes on each edge of the belief grid."""
        return self.upper.grid.nodes

    @property
    def level_width(self) -> float:
        """The largest V_U - V_L at a node."""
        beliefs = jnp.asarray(self.upper.grid.beliefs(self.primitives.states))
        below = jnp.einsum("zns,ns->zn", self.lower.alpha, beliefs)
        return float(jnp.max(self.upper.table - below))

    @property
    def difference_width(self) -> float:
        """A bound on the width of the intervals for Q_a - Q_reset at all z and x, a available."""
        if self.relative is None:
            return np.inf
        above, share = self.relative.above.table, self.relative.share.table
        at_reset = self.relative.at_reset
        most = jnp.minimum(jnp.max(above + share * at_reset), jnp.max(above) + at_reset)
        tables = _levels.rounding(self.upper.table, self.primitives.reward)
        return float(self.primitives.discount * most + 4 * tables)

    def value_bounds(
        self, z: ArrayLike, x: Belief, t: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """V_L(z, x) <= V-bar(z, x) <= V_U(z, x)."""
        return _as_numpy(_value_bounds(self, *checked_arguments(self.primitives, z, x, t)))

    def difference_bounds(
        self, z: ArrayLike, x: Belief, t: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on Q(z, x, a) - Q(z, x, b) for all a, where b is the reset (else action 0)."""
        return _as_numpy(_difference_bounds(self, *checked_arguments(self.primitives, z, x, t)))

    def choice_bounds(
        self, z: ArrayLike, x: Belief, t: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on log pi(a | z, x) for all a."""
        return _as_numpy(_choice_bounds(self, *checked_arguments(self.primitives, z, x, t)))

    def log_likelihood(self, evaluated: Any) -> LikelihoodInterval:
        """The interval for a `LogLikelihood` computed at the same theta.

        Observation terms do not depend on the value function and are exact; each choice term is
        bounded at the belief of its row.
        """
        panel = evaluated.panel
        i, t = np.nonzero(panel.score_choice)
        epoch = panel.entry[i] + t if self.primitives.horizon is not None else None
        low, high = self.choice_bounds(panel.z[i, t], evaluated.belief[i, t], epoch)
        rows, chosen = np.arange(len(i)), panel.a[i, t]
        observed = float(evaluated.observation.sum())
        return LikelihoodInterval(
            observed + float(low[rows, chosen].sum()),
            observed + float(high[rows, chosen].sum()),
            evaluated.total,
        )

    def holds(self, solution: Any) -> bool:
        """Whether a solution lies inside: values at every node, differences of Q half-way too.

        A check at these points, not a proof; and it says little where `reason` is not empty and
        the discount is near one, for the bounds are wide then. A solution by linear interpolation
        on the certificate's own grid is V_U itself, so what its residual rho leaves open,
        rho / (1 - beta), is allowed for.
        """
        slack = _left_open(solution)
        states, horizon = self.primitives.states, self.primitives.horizon
        nodes = self.upper.grid.beliefs(states)
        between = 0.5 * (nodes + 1.0 / states) if states > 2 else 0.5 * (nodes[:-1] + nodes[1:])
        z = np.arange(self.primitives.observations)[:, None]
        b = 0 if self.relative is None else self.relative.reset
        for t in [None] if horizon is None else range(horizon):
            epoch = None if t is None else np.asarray(t)
            low, high = self.value_bounds(z, nodes, epoch)
            value = np.asarray(solution.value(z, nodes, epoch))
            inside = np.all((low - slack <= value) & (value <= high + slack))
            for x in (nodes, between):
                low, high = self.difference_bounds(z, x, epoch)
                q = np.asarray(solution.q(z, x, epoch))
                difference = q - q[..., b : b + 1]
                inside &= np.all((low - slack <= difference) & (difference <= high + slack))
            if not inside:
                return False
        return True

    def __repr__(self) -> str:
        lines = [f"Certificate ({self.nodes} nodes an edge, linear interpolation)"]
        lines.append(f"  value:         V_U - V_L <= {self.level_width:.3g} at every node")
        if self.relative is None:
            lines.append(f"  differences:   from the levels alone: {self.reason}")
        else:
            lines.append(
                f"  differences:   Q(z, x, a) - Q(z, x, {self.relative.reset}) known to within "
                f"{self.difference_width:.3g} at every z and x"
            )
        return "\n".join(lines)


def _left_open(solution: Any) -> float:
    """How far a solution may be from its own fixed point; with a finite horizon, not at all."""
    if solution.primitives.horizon is not None:
        return 0.0
    return float(solution.residual / (1.0 - solution.primitives.discount))


def _as_numpy(bounds: tuple[Array, Array]) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(bounds[0]), np.asarray(bounds[1])


def _mask(certificate: Certificate, z: Int[Array, "*b"]) -> Array | None:
    available = certificate.primitives.available
    return None if available is None else available[z]


def _q_levels(
    certificate: Certificate, z: Int[Array, "*b"], x: Float[Array, "*b S"], t: Array | None
) -> tuple[Array, Array]:
    """q from the lower and from the upper bound of what follows."""
    primitives = certificate.primitives
    now = jnp.einsum("...s,...sa->...a", x, primitives.reward[z])
    # With a finite horizon the tables of all epochs stand one after the other.
    offset = 0 if t is None else t[..., None] * primitives.observations

    def bound(function):  # type: ignore[no-untyped-def]
        shifted = lambda z_next, mass: function(z_next + offset, mass)
        later = _levels.expected_next(primitives, shifted, z, x)
        return now + primitives.discount * later

    low, high = bound(certificate.lower), bound(certificate.upper)
    allowance = _levels.rounding(certificate.upper.table, primitives.reward)
    return low - allowance, high + allowance


@eqx.filter_jit
def _value_bounds(certificate: Certificate, z: Array, x: Array, t: Array | None) -> tuple:
    low, high = _q_levels(certificate, z, x, t)
    emax, mask = certificate.primitives.shock.emax, _mask(certificate, z)
    return emax(low, mask), emax(high, mask)


@eqx.filter_jit
def _difference_bounds(certificate: Certificate, z: Array, x: Array, t: Array | None) -> tuple:
    """From the levels, and where there is a reset b from regeneration too, whichever is sharper.

    Q_a - Q_b = (the same of V_U) - beta E_a [D - D_R].
    """
    primitives, relative = certificate.primitives, certificate.relative
    q_low, q_high = _q_levels(certificate, z, x, t)
    b = 0 if relative is None else relative.reset
    low, high = q_low - q_high[..., b : b + 1], q_high - q_low[..., b : b + 1]
    if relative is not None:
        # The allowances in q_high cancel here; those for rounding come from the differences.
        allowance = _levels.rounding(certificate.upper.table, primitives.reward)
        upper = q_high - q_high[..., b : b + 1]
        above = _levels.expected_next(primitives, relative.above, z, x)
        share = _levels.expected_next(primitives, relative.share, z, x)
        below = jnp.minimum(share, 1.0) * relative.at_reset
        low = jnp.maximum(low, upper - primitives.discount * above - allowance)
        high = jnp.minimum(high, upper + primitives.discount * below + allowance)
    mask = _mask(certificate, z)
    if mask is not None:  # an action that cannot be taken has no value to bound
        low, high = jnp.where(mask, low, -jnp.inf), jnp.where(mask, high, jnp.inf)
    return low.at[..., b].set(0.0), high.at[..., b].set(0.0)


@eqx.filter_jit
def _choice_bounds(certificate: Certificate, z: Array, x: Array, t: Array | None) -> tuple:
    """log pi_a is lowest with its own q lowest and all others highest, and the other way round."""
    low, high = _difference_bounds(certificate, z, x, t)
    shock, mask = certificate.primitives.shock, _mask(certificate, z)
    actions = low.shape[-1]

    def one(a: Array) -> tuple[Array, Array]:
        own = jnp.arange(actions) == a
        least = shock.log_choice(jnp.where(own, low, high), mask)[..., a]
        return least, shock.log_choice(jnp.where(own, high, low), mask)[..., a]

    least, most = jax.lax.map(one, jnp.arange(actions))
    return jnp.moveaxis(least, 0, -1), jnp.moveaxis(most, 0, -1)
