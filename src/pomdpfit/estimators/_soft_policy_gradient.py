"""The paper's Algorithm 1: gradient ascent on the choice terms, given the dynamics.

theta_1 <- theta_1 + rho grad l(theta_1) until the gradient's norm is below epsilon. Theorem 4: with
rho < 2 / L, L = NT (L_Q + L_V), min_k |grad l|^2 <= (l* - l_0) / (rho (1 - rho L / 2) K).
"""

import dataclasses
from typing import ClassVar

import jax
import numpy as np

from pomdpfit._entries import Entries
from pomdpfit._errors import EstimationError, Result
from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._restrictions import Restrictions
from pomdpfit._shocks import Gumbel
from pomdpfit._types import Float
from pomdpfit.estimators._base import (
    BHHH,
    AbstractEstimator,
    AbstractOptimiser,
    Stage,
    Tell,
    refuse_two_stages,
    split_leaves,
)
from pomdpfit.estimators._walk import Climb, Slope, Walk, lost

_ARMIJO = 1e-4  # of the promised gain
_SOLVED_TO = 1e-10  # of the log-likelihood: what is left of a value that was near enough


@dataclasses.dataclass(frozen=True)
class SoftPolicyGradient(AbstractEstimator):
    """Dynamics from the observation terms, then rewards by gradient ascent (Algorithm 1).

    faithful   the paper's constant step, `share` * 2 / L; at a discount near one it is minute
               (1e-16 for the bus model at 0.9999), so the default is a practical rule: Barzilai and
               Borwein's step, halved until the log-likelihood rises
    epsilon    the gradient norm at which to stop
    max_steps  the most steps to take
    """

    faithful: bool = False
    epsilon: float = 1e-3
    max_steps: int = 10_000
    share: float = 0.5
    optimiser: AbstractOptimiser = dataclasses.field(default_factory=BHHH)
    by_stages: ClassVar[bool] = True

    def stages(self, likelihood: AbstractLikelihood) -> tuple[Stage, ...]:
        """Observations by the optimiser, choices by gradient ascent."""
        dynamics, rewards = split_leaves(likelihood)
        step = None
        if self.faithful:
            step = self.share * 2.0 / lipschitz(likelihood)
        ascent = GradientAscent(self.epsilon, self.max_steps, step)
        stages = (
            Stage(Part.OBSERVATION, dynamics, self.optimiser),
            Stage(Part.CHOICE, rewards, ascent),
        )
        return tuple(stage for stage in stages if stage.leaves)

    def check(self, likelihood: AbstractLikelihood, restrictions: Restrictions | None) -> None:
        """As for two stages; the faithful form also needs what Theorem 4 needs."""
        refuse_two_stages(likelihood, restrictions, "pf.SoftPolicyGradient")
        if not 0 < self.share < 1:
            raise EstimationError(f"share must lie between 0 and 1, but it is {self.share}.")
        if self.faithful:
            lipschitz(likelihood)


@dataclasses.dataclass(frozen=True)
class GradientAscent(AbstractOptimiser):
    """Steps along the gradient: constant where `step` is given, Barzilai-Borwein otherwise."""

    epsilon: float
    max_steps: int
    step: float | None = None

    def walk(
        self,
        entries: Entries,
        phi: Float[np.ndarray, "n"],
        agents: int,
        tell: Tell | None = None,
    ) -> Walk:
        """Ascend from phi until the gradient's norm is below epsilon."""
        found = yield Slope(phi)
        if found is None:
            return lost(phi)
        jacobian = entries.chart(phi).jacobian
        value, gradient = found
        g = jacobian.T @ gradient
        trace, norms, steps = [value], [float(g @ g)], 0
        rho = self.step or 1.0 / max(float(np.linalg.norm(g)), 1.0)
        result = Result.MAX_STEPS
        while steps < self.max_steps:
            if np.linalg.norm(g) < self.epsilon:
                result = Result.CONVERGED
                break
            moved = yield from self._move(entries, phi, jacobian, g, value, rho)
            if moved is None:
                result = Result.STALLED
                break
            new_phi, value, gradient, used = moved
            new_g = jacobian.T @ gradient
            rho = self.step or _barzilai_borwein(used * g, g - new_g, used)
            phi, g, steps = new_phi, new_g, steps + 1
            trace.append(value)
            norms.append(float(g @ g))
            if tell is not None:
                tell(steps, value, float(np.linalg.norm(g)))
        return Climb(
            phi,
            value,
            gradient,
            float(np.linalg.norm(g)),
            steps,
            result,
            trace=tuple(trace),
            norms=tuple(norms),
        )

    def _move(self, entries, phi, jacobian, g, value, rho):  # type: ignore[no-untyped-def]
        """The next point; the practical rule halves the step until it rises."""
        for _ in range(1 if self.step is not None else 60):
            new = np.clip(phi + jacobian @ (rho * g), entries.low, entries.high)
            found = yield Slope(new)
            if found is not None and (
                self.step is not None or _rises(value, g, rho, found[0], jacobian.T @ found[1])
            ):
                return new, found[0], found[1], rho
            rho /= 2
        return None


def _rises(value: float, g: np.ndarray, rho: float, new_value: float, new_g: np.ndarray) -> bool:
    """Armijo's rule; by slopes where values differ by no more than they are solved to.

    At the end of an ascent a step gains less than that. Slopes still tell: those of a parabola that
    obeys Armijo's rule do not fall below minus their start (Hager and Zhang's approximate rule).
    """
    if new_value >= value + _ARMIJO * rho * (g @ g) - 1e-13 * abs(value):
        return True
    alike = new_value >= value - _SOLVED_TO * abs(value)
    return alike and float(new_g @ g) >= -(1 - 2 * _ARMIJO) * float(g @ g)


def _barzilai_borwein(step: np.ndarray, fall: np.ndarray, before: float) -> float:
    """|s|^2 / s.y, the inverse curvature along the last step; twice the last one if convex."""
    along = step @ fall
    return float(step @ step / along) if along > 0 else 2.0 * before


def lipschitz(likelihood: AbstractLikelihood) -> float:
    """L = NT (L_Q + L_V) of Lemma 1 for rewards that are linear in theta_1.

    L_Q + L_V = 2 (1 + beta) L_r^2 / (1 - beta)^3, where L_r is the largest norm of the gradient of
    r(z, s, a): averaging over s with a belief cannot make it larger.
    """
    _, rewards = split_leaves(likelihood)
    space, model = likelihood.space, likelihood.model
    _refuse_theorem_4(likelihood, rewards)
    theta = space.example()
    at = lambda moved: model.reward({**theta, **moved})
    here = {name: theta[name] for name in rewards}
    elsewhere = {name: 2.0 * theta[name] + 1.0 for name in rewards}
    slopes = [jax.jacfwd(at)(point) for point in (here, elsewhere)]
    if any(not np.allclose(slopes[0][n], slopes[1][n], rtol=1e-10, atol=1e-12) for n in rewards):
        raise EstimationError(
            "Theorem 4 needs bounds on the derivatives of the reward over all parameter values; "
            "they are found only for rewards that are linear in their parameters. Use "
            "pf.SoftPolicyGradient() with its practical step."
        )
    axes = np.ndim(at(here))
    flat = [np.reshape(slopes[0][n], (*np.shape(slopes[0][n])[:axes], -1)) for n in rewards]
    steepest = np.linalg.norm(np.concatenate(flat, axis=-1), axis=-1).max()
    beta = float(model.discount(theta))
    count = likelihood.panel.nobs
    return count * 2.0 * (1.0 + beta) * float(steepest) ** 2 / (1.0 - beta) ** 3


def _refuse_theorem_4(likelihood: AbstractLikelihood, rewards: tuple[str, ...]) -> None:
    space, model = likelihood.space, likelihood.model
    shock = getattr(model, "shock", None)
    if shock is not None:
        law = shock(space.example())
        if not isinstance(law, Gumbel) or float(law.scale) != 1.0:
            raise EstimationError("Theorem 4 is for Gumbel shocks of scale one.")
    if not rewards:
        raise EstimationError("Algorithm 1 has nothing to climb: no reward parameter is free.")
    bounded = [n for n in rewards if np.isfinite(space.parameters[n].constraint.bounds()).any()]
    if bounded:
        raise EstimationError(
            f"Theorem 4 moves rewards over the whole real line, but {bounded[0]!r} is bounded."
        )
    if (
        space.covariates
        or not space.parameters.get("discount", None)
        or getattr(model, "horizon", lambda: None)() is not None
    ):
        raise EstimationError(
            "Theorem 4 is for an infinite horizon with one discount factor and no covariates."
        )
