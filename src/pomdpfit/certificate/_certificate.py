"""certify(): what is proven about the solution of a model at one theta."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._bellman import BellmanOperator, bellman_operator
from pomdpfit._errors import ModelError, SolveError
from pomdpfit._fixed_point import cold_start, solve_infinite
from pomdpfit._model import Primitives
from pomdpfit._schemes import Linear
from pomdpfit._types import Array, ArrayLike, Belief, Float, Int
from pomdpfit.certificate import _cells, _levels, _regeneration
from pomdpfit.solvers import Newton, make_plan


class Relative(eqx.Module):
    """Bounds on D(y) - D_R from both sides, where D = V_U - V and R is a reset."""

    above: _levels.Upper
    below: _levels.Upper
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
        """A bound, for all z and x at once, on the width of the intervals for Q_a - Q_reset."""
        if self.relative is None:
            return np.inf
        beta = float(self.primitives.discount)
        above, below = self.relative.above.table, self.relative.below.table
        return beta * float(jnp.max(above + below))

    def value_bounds(
        self, z: ArrayLike, x: Belief, t: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """V_L(z, x) <= V-bar(z, x) <= V_U(z, x)."""
        low, high = _q_levels(self, *self._arguments(z, x, t))
        available = self.primitives.available
        mask = None if available is None else available[np.asarray(z)]
        emax = self.primitives.shock.emax
        return np.asarray(emax(low, mask)), np.asarray(emax(high, mask))

    def difference_bounds(
        self, z: ArrayLike, x: Belief, t: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on Q(z, x, a) - Q(z, x, b) for all a, where b is the reset (else action 0)."""
        arguments = self._arguments(z, x, t)
        low, high = _q_levels(self, *arguments)
        b = 0 if self.relative is None else self.relative.reset
        differences = low - high[..., b : b + 1], high - low[..., b : b + 1]
        if self.relative is not None:
            sharp = _q_relative(self, *arguments[:2])
            differences = (
                jnp.maximum(differences[0], sharp[0]),
                jnp.minimum(differences[1], sharp[1]),
            )
        low, high = (d.at[..., b].set(0.0) for d in differences)
        return np.asarray(low), np.asarray(high)

    def choice_bounds(
        self, z: ArrayLike, x: Belief, t: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on log pi(a | z, x) for all a."""
        low, high = (jnp.asarray(d) for d in self.difference_bounds(z, x, t))
        available = self.primitives.available
        mask = None if available is None else available[np.asarray(z)]
        bounds = _choice_extremes(self.primitives.shock, low, high, mask)
        return np.asarray(bounds[0]), np.asarray(bounds[1])

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
        """Whether a solution's differences of Q lie inside at every node and half-way between."""
        states = self.primitives.states
        beliefs = jnp.asarray(self.upper.grid.beliefs(states))
        beliefs = jnp.concatenate([beliefs, 0.5 * (beliefs[:-1] + beliefs[1:])])
        shape = (self.primitives.observations, len(beliefs))
        z = np.broadcast_to(np.arange(shape[0])[:, None], shape)
        x = jnp.broadcast_to(beliefs, (*shape, states))
        epochs = range(self.primitives.horizon) if self.primitives.horizon is not None else [None]
        b = 0 if self.relative is None else self.relative.reset
        for t in epochs:
            epoch = None if t is None else np.asarray(t)
            low, high = self.difference_bounds(z, x, epoch)
            q = np.asarray(solution.q(z, x, epoch))
            difference = q - q[..., b : b + 1]
            if not np.all((difference >= low) & (difference <= high)):
                return False
        return True

    def _arguments(self, z: ArrayLike, x: Belief, t: ArrayLike | None) -> tuple:
        if (t is None) != (self.primitives.horizon is None):
            raise ModelError("bounds take the epoch t with a finite horizon, and only then.")
        z, x = jnp.asarray(z), jnp.asarray(x)
        return z, x, None if t is None else jnp.broadcast_to(jnp.asarray(t), z.shape)

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


@eqx.filter_jit
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

    return bound(certificate.lower), bound(certificate.upper)


@eqx.filter_jit
def _q_relative(
    certificate: Certificate, z: Int[Array, "*b"], x: Float[Array, "*b S"]
) -> tuple[Array, Array]:
    """Q_a - Q_reset = (the same of V_U) - beta E_a [D - D_R]."""
    primitives, relative = certificate.primitives, certificate.relative
    assert relative is not None
    beta = primitives.discount
    now = jnp.einsum("...s,...sa->...a", x, primitives.reward[z])
    q = now + beta * _levels.expected_next(primitives, certificate.upper, z, x)
    difference = q - q[..., relative.reset : relative.reset + 1]
    low = difference - beta * _levels.expected_next(primitives, relative.above, z, x)
    return low, difference + beta * _levels.expected_next(primitives, relative.below, z, x)


@eqx.filter_jit
def _choice_extremes(shock, low, high, mask) -> tuple[Array, Array]:  # type: ignore[no-untyped-def]
    """log pi_a is lowest with its own q lowest and all others highest, and the other way round."""
    actions = low.shape[-1]

    def one(a: Array) -> tuple[Array, Array]:
        own = jnp.arange(actions) == a
        least = shock.log_choice(jnp.where(own, low, high), mask)[..., a]
        return least, shock.log_choice(jnp.where(own, high, low), mask)[..., a]

    least, most = jax.lax.map(one, jnp.arange(actions))
    return jnp.moveaxis(least, 0, -1), jnp.moveaxis(most, 0, -1)


def certify_primitives(primitives: Primitives, nodes: int) -> Certificate:
    """Solve the linear scheme on `nodes` nodes an edge and bound the truth around it."""
    grid = Linear(nodes)
    if primitives.horizon is not None:
        upper, alpha = _certify_finite(primitives, grid)
        flat = (
            _levels.Upper(upper.reshape(-1, upper.shape[-1]), grid),
            _levels.Lower(alpha.reshape(-1, *alpha.shape[2:]), grid),
        )
        return Certificate(*flat, primitives, None, "the horizon is finite")
    plan = make_plan(jax.tree.map(np.asarray, primitives.kernel))
    upper, alpha, value, rho, operator = _certify_levels(primitives, grid, plan)
    if not bool(jnp.isfinite(upper).all() & jnp.isfinite(alpha).all()):
        raise SolveError("no certificate: the linear scheme was not solved at this theta.")
    levels = _levels.Upper(upper, grid), _levels.Lower(alpha, grid)
    relative, reason = _relative(primitives, *levels, operator, value, rho)
    return Certificate(*levels, primitives, relative, reason)


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
    at_reset = (upper(*law) - lower(*law)).sum()
    above, below, found = _bounds_to_reset(
        primitives, upper.grid, operator, value, rho, at_reset, reset
    )
    if not bool(found):
        return None, "the time to a reset is too long for its bounds to close on this grid"
    grid = upper.grid
    return Relative(_levels.Upper(above, grid), _levels.Upper(below, grid), reset), ""


@eqx.filter_jit
def _bounds_to_reset(primitives, grid, operator, value, rho, at_reset, reset):  # type: ignore[no-untyped-def]
    """S, G D_R, and whether both are proven."""
    bounds = _cells.cell_bounds(primitives, grid, value, rho)
    stencil = operator.stencil
    choice = _regeneration.highest_choice(primitives, bounds, 0.0)
    until_reset = _regeneration.recursion(primitives, stencil, bounds.gap, choice, reset)
    above, proven = _regeneration.supersolution(until_reset)
    # The true q lies below q_U by no more than beta times the largest D.
    slack = primitives.discount * (at_reset + jnp.max(above))
    choice = _regeneration.highest_choice(primitives, bounds, slack)
    each_period = jnp.full_like(bounds.gap, 1.0) * (1.0 - primitives.discount)
    discounting = _regeneration.recursion(primitives, stencil, each_period, choice, reset)
    share, proven_too = _regeneration.supersolution(discounting)
    return above, jnp.minimum(share, 1.0) * at_reset, proven & proven_too
