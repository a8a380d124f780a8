"""Maxima that are one and the same."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from pomdpfit._params import ParameterSpace
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._paths import Path

SAME_VALUE = 1e-3  # in log-likelihood: far below what any test could tell apart
_SAME_PLACE = 1e-2  # relative to the size of an entry, or absolute below one


def same(space: ParameterSpace, a: Path, b: Path) -> bool:
    """Whether two climbs have ended on the same maximum."""
    if abs(a.climbs[-1].value - b.climbs[-1].value) > SAME_VALUE:
        return False
    x, y = (space.to_series(path.theta).to_numpy() for path in (a, b))
    return bool((np.abs(x - y) <= _SAME_PLACE * np.maximum(1.0, np.abs(y))).all())


def join_equal(space: ParameterSpace, paths: Sequence[Path], leaves: Iterable[str]) -> list[Path]:
    """Paths that have met in these leaves become one, which remembers all their origins."""
    wanted = set(leaves)
    view = space.only(name for name in space.parameters if name in wanted)
    kept: list[Path] = []
    for path in sorted(paths, key=lambda path: -path.climbs[-1].value):
        for k, other in enumerate(kept):
            if same(view, path, other):
                kept[k] = dataclasses.replace(other, origins=(*other.origins, *path.origins))
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
