"""Scores and second derivatives at an estimate: all that covariances are made of.

Hessians are central differences of exact first derivatives, with steps of a thousandth of a
standard error, so that their truncation error is of the order of a millionth.
"""

import dataclasses

import numpy as np

from pomdpfit._entries import Chart, Entries
from pomdpfit._errors import EstimationError
from pomdpfit._log_likelihood import AbstractLikelihood, LogLikelihood, Part
from pomdpfit._types import Array, Float, Theta

_STEP = 1e-3  # in standard errors
_RIDGE = 1e-10
WEAK = 1e-4  # of the curvature along the best direction: a hundred times its standard error


@dataclasses.dataclass(frozen=True, eq=False)
class Information:
    """Per-agent scores and Hessians in p free coordinates.

    Of a data set that is streamed there are 2 p rows of `scores` with the same outer products.
    `names` are the free entries; `jacobian` says how all entries move with them. `first` marks the
    coordinates of a first stage: there the observation terms alone speak, in the others the choice
    terms. It is None where all coordinates maximise the whole likelihood.
    """

    names: tuple[str, ...]
    entries: tuple[str, ...]
    jacobian: Float[np.ndarray, "n p"]
    scores: Float[np.ndarray, "M 2 p"]
    hessian: Float[np.ndarray, "p p"] | None = None
    first: np.ndarray | None = None

    @property
    def moments(self) -> Float[np.ndarray, "N p"]:
        """Each agent's contribution to the equations that define the estimate."""
        if self.first is None:
            return self.scores.sum(axis=1)
        return np.where(self.first, self.scores[:, 0], self.scores[:, 1])

    def covariance(self, kind: str) -> Float[np.ndarray, "p p"]:
        """The covariance of the free coordinates.

        With A = -(derivative of the moments) and B = sum_i m_i m_i':
        hessian      A^-1 for a joint estimate; for two stages Murphy and Topel's, A^-1 D A^-T with
                     D the block diagonal of A (the stages' scores are uncorrelated)
        opg          the same with outer products of scores in the place of second derivatives
        sandwich     A^-1 B A^-T, clustered by agent; for two stages the stacked moments
        uncorrected  of two stages: each stage as if the other were known
        """
        A = self._bread(outer=kind == "opg")
        if kind == "uncorrected" and self.first is None:
            raise EstimationError("a joint estimate has no first stage to correct for.")
        if kind in {"hessian", "opg", "uncorrected"}:
            if self.first is None:
                return _inverse(A)
            D = np.where(self.first[:, None] == self.first[None, :], A, 0.0)
            if kind == "uncorrected":
                return _inverse(D)
            inverse = _inverse(A)
            return inverse @ D @ inverse.T
        if kind == "sandwich":
            inverse = _inverse(A)
            return inverse @ (self.moments.T @ self.moments) @ inverse.T
        raise EstimationError(
            f"there is no covariance of kind {kind!r}; there are hessian, opg, sandwich and, after "
            "two stages, uncorrected."
        )

    @property
    def bread(self) -> Float[np.ndarray, "p p"]:
        """A, from second derivatives where there are any."""
        return self._bread(outer=self.hessian is None)

    def _bread(self, *, outer: bool) -> Float[np.ndarray, "p p"]:
        """A: block lower triangular after two stages, for the first does not see the second."""
        if not outer:
            if self.hessian is None:
                raise EstimationError(
                    "the fit skipped the Hessian: only the covariance of kind 'opg' can be had."
                )
            return -self.hessian
        if self.first is None:
            total = self.scores.sum(axis=1)
            return total.T @ total
        observation, choice = self.scores[:, 0], self.scores[:, 1]
        A = np.where(self.first[:, None], observation.T @ observation, choice.T @ choice)
        return np.where(self.first[:, None] & ~self.first[None, :], 0.0, A)

    def eigenvalues(self) -> tuple[np.ndarray, np.ndarray]:
        """Of -hessian (its diagonal blocks after two stages) in units of its own diagonal."""
        A = self.bread
        if self.first is not None:
            A = np.where(self.first[:, None] == self.first[None, :], A, 0.0)
        scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(A)), 1e-300))
        return np.linalg.eigh(0.5 * (A + A.T) * np.outer(scale, scale))

    @property
    def flat(self) -> tuple[str, ...]:
        """The parameters in the flattest direction, if it is told a hundred times less well."""
        if not self.names or not np.isfinite(self.bread).all():
            return ()
        values, vectors = self.eigenvalues()
        if values[0] >= WEAK * values[-1]:
            return ()
        size = np.abs(vectors[:, 0])
        return tuple(self.names[k] for k in np.argsort(-size, kind="stable") if size[k] > 0.1)


def _inverse(A: np.ndarray) -> np.ndarray:
    """A^-1 in scaled units; NaN throughout where A is singular: nothing is invented."""
    if A.size == 0:
        return A
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(A)), 1e-300))
    scaled = A * np.outer(scale, scale)
    if not np.isfinite(scaled).all() or np.linalg.cond(scaled) > 1e14:
        return np.full_like(A, np.nan)
    return np.linalg.inv(scaled) * np.outer(scale, scale)


def scores_along(
    likelihood: AbstractLikelihood,
    entries: Entries,
    theta: Theta,
    chart: Chart,
    start: Array | None = None,
) -> tuple[LogLikelihood, Float[np.ndarray, "N 2 p"]]:
    """The terms, and each agent's scores in the coordinates of a chart."""
    return likelihood.push(theta, entries.split(chart.jacobian.T), start=start)


def information_at(
    likelihood: AbstractLikelihood,
    entries: Entries,
    theta: Theta,
    chart: Chart,
    first: np.ndarray | None,
    start: Array | None = None,
    scores: Float[np.ndarray, "N 2 p"] | None = None,
    *,
    hessian: bool = True,
) -> Information:
    """Scores along the chart (unless they are known) and the Hessian in its coordinates."""
    if scores is None:
        terms, scores = scores_along(likelihood, entries, theta, chart, start)
        start = terms.start if terms.start is not None else start
    information = Information(
        tuple(entries.names[k] for k in chart.independent),
        entries.names,
        chart.jacobian,
        scores,
        None,
        first,
    )
    if not hessian:
        return information
    if len(chart.independent) == 0:
        return dataclasses.replace(information, hessian=np.zeros((0, 0)))
    steps = step_sizes(information, entries, entries.flatten(theta))
    second = _second(likelihood, entries, theta, chart, first, steps, start)
    return dataclasses.replace(information, hessian=second)


def step_sizes(
    information: Information, entries: Entries, phi: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "p"]:
    """A thousandth of a standard error, or less where a bound is near."""
    free = [entries.names.index(name) for name in information.names]
    here, A = np.abs(phi[free]), information._bread(outer=True)
    # Standard errors with the others known give the units, whatever those of the parameters are.
    # Scores of few agents vanish at the maximum and give none.
    told = (np.diag(A) > 0) & (len(information.scores) > len(A))
    unit = np.where(told, 1.0 / np.sqrt(np.where(told, np.diag(A), 1.0)), np.maximum(here, 1e-3))
    scaled = np.where(told[:, None] & told, A * np.outer(unit, unit), 0.0)
    variance = np.abs(np.diag(np.linalg.pinv(scaled + _RIDGE * np.eye(len(A)))))
    steps = np.where(told, unit * np.minimum(_STEP * np.sqrt(variance), 0.1), _STEP * unit)
    steps = np.clip(steps, 1e-8 * here, _STEP * np.maximum(here, 1.0))
    slack = np.minimum(phi - entries.low, entries.high - phi)[:, None]
    pace = np.abs(information.jacobian)
    room = np.divide(slack, pace, out=np.full(pace.shape, np.inf), where=pace > 0)
    return np.minimum(steps, 0.5 * np.min(room, axis=0))


def _second(
    likelihood: AbstractLikelihood,
    entries: Entries,
    theta: Theta,
    chart: Chart,
    first: np.ndarray | None,
    steps: np.ndarray,
    start: Array | None,
) -> Float[np.ndarray, "p p"]:
    """Row j: how the equation of coordinate j changes with every coordinate."""
    N, directions = likelihood.panel.agent_count, entries.split(chart.jacobian.T)

    def of(part: Part, which: np.ndarray, along: np.ndarray) -> Float[np.ndarray, "p k"]:
        """Second derivatives in `which` coordinates, and along some of them."""
        wanted = np.array([Part.OBSERVATION in part, Part.CHOICE in part], dtype=float)
        weights = np.broadcast_to(wanted, (N, 2))
        chosen = {name: leaf[which] for name, leaf in directions.items()}
        length = {int(k): float(steps[which][k]) for k in np.flatnonzero(along[which])}
        return likelihood.curvature(theta, weights, chosen, length, part=part, start=start)

    everywhere = np.ones(len(steps), dtype=bool)
    if first is None:
        hessian = of(Part.BOTH, everywhere, everywhere)
        return 0.5 * (hessian + hessian.T)
    hessian = np.zeros((len(steps), len(steps)))
    if not first.all():
        # What the choices' slope in a reward changes by along the dynamics is, the other way
        # round, what their slope in the dynamics changes by along the reward: fewer steps.
        hessian[~first] = of(Part.CHOICE, everywhere, ~first).T
    # Rewards do not enter the first stage.
    hessian[np.ix_(first, first)] = of(Part.OBSERVATION, first, first)
    return hessian
