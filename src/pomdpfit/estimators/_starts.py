"""Starting points spread over the parameter space: a seeded Latin hypercube."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from pomdpfit._entries import free_entries, project
from pomdpfit._errors import EstimationError, ModelError
from pomdpfit._fixed import refuse_other_start
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._params import ParameterSpace
from pomdpfit._restrictions import Restrictions
from pomdpfit._types import Theta
from pomdpfit.estimators._paths import Path

_DEFAULT_STARTS = 5  # for a model with hidden states


def draw_starts(
    space: ParameterSpace,
    theta: Theta,
    count: int,
    seed: int,
    restrictions: Restrictions | None = None,
) -> list[dict[str, np.ndarray]]:
    """`count` points: every parameter's range is cut into `count` strata and each is used once."""
    free = {name: space.parameters[name] for name in space.free_leaves}
    sizes = {name: int(np.prod(p.shape)) for name, p in free.items()}
    rng = np.random.default_rng(seed)
    strata = np.array([rng.permutation(count) for _ in range(sum(sizes.values()))]).reshape(
        -1, count
    )
    uniform = ((strata + rng.uniform(0.02, 0.98, size=strata.shape)) / count).T
    points = []
    for row in uniform:
        point, start = {name: np.asarray(leaf) for name, leaf in theta.items()}, 0
        for name, p in free.items():
            part = row[start : start + sizes[name]].reshape(p.shape)
            point[name] = p.constraint.spread(part, np.asarray(theta[name]))
            start += sizes[name]
        points.append(feasible(space, point, restrictions))
    return points


def feasible(
    space: ParameterSpace, theta: Theta, restrictions: Restrictions | None
) -> dict[str, np.ndarray]:
    """The nearest point that satisfies the restrictions, off the bounds where that can be."""
    entries = free_entries(space, space.free_leaves, theta, restrictions)
    phi, low, high = entries.flatten(theta), entries.low, entries.high
    room = 1e-3 * np.minimum(1.0, high - low)
    inner = dataclasses.replace(
        entries,
        low=np.minimum(low + room, np.maximum(phi, low)),
        high=np.maximum(high - room, np.minimum(phi, high)),
    )
    try:
        return entries.insert(project(inner, phi), theta)
    except ModelError:
        return entries.insert(project(entries, phi), theta)


def off_the_bounds(
    space: ParameterSpace, theta: Theta, share: float = 1e-3
) -> dict[str, np.ndarray]:
    """theta with free entries that lie exactly on a bound moved a little inside.

    A probability of zero is a legal value but a poor start: where the data contradict it there is
    no likelihood to climb from.
    """
    moved = {name: np.asarray(leaf, dtype=float) for name, leaf in theta.items()}
    for name, p in space.parameters.items():
        low, high = p.constraint.bounds()
        value = moved[name]
        if p.fixed or not ((value <= low) | (value >= high)).any():
            continue
        if p.constraint.sums(p.shape):
            moved[name] = (1 - share) * value + share / value.shape[-1]
        else:
            room = share * (high - low if np.isfinite(high) else 1.0)
            value = np.where(value <= low, low + room, value)
            moved[name] = np.where(value >= high, high - room, value)
    return moved


def starting_points(
    likelihood: AbstractLikelihood,
    restrictions: Restrictions | None,
    start: Theta | None,
    starts: int | Sequence[Theta] | Mapping[str, Theta] | None,
    seed: int,
    fixed: Collection[str] = (),
) -> list[Path]:
    """The user's start (or the example), points of the user's own, and drawn ones."""
    space = likelihood.space
    example = space.example()

    def whole(theta: Theta) -> dict[str, np.ndarray]:
        """Leaves that are not given are the example's; fixed ones stay what they are fixed at."""
        refuse_other_start(space, theta, fixed)
        unknown = {**example, **theta}
        for name, p in space.parameters.items():
            if p.fixed:
                unknown[name] = example[name]
        checked = space.check(unknown)
        return feasible(space, off_the_bounds(space, checked), restrictions)

    named: dict[str, Theta] = {"start" if start is not None else "example": start or {}}
    count = _DEFAULT_STARTS if likelihood.states > 1 else 1
    if isinstance(starts, Mapping):
        named.update(starts)
    elif isinstance(starts, int | np.integer):
        count = int(starts)
        if count < 1:
            raise EstimationError(f"starts must be at least 1, but it is {starts}.")
    elif starts is not None:
        named.update({f"yours {k + 1}": theta for k, theta in enumerate(starts)})
    paths = [Path((name,), whole(theta)) for name, theta in named.items()]
    drawn = draw_starts(space, paths[0].theta, count, seed, restrictions)[: count - 1]
    return paths + [Path((f"drawn {k + 1}",), theta) for k, theta in enumerate(drawn)]
