"""Flat directions of a log-likelihood where an estimate lies on bounds.

A search along a ridge may end on a bound. There the entries that are free look identified, as if
those on bounds were known. So bounds are freed before the rank is taken, unless the data hold the
estimate against them: unless the multiplier differs from zero by more than its sampling error.
"""

from collections.abc import Sequence

import numpy as np

from pomdpfit._entries import Chart, Entries, free_entries
from pomdpfit._errors import PomdpfitError
from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._restrictions import Restrictions
from pomdpfit._types import Float
from pomdpfit.estimators._base import Stage
from pomdpfit.estimators._objective import Objective, Scores
from pomdpfit.estimators._paths import Path
from pomdpfit.inference._information import scoreless, scores_along

_HELD = 2.0  # standard errors of a multiplier: from here on the data hold the estimate on the bound
_INSIDE = 0.1  # standard errors with the others known


def flat_directions(
    likelihood: AbstractLikelihood,
    restrictions: Restrictions | None,
    stages: Sequence[Stage],
    path: Path,
    scores: Scores | None = None,
) -> Float[np.ndarray, "n k"]:
    """Directions in which no agent has a score, bounds with multipliers near zero freed.

    In units of standard errors with the others known, orthonormal for each stage, with zeros for
    entries that follow from others. The rank is that of scores a little inside the freed bounds: at
    the bound itself the scores of an entry may vanish though the log-likelihood is curved there.

    stages  that define the estimate: one, or two with an objective of their own each
    scores  at the end of the path, if they are known
    """
    space = likelihood.space
    entries = free_entries(space, space.free_leaves, path.theta, restrictions)
    phi, owners = entries.flatten(path.theta), space.only(entries.leaves).owners
    order = np.arange(len(phi), dtype=float)
    ranks = np.empty(len(phi))  # the entries farthest from their bounds follow from the others
    ranks[np.lexsort((phi, np.minimum(phi - entries.low, entries.high - phi)))] = order
    chart = entries.chart(phi, priority=ranks)
    parts = None if scores is None else scores.along(chart.jacobian)
    if parts is None:
        parts = scores_along(likelihood, entries, path.theta, chart, path.warm)[1]
    found = [np.zeros((len(phi), 0))]
    for stage in stages:
        mine = np.array([owner in stage.leaves for owner in owners], dtype=bool)
        own = mine[chart.independent]
        unit, null = scoreless(_of(stage.part, parts)[:, own])
        if not null.shape[1]:
            continue
        coordinates, ways = chart.independent[own], chart.jacobian[:, own]
        held = np.zeros(len(phi), dtype=bool)
        slope = _slope(likelihood, restrictions, stage, path) @ ways[mine]
        held[coordinates] = entries.at_bound(phi)[coordinates] & (np.abs(slope * unit) > _HELD)
        free = ~held[coordinates]
        inside = _inside(entries, phi, coordinates[free], ways[:, free], unit[free])
        there = entries.chart(inside, held=held, priority=order)
        try:
            null = _null(likelihood, entries, stage.part, inside, there, path, mine)
        except PomdpfitError:  # there is no likelihood inside: what is flat here counts
            there = chart
        own = mine[there.independent]
        found.append(np.zeros((len(phi), null.shape[1])))
        found[-1][there.independent[own]] = null
    return np.concatenate(found, axis=1)


def _of(part: Part, parts: Float[np.ndarray, "M 2 p"]) -> Float[np.ndarray, "M p"]:
    """The scores of a part."""
    return parts[:, [Part.OBSERVATION in part, Part.CHOICE in part]].sum(axis=1)


def _slope(
    likelihood: AbstractLikelihood, restrictions: Restrictions | None, stage: Stage, path: Path
) -> Float[np.ndarray, "m"]:
    """The gradient of a stage's objective in the entries of its leaves."""
    entries = free_entries(likelihood.space, stage.leaves, path.theta, restrictions)
    objective = Objective(likelihood, entries, stage.part, path.theta, start=path.warm)
    phi = entries.flatten(path.theta)
    found = objective.gradient(phi)
    return np.zeros(len(phi)) if found is None else found[1]


def _inside(
    entries: Entries,
    phi: Float[np.ndarray, "n"],
    coordinates: np.ndarray,
    ways: Float[np.ndarray, "n k"],
    unit: Float[np.ndarray, "k"],
) -> Float[np.ndarray, "n"]:
    """phi with each coordinate moved a little away from the bound that is nearest."""
    below, above = phi - entries.low, entries.high - phi
    up = (below <= above)[coordinates]
    room = np.where(up, above[coordinates], below[coordinates])
    change = ways @ (np.where(up, 1.0, -1.0) * np.minimum(_INSIDE * unit, 0.5 * room))
    room = np.where(change > 0, above, below)
    moved = change != 0
    share = np.min(room[moved] / np.abs(change[moved]), initial=2.0)
    return phi + min(1.0, 0.5 * share) * change


def _null(
    likelihood: AbstractLikelihood,
    entries: Entries,
    part: Part,
    phi: Float[np.ndarray, "n"],
    chart: Chart,
    path: Path,
    mine: np.ndarray,
) -> Float[np.ndarray, "q k"]:
    """Directions without scores at phi, in the coordinates of a chart that are a stage's."""
    theta = entries.insert(phi, path.theta)
    parts = scores_along(likelihood, entries, theta, chart, path.warm)[1]
    return scoreless(_of(part, parts)[:, mine[chart.independent]])[1]
