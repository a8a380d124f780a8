"""Hidden states that no data can tell apart, found before a fit is spent on them.

Two hidden states with the same rewards and the same rows P(z', s' | z, s, a) lead to the same
observations and the same choices, whatever the agent believes about which of the two it is in: the
likelihood depends on their parameters together, never on one of them alone.
"""

import itertools
import warnings
from collections.abc import Callable

import numpy as np

from pomdpfit._errors import IdentificationWarning
from pomdpfit._evaluate import Likelihood
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._model import Primitives
from pomdpfit._priors import labels_of
from pomdpfit._types import Theta

_ROUNDING = 1e-12  # of probabilities, and of rewards in units of the largest


def identical_states(primitives: Primitives) -> list[tuple[int, int]]:
    """Pairs of hidden states that have the same rewards, kernel rows and terminal values."""
    Z, S, A = primitives.reward.shape
    available = primitives.available
    open_at = np.ones((Z, A), dtype=bool) if available is None else np.asarray(available)
    reward = np.where(open_at[:, None, :], primitives.reward, 0.0)
    probability = np.asarray(primitives.kernel.probability)
    if available is not None:
        probability = np.where(open_at[:, :, None, None, None], probability, 0.0)
    tables = [np.moveaxis(probability, 3, 0), _in_units(np.moveaxis(reward, 1, 0))]
    if primitives.terminal is not None:
        tables.append(_in_units(np.asarray(primitives.terminal).T))
    same = lambda s, other: all(np.abs(t[s] - t[other]).max() <= _ROUNDING for t in tables)
    return [pair for pair in itertools.combinations(range(S), 2) if same(*pair)]


def _in_units(table: np.ndarray) -> np.ndarray:
    largest = np.abs(table).max()
    return table / largest if largest > 0 else table


def same_in_all_contexts(likelihood: Likelihood, theta: Theta) -> list[tuple[int, int]]:
    """Pairs that are the same at theta whatever the covariates (or the group) may be."""
    thetas = likelihood._in_contexts({name: np.asarray(leaf) for name, leaf in theta.items()})
    pairs = [set(identical_states(likelihood.model.primitives(each))) for each in thetas]
    return sorted(set.intersection(*pairs))


def warn_of_identical_states(
    likelihood: AbstractLikelihood, start: Theta, elsewhere: Callable[[], Theta]
) -> None:
    """Warn of states that are the same at the start, and say whether they are so elsewhere too."""
    if not isinstance(likelihood, Likelihood) or likelihood.states == 1:
        return
    pairs = same_in_all_contexts(likelihood, start)
    if not pairs:
        return
    always = same_in_all_contexts(likelihood, elsewhere())
    labels = labels_of(likelihood.model, likelihood.states)
    for pair in pairs:
        one, other = (repr(labels[s]) for s in pair)
        what = f"the hidden states {one} and {other} have the same rewards and the same kernel rows"
        if pair in always:
            rest = "whatever theta is: no data tell them apart. Use one hidden state less."
        else:
            rest = (
                "at the start, where nothing tells them apart: the search may never part them. "
                "Start from values in which they differ."
            )
        warnings.warn(f"{what} {rest}", IdentificationWarning, stacklevel=4)  # past in_float64
