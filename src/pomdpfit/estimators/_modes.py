"""Every maximum that was found: hidden-state labels aligned, equal ones joined, ranked."""

import itertools
from collections.abc import Sequence

import numpy as np

from pomdpfit._errors import ImpossibleObservationError, SolveError
from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._params import ParameterSpace
from pomdpfit._types import Theta
from pomdpfit.estimators._paths import Path

_SAME_VALUE = 1e-3  # in log-likelihood: far below what any test could tell apart
_SAME_PLACE = 1e-2  # relative to the size of an entry, or absolute below one
_MAX_STATES = 4  # whose permutations are tried


def permute_states(
    space: ParameterSpace, theta: Theta, order: Sequence[int], labels: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """theta with every axis that is labelled by the hidden states in another order."""
    turned = {}
    for name, p in space.parameters.items():
        value = np.asarray(theta[name])
        for axis, names in enumerate(p.labels or ()):
            if names == labels:
                value = np.take(value, order, axis=axis)
        turned[name] = value
    return turned


def symmetries(
    likelihood: AbstractLikelihood, theta: Theta, labels: tuple[str, ...] | None
) -> list[tuple[int, ...]]:
    """The orders of the hidden states under which the likelihood is the same, found by trying.

    Only parameters labelled with the model's state names can be turned. One generic theta settles
    it: the likelihood is analytic.
    """
    if labels is None or not 1 < len(labels) <= _MAX_STATES:
        return []
    identity = tuple(range(len(labels)))
    try:
        here = likelihood.terms(theta).total
        found = []
        for order in itertools.permutations(identity):
            if order == identity:
                continue
            turned = permute_states(likelihood.space, theta, order, labels)
            if abs(likelihood.terms(turned).total - here) <= 1e-7 * (1 + abs(here)):
                found.append(order)
    except (ImpossibleObservationError, SolveError):
        return []
    return found


def align(
    space: ParameterSpace,
    theta: Theta,
    reference: Theta,
    orders: Sequence[tuple[int, ...]],
    labels: tuple[str, ...] | None,
) -> dict[str, np.ndarray]:
    """Of all equivalent labellings of theta, the one nearest to the reference."""
    candidates = [{name: np.asarray(leaf) for name, leaf in theta.items()}]
    if labels is not None:
        candidates += [permute_states(space, theta, order, labels) for order in orders]
    target = space.to_series(reference).to_numpy()
    distance = [np.sum((space.to_series(c).to_numpy() - target) ** 2) for c in candidates]
    return candidates[int(np.argmin(distance))]


def same(space: ParameterSpace, a: Path, b: Path) -> bool:
    """Whether two climbs have ended on the same maximum."""
    if abs(a.climbs[-1].value - b.climbs[-1].value) > _SAME_VALUE:
        return False
    x, y = (space.to_series(path.theta).to_numpy() for path in (a, b))
    return bool((np.abs(x - y) <= _SAME_PLACE * np.maximum(1.0, np.abs(y))).all())


def join_equal(
    space: ParameterSpace, paths: Sequence[Path], leaves: Sequence[str] | None = None
) -> list[Path]:
    """Paths that have met become one, which remembers all their origins; highest first."""
    import dataclasses

    kept: list[Path] = []
    chosen = None if leaves is None else [n for n in space.parameters if n in set(leaves)]
    view = space if chosen is None else ParameterSpace({n: space.parameters[n] for n in chosen})
    for path in sorted(paths, key=lambda path: -path.climbs[-1].value):
        for k, other in enumerate(kept):
            if same(view, path, other):
                kept[k] = dataclasses.replace(other, origins=(*other.origins, *path.origins))
                break
        else:
            kept.append(path)
    return kept


def stage_values(path: Path) -> tuple[float, ...]:
    """The height reached in each stage: two-stage estimates are ranked by the first one first."""
    return tuple(climb.value for climb in path.climbs)


def part_names(part: Part) -> str:
    """What a stage climbs, in words."""
    return {
        Part.OBSERVATION: "observations",
        Part.CHOICE: "choices",
        Part.BOTH: "observations and choices",
    }[part]
