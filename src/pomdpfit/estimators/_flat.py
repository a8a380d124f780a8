"""Flat directions that lead off the bounds on which a search has ended.

A search along a ridge may end on a bound. There the entries that are free look identified, as if
those on bounds were known, though they are not.
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from pomdpfit._entries import Chart, Entries, free_entries
from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._restrictions import Restrictions
from pomdpfit._types import Float
from pomdpfit.estimators._base import Stage
from pomdpfit.estimators._objective import Objective, Scores
from pomdpfit.estimators._paths import Path
from pomdpfit.inference._information import WEAK, by_size, moments_of, scoreless

_ROUNDING = 1e-6  # of a direction
_STEP = 1e-3  # in standard errors with the others known


def flat_off_bounds(
    likelihood: AbstractLikelihood,
    restrictions: Restrictions | None,
    stages: Sequence[Stage],
    path: Path,
    chart: Chart,
    scores: Scores,
) -> tuple[str, ...]:
    """The entries that a flat direction off the bounds moves most; none if there is none.

    chart   of all free entries, those on bounds included
    stages  that define the estimate: one, or two with an objective of their own each
    """
    space = likelihood.space
    entries = free_entries(space, space.free_leaves, path.theta, restrictions)
    parts, owners = scores.along(chart.jacobian), space.only(entries.leaves).owners
    if parts is None:
        return ()
    for stage in stages:
        mine = np.array([owners[k] in stage.leaves for k in chart.independent], dtype=bool)
        first = (
            None if stage.part == Part.BOTH else np.full(len(mine), stage.part == Part.OBSERVATION)
        )
        unit, null = scoreless(moments_of(parts, first)[:, mine])
        jacobian = chart.jacobian[:, mine] * unit
        inner = _inward(entries, entries.flatten(path.theta), jacobian @ null)
        if inner is None:
            continue
        way = null @ inner
        if _level(likelihood, restrictions, stage, path, entries.split(jacobian @ way)):
            names = [entries.names[k] for k in chart.independent[mine]]
            return by_size(names, way[:, None])
    return ()


def _inward(
    entries: Entries, phi: Float[np.ndarray, "n"], ways: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "k"] | None:
    """A mixture, of length one, of ways that lead off bounds and across none: a linear program."""
    low, high = phi <= entries.low, phi >= entries.high
    inward = np.concatenate([ways[low], -ways[high]])
    size = np.linalg.norm(inward, axis=1)
    moved = size > _ROUNDING * size.max(initial=0.0)
    if not moved.any():
        return None
    inward = inward[moved] / size[moved, None]
    found = linprog(-inward.sum(axis=0), -inward, np.zeros(len(inward)), bounds=(-1, 1))
    if found.status != 0 or -found.fun <= _ROUNDING:
        return None
    return found.x / np.linalg.norm(found.x)


def _level(
    likelihood: AbstractLikelihood,
    restrictions: Restrictions | None,
    stage: Stage,
    path: Path,
    way: dict[str, np.ndarray],
) -> bool:
    """Whether the objective of a stage has no curvature along a way: where bounds push, it may."""
    entries = free_entries(likelihood.space, stage.leaves, path.theta, restrictions)
    objective = Objective(likelihood, entries, stage.part, path.theta, start=path.warm)
    phi, along = entries.flatten(path.theta), entries.flatten(way)
    room = np.where(along > 0, entries.high - phi, phi - entries.low)
    pace = np.divide(room, np.abs(along), out=np.full(len(phi), np.inf), where=along != 0)
    step = min(_STEP, 0.5 * pace[pace > _ROUNDING * _STEP].min(initial=np.inf))
    here, there = objective.gradient(phi), objective.gradient(phi + step * along)
    if here is None or there is None:
        return False
    return bool(abs((there[1] - here[1]) @ along) <= WEAK * step)
