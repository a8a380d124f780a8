"""Maxima that are one and the same."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pomdpfit._errors import Result
from pomdpfit._log_likelihood import SAME_VALUE
from pomdpfit._params import ParameterSpace
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._paths import Path

_SAME_PLACE = 1e-2  # relative to the size of an entry, or absolute below one


def same(space: ParameterSpace, a: Path, b: Path) -> bool:
    """Whether two climbs have ended on the same maximum."""
    if abs(a.climbs[-1].value - b.climbs[-1].value) > SAME_VALUE:
        return False
    x, y = (space.to_series(path.theta).to_numpy() for path in (a, b))
    return bool((np.abs(x - y) <= _SAME_PLACE * np.maximum(1.0, np.abs(y))).all())


def join_equal(space: ParameterSpace, paths: Sequence[Path], leaves: Iterable[str]) -> list[Path]:
    """Paths that have met in these leaves become one, which remembers all their origins.

    Of a path that ran out of steps beside a maximum and one that reached it, the latter goes on.
    """
    wanted = set(leaves)
    view = space.only(name for name in space.parameters if name in wanted)
    kept: list[Path] = []
    for path in sorted(paths, key=lambda path: -path.climbs[-1].value):
        for k, other in enumerate(kept):
            if same(view, path, other):
                better = path.climbs[-1].arrived and not other.climbs[-1].arrived
                origins = (*other.origins, *path.origins)
                kept[k] = dataclasses.replace(path if better else other, origins=origins)
                break
        else:
            kept.append(path)
    return kept


def rank(path: Path, estimator: AbstractEstimator) -> tuple[float, ...]:
    """What the highest path has most of: two-stage estimates by their first stage first.

    That is their definition; differences below those between maxima do not count there.
    """
    values = tuple(climb.value for climb in path.decisive(estimator))
    return tuple(round(v / SAME_VALUE) for v in values) if estimator.by_stages else values


def arrived(path: Path, estimator: AbstractEstimator) -> bool:
    """Whether all climbs that define the estimate have come to an end of their own."""
    return all(climb.arrived for climb in path.decisive(estimator))


def maxima(
    space: ParameterSpace,
    ranked: Sequence[Path],
    estimator: AbstractEstimator,
    flat: Callable[[Path], bool],
) -> list[Path]:
    """The first of the ranked paths, which the estimate is taken from, and the other maxima.

    Paths that have not arrived are no maxima. Equal log-likelihoods are those of one maximum where
    one point is the other in other words (the same numbers in another order: states renamed), or
    where the log-likelihood is `flat`: they lie on one ridge.
    """
    found = [ranked[0]]
    for path in ranked[1:]:
        ends = arrived(path, estimator)
        # No step rises from a point of a ridge either, whatever gain is promised along it.
        stalled = all(c.arrived or c.result is Result.STALLED for c in path.decisive(estimator))
        for k, other in enumerate(found):
            if not (ends or stalled) or not _tied(path, other, estimator):
                continue
            if (arrived(other, estimator) and ends and _renamed(space, path, other)) or flat(other):
                found[k] = dataclasses.replace(other, origins=(*other.origins, *path.origins))
                break
        else:
            if ends:
                found.append(path)
    return found


def _tied(a: Path, b: Path, estimator: AbstractEstimator) -> bool:
    """Whether two paths have ended at equal values."""
    pairs = zip(a.decisive(estimator), b.decisive(estimator), strict=True)
    return all(abs(x.value - y.value) <= SAME_VALUE for x, y in pairs)


def _renamed(space: ParameterSpace, a: Path, b: Path) -> bool:
    """Whether the free leaves of one hold the numbers of the other in another order."""
    for name in space.free_leaves:
        x, y = (np.sort(np.ravel(path.theta[name])) for path in (a, b))
        if (np.abs(x - y) > _SAME_PLACE * np.maximum(1.0, np.abs(y))).any():
            return False
    return True
