"""Scores and second derivatives at an estimate: all that covariances are made of.

Hessians are central differences of exact first derivatives, with steps of a thousandth of a
standard error, so that their truncation error is of the order of a millionth.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from pomdpfit._entries import Chart, Entries
from pomdpfit._errors import EstimationError
from pomdpfit._log_likelihood import AbstractLikelihood, LogLikelihood, Part
from pomdpfit._types import Array, Bool, Float, Theta

_STEP = 1e-3  # in standard errors
_RIDGE = 1e-10
_ROUNDING = 1e-13  # of an eigenvalue of the sum of outer products, in units of the largest
_DIGITS = 9  # of a score in units of their norm: with fewer that differ, two agents are alike
_MOVES = 1e-6  # in units as above: less of an entry in a direction is rounding
WEAK = 1e-4  # of the curvature along the best direction: a hundred times its standard error


@dataclasses.dataclass(frozen=True, eq=False)
class Information:
    """Per-agent scores and Hessians in p free coordinates.

    Of a data set that is streamed there are 2 p rows of `scores` with the same outer products.
    `names` are the free entries; `jacobian` says how all entries move with them. `first` marks the
    coordinates of a first stage: there the observation terms alone speak, in the others the choice
    terms. It is None where all coordinates maximise the whole likelihood. `ridge` holds flat
    directions over all entries where the estimate lies on bounds that do not identify it (see
    `estimators._flat`).
    """

    names: tuple[str, ...]
    entries: tuple[str, ...]
    jacobian: Float[np.ndarray, "n p"]
    scores: Float[np.ndarray, "M 2 p"]
    hessian: Float[np.ndarray, "p p"] | None = None
    first: np.ndarray | None = None
    ridge: Float[np.ndarray, "n k"] | None = None

    @property
    def moments(self) -> Float[np.ndarray, "N p"]:
        """Each agent's contribution to the equations that define the estimate."""
        return moments_of(self.scores, self.first)

    def covariance(self, kind: str) -> Float[np.ndarray, "p p"]:
        """The covariance of the free coordinates.

        With A = -(derivative of the moments) and B = sum_i m_i m_i':
        hessian      A^-1 for a joint estimate; for two stages Murphy and Topel's, A^-1 D A^-T with
                     D the block diagonal of A (the stages' scores are uncorrelated)
        opg          the same with outer products of scores in the place of second derivatives
        sandwich     A^-1 B A^-T, clustered by agent; for two stages the stacked moments
        uncorrected  of two stages: each stage as if the other were known

        Not a number for entries that a direction moves which is not identified.
        """
        A = self._bread(outer=kind == "opg")
        if kind == "uncorrected" and self.first is None:
            raise EstimationError("a joint estimate has no first stage to correct for.")
        unit, null = self._unidentified
        if not self.not_identified:
            return self._covariance(kind, A)
        # What no flat direction moves has the same covariance whatever the curvature is there.
        across = null / unit[:, None]
        found = self._covariance(kind, A + across @ across.T)
        unknown = self.unknown
        if self.first is not None and unknown[self.first].any() and kind != "uncorrected":
            unknown |= ~self.first  # the second stage is estimated at some theta_2 of many
        found[unknown], found[:, unknown] = np.nan, np.nan
        return found

    def _covariance(self, kind: str, A: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
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
    def unidentified(self) -> Float[np.ndarray, "p k"]:
        """Directions along which the likelihood does not change, one in each column.

        No agent has a score there, and second derivatives show no curvature where they are known.
        They are orthonormal in units of standard errors with the others known. Few agents, or
        agents who are all alike, cannot show this: then there is no column.
        """
        return self._unidentified[1]

    @functools.cached_property
    def _unidentified(self) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p k"]]:
        """Units of the entries, and in them the directions, orthonormal, each stage by itself."""
        units, found = np.ones(len(self.names)), [np.zeros((len(self.names), 0))]
        stages = [np.ones(len(self.names), dtype=bool)]
        if self.first is not None:
            stages = [self.first, ~self.first]
        for stage in stages:
            unit, null = scoreless(self.moments[:, stage])
            if null.shape[1] and self.hessian is not None:
                A = -self.hessian[np.ix_(stage, stage)] * np.outer(unit, unit)
                values, turn = np.linalg.eigh(null.T @ (0.5 * (A + A.T)) @ null)
                null = null @ turn[:, np.abs(values) <= WEAK]
            units[stage] = unit
            found.append(np.zeros((len(units), null.shape[1])))
            found[-1][stage] = null
        return units, np.concatenate(found, axis=1)

    @property
    def flat_directions(self) -> tuple[tuple[str, ...], Float[np.ndarray, "m k"]]:
        """Names of entries, and directions that are not identified: off bounds too, if there are.

        The directions have orthonormal columns in units of standard errors with the others known.
        """
        if self.ridge is not None:
            return self.entries, self.ridge
        return self.names, self.unidentified

    @property
    def not_identified(self) -> bool:
        """Whether there is a direction along which the likelihood is known to be flat."""
        return self.flat_directions[1].shape[1] > 0

    @property
    def unknown(self) -> Bool[np.ndarray, "p"]:
        """Which coordinates a direction that is not identified moves."""
        found = moves(self.unidentified)
        if self.ridge is not None:
            found = found | moves(self.ridge[[self.entries.index(name) for name in self.names]])
        return found

    @property
    def flat(self) -> tuple[str, ...]:
        """The parameters in the flattest direction, if it is told a hundred times less well.

        Where some are not identified, those.
        """
        if self.not_identified:
            return by_size(*self.flat_directions)
        if not self.names or not np.isfinite(self.bread).all():
            return ()
        values, vectors = self.eigenvalues()
        if values[0] >= WEAK * values[-1]:
            return ()
        return by_size(self.names, vectors[:, :1])


def moments_of(
    scores: Float[np.ndarray, "M 2 p"], first: np.ndarray | None
) -> Float[np.ndarray, "M p"]:
    """The scores of the part that each coordinate maximises."""
    if first is None:
        return scores.sum(axis=1)
    return np.where(first, scores[:, 0], scores[:, 1])


def moves(directions: Float[np.ndarray, "p k"]) -> Bool[np.ndarray, "p"]:
    """Which entries any of these orthonormal directions moves."""
    return np.asarray(np.abs(directions).max(axis=1, initial=0.0) > _MOVES)


def by_size(names: Sequence[str], directions: Float[np.ndarray, "p k"]) -> tuple[str, ...]:
    """The names of the entries that orthonormal directions move most, those with most first."""
    size = np.sqrt((directions**2).sum(axis=1))
    return tuple(names[k] for k in np.argsort(-size, kind="stable") if size[k] > 0.1)


def scoreless(
    scores: Float[np.ndarray, "M p"],
) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p k"]]:
    """Units of the entries, and in them the directions in which no agent has a score.

    None where there are too few agents who differ: their scores cannot span all directions.
    """
    outer = scores.T @ scores
    unit = _unit(outer)
    nothing = unit, np.zeros((len(unit), 0))
    if len(scores) <= len(unit) or not np.isfinite(outer).all():
        return nothing
    null = null_directions(outer)
    if null.shape[1]:
        distinct = np.unique(np.round(scores * unit, _DIGITS), axis=0)
        if np.count_nonzero(distinct.any(axis=1)) <= len(unit):  # who has no score does not count
            return nothing
    return unit, null


def _unit(outer: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p"]:
    """Standard errors with the others known; one where no agent has a score."""
    diagonal = np.diag(outer)
    return 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def null_directions(outer: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p k"]:
    """Directions in which no agent has a score, from the sum of their outer products.

    In units of its diagonal; orthonormal columns. Their eigenvalues are zero but for rounding.
    """
    unit = _unit(outer)
    if not len(unit):
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(outer * (unit[:, None] * unit))
    return vectors[:, values <= _ROUNDING * max(values[-1], 0.0)]


def known_variances(
    rows: Float[np.ndarray, "k p"], cov: Float[np.ndarray, "p p"]
) -> tuple[Float[np.ndarray, "p p"], np.ndarray]:
    """cov with zeros for what is not a number, and which rows move an entry that has no variance.

    What the other rows move has a variance all the same.
    """
    unknown = np.isnan(np.diag(cov))
    return np.where(np.isnan(cov), 0.0, cov), (rows[:, unknown] != 0).any(axis=1)


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
    agents = likelihood.panel.scored_agents
    steps = step_sizes(information, entries, entries.flatten(theta), agents)
    second = _second(likelihood, entries, theta, chart, first, steps, start)
    return dataclasses.replace(information, hessian=second)


def step_sizes(
    information: Information, entries: Entries, phi: Float[np.ndarray, "n"], agents: int
) -> Float[np.ndarray, "p"]:
    """A thousandth of a standard error, or less where a bound is near."""
    free = [entries.names.index(name) for name in information.names]
    here, A = np.abs(phi[free]), information._bread(outer=True)
    # Standard errors with the others known give the units, whatever those of the parameters are.
    # Scores of few agents vanish at the maximum and give none.
    told = (np.diag(A) > 0) & (agents > len(A))
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
