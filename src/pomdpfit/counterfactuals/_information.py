"""What an agent could be told: a sensor, the hidden state in every period, or one inspection.

Each is a model (what is seen from now on) and a split of the first belief (what is seen now).
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pomdpfit._model import Model
from pomdpfit._types import ArrayLike, Float, Int
from pomdpfit.counterfactuals._observing import FullyObserved, WithSignal, checked_signal
from pomdpfit.counterfactuals._wrapped import sizes


class Starts(NamedTuple):
    """Where agents begin: observations, beliefs, and the share of agents at each of them."""

    z: Int[np.ndarray, "m"]
    x: Float[np.ndarray, "m S"]
    weight: Float[np.ndarray, "m"]


class AbstractInformation(abc.ABC):
    """More to see than the model has."""

    @abc.abstractmethod
    def wrap(self, model: Model) -> Model:
        """The model with it."""

    @abc.abstractmethod
    def starts(self, starts: Starts) -> Starts:
        """Starts of the model as starts of the wrapped one: what is seen now moves the belief."""


@dataclasses.dataclass(frozen=True, eq=False)
class Sensor(AbstractInformation):
    """A further signal y of s in every period, with P(y | s) a row for each hidden state.

    It is read before the first choice too, unless `from_now` is False: then from the next period.
    """

    probabilities: ArrayLike | Sequence
    from_now: bool = True

    def wrap(self, model: Model) -> WithSignal:
        """The model with the signal."""
        return WithSignal(model, self.probabilities)

    def starts(self, starts: Starts) -> Starts:
        """(z, y) and the belief after y; the belief as it is where y comes later."""
        signal = checked_signal(self.probabilities, starts.x.shape[1])
        Y = signal.shape[1]
        if not self.from_now:
            return starts._replace(z=Y * starts.z)
        told = after_signal(starts, signal)
        return told._replace(z=Y * told.z + np.tile(np.arange(Y), len(starts.z)))


@dataclasses.dataclass(frozen=True)
class FullObservation(AbstractInformation):
    """s itself is seen in every period: an inspection, perfect and free, each time.

    It is seen before the first choice too, unless `from_now` is False: then from the next period.
    """

    from_now: bool = True

    def wrap(self, model: Model) -> Model:
        """The MDP on (z, s); if s is seen later, a signal that tells s."""
        return FullyObserved(model) if self.from_now else WithSignal(model, np.eye(sizes(model)[1]))

    def starts(self, starts: Starts) -> Starts:
        """(z, s), each with the probability that the belief gives it."""
        S = starts.x.shape[1]
        if not self.from_now:
            return starts._replace(z=S * starts.z)
        z = (S * starts.z[:, None] + np.arange(S)).ravel()
        return Starts(z, np.ones((len(z), 1)), (starts.weight[:, None] * starts.x).ravel())


@dataclasses.dataclass(frozen=True, eq=False)
class Inspection(AbstractInformation):
    """One look at s before the first choice, and never again: E[V(z, x after the look)].

    Perfect unless P(y | s) is given; a perfect one is worth sum_s x(s) V(z, e_s) - V(z, x).
    """

    probabilities: ArrayLike | Sequence | None = None

    def wrap(self, model: Model) -> Model:
        """The model as it is: from the next period on there is nothing more to see."""
        return model

    def starts(self, starts: Starts) -> Starts:
        """The beliefs that the look may leave."""
        S = starts.x.shape[1]
        signal = np.eye(S) if self.probabilities is None else self.probabilities
        return after_signal(starts, checked_signal(signal, S))


def after_signal(starts: Starts, signal: Float[np.ndarray, "S Y"]) -> Starts:
    """Bayes' rule: x(s) P(y | s) / P(y), each y with weight P(y) = sum_s x(s) P(y | s)."""
    joint = starts.x[:, None, :] * signal.T
    chance = joint.sum(axis=-1)
    possible = (chance > 0)[..., None]
    x = np.where(possible, joint / np.where(possible, chance[..., None], 1.0), starts.x[:, None])
    Y = signal.shape[1]
    weight = (starts.weight[:, None] * chance).ravel()
    return Starts(np.repeat(starts.z, Y), x.reshape(-1, x.shape[-1]), weight)
