"""Maximise a log-likelihood with exact gradients, between bounds and under equations.

Each step maximises the quadratic model g d - d B d / 2 between the bounds (an active-set method,
so that entries reach their bounds exactly). B starts as the outer product of the agents' scores
(BHHH), is carried on by BFGS updates from exact gradients, and is taken anew from the scores as
the maximum comes near, where it is the information matrix. Steps that fail are shortened by
damping (Levenberg-Marquardt). The end is told by the gain that the model still promises: half the
squared distance to the maximum in units of standard errors, which no change of units can alter.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.optimize import lsq_linear

from pomdpfit._entries import Chart, Entries
from pomdpfit._errors import Result
from pomdpfit._types import Array, Float
from pomdpfit.estimators._objective import Objective

_RIDGE = 1e-10  # of the diagonal: the outer product of few agents' scores is singular
_ARMIJO = 1e-4
_REFRESH = 1e-2  # the promised gain has fallen so far since the scores were last taken
_NOISE = 1e-13  # of the log-likelihood: what rounding leaves of it
_MAX_DAMPING = 1e10


@dataclasses.dataclass(frozen=True, eq=False)
class Climb:
    """Where a climb ended, and how."""

    phi: Float[np.ndarray, "n"]
    value: float
    gradient: Float[np.ndarray, "n"]
    gain: float  # that the quadratic model still promises
    steps: int
    result: Result
    start: Array | None = dataclasses.field(repr=False)
    trace: tuple[float, ...] = dataclasses.field(repr=False, default=())  # values, step by step
    norms: tuple[float, ...] = dataclasses.field(repr=False, default=())  # squared, of gradients

    @property
    def converged(self) -> bool:
        """Whether the promised gain is below the tolerance."""
        return self.result is Result.CONVERGED


class _Model:
    """The quadratic model at the present point, in the coordinates of its chart."""

    def __init__(self, entries: Entries, phi: np.ndarray) -> None:
        self.entries, self.chart = entries, entries.chart(phi)
        self.B = np.eye(len(self.chart.independent))

    def take_scores(self, scores: np.ndarray, weights: np.ndarray) -> None:
        """BHHH: B = sum_i w_i s_i s_i'."""
        self.B = _safe((scores * weights[:, None]).T @ scores)

    def move_to(self, phi: np.ndarray) -> None:
        """The same B in the coordinates of the chart at phi."""
        chart = self.entries.chart(phi)
        if not np.array_equal(chart.independent, self.chart.independent):
            change = chart.jacobian[self.chart.independent]
            self.B = change.T @ self.B @ change
            self.chart = chart

    def update(self, step: np.ndarray, fall: np.ndarray) -> None:
        """BFGS with Powell's damping: B step = fall of the gradient, and B stays positive."""
        image = self.B @ step
        curvature, along = step @ image, step @ fall
        if curvature <= 0:
            return
        if along < 0.2 * curvature:
            mix = 0.8 * curvature / (curvature - along)
            fall = mix * fall + (1 - mix) * image
            along = step @ fall
        self.B += np.outer(fall, fall) / along - np.outer(image, image) / curvature

    def step(
        self, phi: np.ndarray, gradient: np.ndarray, damping: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The best step between the bounds: in coordinates, in entries, and its promised gain."""
        chart = self.chart
        g = chart.jacobian.T @ gradient
        B = self.B + damping * np.diag(np.diag(self.B))
        y = phi[chart.independent]
        low, high = self.entries.low[chart.independent], self.entries.high[chart.independent]
        d = _bounded_quadratic(B, g, low - y, high - y)
        d *= _room(self.entries, chart, phi, d)
        return d, chart.jacobian @ d, float(g @ d - 0.5 * d @ B @ d)


def climb(
    objective: Objective,
    phi: Float[np.ndarray, "n"],
    *,
    tolerance: float = 1e-8,
    max_steps: int = 200,
    tell: Callable[[int, float, float], None] | None = None,
) -> Climb:
    """From phi to a maximum; `tell(step, value, gain)` hears of every step."""
    here = objective.gradient(phi)
    if here is None:
        return Climb(phi, -np.inf, np.full(len(phi), np.nan), np.inf, 0, Result.NOT_FINITE, None)
    value, gradient = here
    model = _Model(objective.entries, phi)
    damping, fresh_gain, fresh_at, steps, trace = 0.0, np.inf, -1, 0, [value]
    result = Result.MAX_STEPS
    if len(model.chart.independent) == 0:
        return Climb(phi, value, gradient, 0.0, 0, Result.CONVERGED, objective.start)
    while True:
        d, change, gain = model.step(phi, gradient, 0.0)
        small = gain <= tolerance
        if fresh_at < steps and (small or gain < _REFRESH * fresh_gain or fresh_at < 0):
            scores = objective.scores(phi, model.chart.jacobian)
            model.take_scores(scores, objective.agent_weights)
            d, change, gain = model.step(phi, gradient, 0.0)
            fresh_gain, fresh_at, small = gain, steps, gain <= tolerance
        if small:
            result = Result.CONVERGED
            break
        if steps >= max_steps:
            break
        found = None
        while found is None:
            d, change, promised = model.step(phi, gradient, damping)
            found = _accepted(objective, phi + change, value, gradient @ change)
            if found is None:
                damping = max(10 * damping, 1e-3)
                if damping > _MAX_DAMPING:
                    break
        if found is None:
            if fresh_at == steps:
                result = Result.STALLED
                break
            fresh_gain = np.inf  # a B that has gone astray is taken anew
            fresh_at, damping = -1, 0.0
            continue
        new = np.clip(phi + change, objective.entries.low, objective.entries.high)
        model.update(d, -(model.chart.jacobian.T @ (found[1] - gradient)))
        phi, (value, gradient) = new, found
        damping = 0.0 if damping < 1e-6 else damping / 10
        model.move_to(phi)
        steps += 1
        trace.append(value)
        if tell is not None:
            tell(steps, value, gain)
    return Climb(phi, value, gradient, gain, steps, result, objective.start, tuple(trace))


def _accepted(objective: Objective, phi: np.ndarray, value: float, rise: float) -> tuple | None:
    """Value and gradient at phi if it is high enough; None if not."""
    found = objective.gradient(phi)
    if found is None or not np.isfinite(found[0]):
        return None
    enough = value + _ARMIJO * rise - _NOISE * abs(value)
    return found if found[0] >= enough else None


def _safe(B: np.ndarray) -> np.ndarray:
    """B with a ridge that makes it positive where scores do not."""
    diagonal = np.diag(B).copy()
    diagonal[diagonal <= 0] = max(diagonal.max(initial=0.0), 1.0)
    return B + _RIDGE * np.diag(diagonal)


def _bounded_quadratic(
    B: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """argmax g d - d B d / 2 with low <= d <= high, as bounded least squares in scaled units."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(B), 1e-300))
    values, vectors = np.linalg.eigh(B * np.outer(scale, scale))
    values = np.maximum(values, 1e-12 * values[-1])
    root = np.sqrt(values)[:, None] * vectors.T
    target = (vectors.T @ (scale * g)) / np.sqrt(values)
    free = root.T @ target
    d = vectors @ ((vectors.T @ free) / values)
    low, high = low / scale, high / scale
    if ((d >= low) & (d <= high)).all():
        return scale * d
    # lsq_linear wants bounds apart; nothing moves by the width given to those that are not.
    d = lsq_linear(root, target, (np.minimum(low, -1e-14), np.maximum(high, 1e-14)), "bvls").x
    return scale * np.clip(d, low, high)


def _room(entries: Entries, chart: Chart, phi: np.ndarray, d: np.ndarray) -> float:
    """The largest share of a step that keeps the dependent entries between their bounds."""
    move = chart.jacobian[chart.dependent] @ d
    here = phi[chart.dependent]
    low, high = entries.low[chart.dependent], entries.high[chart.dependent]
    with np.errstate(divide="ignore", invalid="ignore"):
        down = np.where(move < 0, (low - here) / move, np.inf)
        up = np.where(move > 0, (high - here) / move, np.inf)
    return float(np.clip(np.min(np.concatenate([down, up]), initial=1.0), 0.0, 1.0))
