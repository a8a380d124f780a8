"""Names of hidden states: which orders of them the likelihood cannot tell apart, and alignment."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from pomdpfit._errors import PomdpfitError
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._params import ParameterSpace
from pomdpfit._types import Theta
from pomdpfit.estimators._paths import Path

_MAX_STATES = 4  # whose permutations are tried


@dataclasses.dataclass(frozen=True)
class Naming:
    """The labels of the hidden states, and the orders that leave the likelihood as it is."""

    labels: tuple[str, ...] = ()
    orders: tuple[tuple[int, ...], ...] = ()


def permute_states(
    space: ParameterSpace, theta: Theta, order: Sequence[int], labels: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """theta with every free axis that is labelled by the hidden states in another order."""
    turned = {}
    for name, p in space.parameters.items():
        value = np.asarray(theta[name])
        for axis, names in enumerate(p.labels or ()):
            if names == labels and not p.fixed:
                value = np.take(value, order, axis=axis)
        turned[name] = value
    return turned


def find_naming(likelihood: AbstractLikelihood, theta: Theta) -> Naming:
    """The orders of the hidden states under which the likelihood is the same, found by trying.

    Only parameters labelled with the model's state names can be turned. One generic theta settles
    it: the likelihood is analytic.
    """
    labels = getattr(likelihood.model, "state_labels", lambda: None)()
    if labels is None or not 1 < len(labels) <= _MAX_STATES:
        return Naming()
    labels = tuple(labels)
    identity = tuple(range(len(labels)))
    others = [order for order in itertools.permutations(identity) if order != identity]
    try:
        here = likelihood.terms(theta).total
        same = lambda order: (
            abs(
                likelihood.terms(permute_states(likelihood.space, theta, order, labels)).total
                - here
            )
            <= 1e-7 * (1 + abs(here))
        )
        return Naming(labels, tuple(order for order in others if same(order)))
    except PomdpfitError:  # no likelihood there: names stay as they are
        return Naming(labels)


def align(
    space: ParameterSpace, theta: Theta, reference: Theta, names: Naming
) -> dict[str, np.ndarray]:
    """Of all equivalent namings of theta, the one nearest to the reference."""
    candidates = [{name: np.asarray(leaf) for name, leaf in theta.items()}]
    candidates += [permute_states(space, theta, order, names.labels) for order in names.orders]
    target = space.to_series(reference).to_numpy()
    distance = [np.sum((space.to_series(c).to_numpy() - target) ** 2) for c in candidates]
    return candidates[int(np.argmin(distance))]


def align_paths(
    space: ParameterSpace, paths: Sequence[Path], reference: Theta, names: Naming
) -> list[Path]:
    """All paths under the names nearest to the reference."""
    if not names.orders:
        return list(paths)
    near = lambda path: align(space, path.theta, reference, names)
    return [dataclasses.replace(path, theta=near(path), warm=None) for path in paths]
