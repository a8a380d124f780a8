"""Maximise a log-likelihood with exact gradients, between bounds and under equations.

Each step maximises the quadratic model g d - d B d / 2 between the bounds (an active-set method,
so that entries reach their bounds exactly). Far from the maximum B is the information of complete
data, where that is known: the steps are those of the EM algorithm (`_complete_information`). Then B
starts as the outer product of the agents' scores (BHHH), is carried on by BFGS updates from exact
gradients, and is taken anew from the scores as the maximum comes near, where it is the information
matrix. Steps that fail are shortened by damping (Levenberg-Marquardt). The end is told by the gain
that the model still promises: half the squared distance to the maximum in units of standard errors,
which no change of units can alter. Along directions in which no agent has a score (parameters that
are not identified) that model has next to no curvature, and promises gains that never come. The
search ends there when several steps have brought nothing and no other direction promises any.
"""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from pomdpfit._entries import Entries
from pomdpfit._errors import Result
from pomdpfit._types import Float
from pomdpfit.estimators._quadratic import bounded_quadratic
from pomdpfit.estimators._walk import Climb, Complete, Outer, Question, Slope, Walk, lost
from pomdpfit.inference._information import null_directions

_RIDGE = 1e-10  # of the diagonal: the outer product of few agents' scores is singular
_ARMIJO = 1e-4
_FAR = 5.0  # a promised gain for each coordinate, below which the maximum is near
_LINGER = 0.3  # of the gain promised before: EM is slow from here
_REFRESH = 1e-2  # the promised gain has fallen so far since the scores were last taken
_REST = 5  # steps at least in between: scores cost as much as several gradients
_NOISE = 1e-13  # of the log-likelihood: what rounding leaves of it
# Over so many steps together the log-likelihood has risen by no more: see `_Ascent.only_flat` and
# `_Ascent.stuck`.
_PAUSE, _END = (5, 1e-6), (10, 1e-8)
_FIRST_DAMPING = 0.1  # less shortens a step too little to tell
_MAX_DAMPING = 1e10
# An entry is left where it is if moving it by so many times its size (or one) could not matter.
# Scores that vanish (of the cost of a condition that is never met) have an outer product that
# vanishes faster: the model would promise much of a step to 1e24, and of the next to 1e54.
_REACH = 1e8


class _Model:
    """The quadratic model at the present point, in the coordinates of its chart."""

    def __init__(self, entries: Entries, phi: np.ndarray) -> None:
        self.entries = entries
        room, self.order = self._room(phi)
        self.chart = entries.chart(phi, priority=room)
        self.far = _REACH * np.maximum(1.0, np.abs(phi))
        self.B = np.eye(len(self.chart.independent))

    def _room(self, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far entries are from their bounds, and their order by that, the farthest first."""
        room = np.minimum(phi - self.entries.low, self.entries.high - phi)
        return room, np.argsort(-room, kind="stable")

    def take(self, outer: np.ndarray) -> None:
        """BHHH: B = sum_i w_i s_i s_i'."""
        self.B = _safe(outer)

    def stay_along(self, directions: np.ndarray) -> None:
        """Give B a curvature of one along some directions, in units of its diagonal."""
        across = np.sqrt(np.diag(self.B))[:, None] * directions
        self.B = self.B + across @ across.T

    def move_to(self, phi: np.ndarray) -> None:
        """The same B in the coordinates of the chart at phi."""
        room, order = self._room(phi)
        if not len(self.entries.equations) or np.array_equal(order, self.order):
            return  # a chart depends on phi through this order alone
        chart, self.order = self.entries.chart(phi, priority=room), order
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
        self, phi: np.ndarray, gradient: np.ndarray, damping: float, *, negligible: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The best step between the bounds: in coordinates, in entries, and its promised gain.

        Coordinates stay whose score and information are `negligible` over the whole of their reach.
        """
        jacobian, B = self.chart.jacobian, self.B
        g, size = gradient @ jacobian, B.diagonal()
        if damping > 0:
            B = B + np.diag(damping * size)
        low, high = self.entries.low - phi, self.entries.high - phi
        far = self.far[self.chart.independent]
        moves = (np.abs(g) * far > negligible) | (size * far**2 > negligible)
        if moves.all():
            d = bounded_quadratic(B, g, jacobian, low, high)
        else:
            d = np.zeros(len(g))
            if moves.any():
                block = B[np.ix_(moves, moves)]
                d[moves] = bounded_quadratic(block, g[moves], jacobian[:, moves], low, high)
        return d, jacobian @ d, float(g @ d - 0.5 * d @ B @ d)


def climb(
    entries: Entries,
    phi: Float[np.ndarray, "n"],
    agents: int,
    *,
    tolerance: float = 1e-8,
    max_steps: int = 200,
    tell: Callable[[int, float, float], None] | None = None,
) -> Walk:
    """From phi to a maximum for so many agents that count; `tell(step, value, gain)` hears."""
    here = yield Slope(phi)
    if here is None:
        return lost(phi)
    ascent = _Ascent(entries, phi, here, agents, tolerance)
    if ascent.size == 0:
        return Climb(phi, here[0], here[1], 0.0, 0, Result.CONVERGED)
    result = Result.MAX_STEPS
    while True:
        if (yield from ascent.arrived()):
            result = Result.FLAT if ascent.flat() else Result.CONVERGED
            break
        if (yield from ascent.only_flat()):
            result = Result.CONVERGED
            break
        if ascent.steps >= max_steps:
            break
        if ascent.stuck():
            result = Result.STALLED
            break
        if not (yield from ascent.advance()):
            result = Result.STALLED
            break
        if tell is not None:
            tell(ascent.steps, ascent.value, ascent.gain)
    return Climb(
        ascent.phi,
        ascent.value,
        ascent.gradient,
        ascent.gain,
        ascent.steps,
        result,
        trace=tuple(ascent.trace),
    )


class _Ascent:
    """A climb under way: where it is, its model, and when the scores were last taken."""

    def __init__(
        self, entries: Entries, phi: np.ndarray, here: tuple, agents: int, tolerance: float
    ) -> None:
        self.entries, self.tolerance = entries, tolerance
        self.phi, (self.value, self.gradient) = phi, here
        self.model = _Model(entries, phi)
        self.size = len(self.model.chart.independent)
        # The scores of no more agents than coordinates span their own sum: in units of their outer
        # product the distance to the maximum is the same everywhere. Updates alone must do there,
        # and a slope that levels off is told from a maximum by steps that stay long.
        self.few = agents <= self.size
        self.steps, self.damping, self.gain = 0, 0.0, np.inf
        self.fresh_gain, self.fresh_at, self.astray = np.inf, -1, False
        self.far = True  # for all that is known
        self.fresh_B = self.model.B
        self.flat_directions = np.zeros((self.size, 0))  # no agent's score was along them
        self.trace = [self.value]

    def arrived(self) -> Generator[Question, Any, bool]:
        """Whether no gain worth the name is promised, by scores taken here where they can tell."""
        if self.far and (yield from self._steps_of_em()):
            return False
        if self.fresh_at < 0:  # nothing is known that could promise
            return (yield from self._take_scores(judge=False))
        small = self._promise()
        fell = self.gain < _REFRESH * self.fresh_gain and self.steps >= self.fresh_at + _REST
        due = (small or fell) and self.fresh_at < self.steps
        if due and not self.few:
            small = yield from self._take_scores(judge=small and self.steps > 0 and not self.astray)
        return small

    def _steps_of_em(self) -> Generator[Question, Any, bool]:
        """Whether the maximum is still far, and the next step one of EM."""
        before = self.gain
        complete = yield Complete(self.phi, self.model.chart.jacobian)
        if complete is not None:
            self.model.take(complete)
            self._promise()
        lingers = self.gain > _LINGER * before  # at first there is nothing before
        self.far = complete is not None and not lingers and self.gain > _FAR * self.size
        return self.far

    def _step(self, damping: float) -> tuple[np.ndarray, np.ndarray, float]:
        return self.model.step(self.phi, self.gradient, damping, negligible=self.tolerance)

    def _promise(self) -> bool:
        self.bold = self._step(0.0)
        _, change, self.gain = self.bold
        return self.gain <= self.tolerance and (not self.few or _short(change, self.phi))

    def flat(self) -> bool:
        """Whether a gain is promised after all, along entries that do not matter."""
        _, _, gain = self.model.step(self.phi, self.gradient, 0.0)
        return gain > self.tolerance

    def _take_scores(self, *, judge: bool) -> Generator[Question, Any, bool]:
        """B anew from the scores; if they were only to judge and say no, B stays what it was."""
        known = self.model.B
        outer = yield Outer(self.phi, self.model.chart.jacobian)
        self.model.take(outer)
        if not self.few:
            self.flat_directions = null_directions(outer)
        self.fresh_B = self.model.B
        small = self._promise()
        if judge and not small:
            self.model.B = known  # curvature that steps have taught leads on
            self.bold = self._step(0.0)
        self.fresh_gain, self.fresh_at = self.gain, self.steps
        return small

    def only_flat(self) -> Generator[Question, Any, bool]:
        """Whether steps bring nothing, and no gain is promised but along flat directions.

        Flat are those in which no agent has a score, by scores taken here.
        """
        if not self.flat_directions.shape[1] or not self._paused(*_PAUSE):
            return False
        if self.fresh_at < self.steps:
            if self.steps < self.fresh_at + _REST:
                return False
            yield from self._take_scores(judge=True)
        known, self.model.B = self.model.B, self.fresh_B
        self.model.stay_along(self.flat_directions)
        _, _, gain = self._step(0.0)
        self.model.B = known
        if gain <= self.tolerance:
            self.gain = gain
        return gain <= self.tolerance

    def stuck(self) -> bool:
        """Whether many steps have brought nothing, where there are flat directions."""
        return self.flat_directions.shape[1] > 0 and self._paused(*_END)

    def _paused(self, steps: int, gain: float) -> bool:
        """Whether the last so many steps together have gained no more than that."""
        return len(self.trace) > steps and self.value - self.trace[-1 - steps] <= gain

    def advance(self) -> Generator[Question, Any, bool]:
        """One accepted step; False if there is none, even with a B taken anew."""
        while True:
            found = yield from self._search()
            if found is not None:
                break
            if self.astray or self.steps == 0:
                return False
            self.astray, self.damping = True, 0.0  # a B that has gone astray is taken anew
            yield from self._take_scores(judge=False)
        d, phi, (value, gradient), at_once = found
        self.astray = False
        self.model.update(d, -(self.model.chart.jacobian.T @ (gradient - self.gradient)))
        self.phi, self.value, self.gradient = phi, value, gradient
        if at_once:  # where less has just failed, it would fail again
            self.damping = 0.0 if self.damping < 1e-6 else self.damping / 10
        self.model.move_to(phi)
        self.steps += 1
        self.trace.append(value)
        return True

    def _search(self) -> Generator[Question, Any, tuple | None]:
        """A step that rises enough, more and more damped until there is one; whether at once."""
        at_once = True
        while self.damping <= _MAX_DAMPING:
            d, change, _ = self._step(self.damping) if self.damping > 0 else self.bold
            phi = self.entries.on_bounds(self.phi + change)
            found = yield Slope(phi)
            rise = _ARMIJO * (self.gradient @ change) - _NOISE * abs(self.value)
            if found is not None and found[0] >= self.value + rise:
                return d, phi, found, at_once
            at_once = False
            self.damping = max(10 * self.damping, _FIRST_DAMPING)
        return None


def _short(change: np.ndarray, phi: np.ndarray) -> bool:
    """Whether a step is short beside the entries, as it is not on the way to infinity."""
    return bool((np.abs(change) <= 1e-3 * np.maximum(1.0, np.abs(phi))).all())


def _safe(B: np.ndarray) -> np.ndarray:
    """B with a ridge that makes it positive where scores do not."""
    diagonal = np.diag(B).copy()
    diagonal[diagonal <= 0] = max(diagonal.max(initial=0.0), 1.0)
    return B + _RIDGE * np.diag(diagonal)
