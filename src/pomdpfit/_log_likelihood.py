"""What every likelihood of a panel gives: terms, gradients and per-agent scores, part by part.

The log-likelihood has two parts: observations (what z' follows) and choices (which a is taken).
Estimators, covariances and tests need each of them by agent and with derivatives; they see this
contract alone, so that a model with hidden states and a fully observed baseline are fitted alike.
"""

import abc
import contextlib
import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import ImpossibleObservationError, SolveError
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AbstractPrior
from pomdpfit._types import Array, Bool, Float, Theta

SAME_VALUE = 1e-3  # in log-likelihood: far below what any test could tell apart
COARSE_PRIOR = 1e-3  # error of a first belief from which it is worth a warning


class Part(enum.Flag):
    """Which terms of the log-likelihood are asked for."""

    OBSERVATION = enum.auto()
    CHOICE = enum.auto()
    BOTH = OBSERVATION | CHOICE


@dataclasses.dataclass(frozen=True, eq=False)
class LogLikelihood:
    """Terms by agent and period: `observation[i, t]` scores z_{t+1}, `choice[i, t]` scores a_t.

    Under a stationary prior `prior_error` is by how much the first belief of any agent changes when
    the grid of its law has half the cells: an estimate of the error, usually several times as
    large.
    """

    observation: Float[np.ndarray, "N T"]
    choice: Float[np.ndarray, "N T"]
    belief: Float[np.ndarray, "N T S"]
    panel: Panel
    residual: float
    steps: int
    start: Array | None = dataclasses.field(repr=False)
    prior_error: float | None = None

    @property
    def total(self) -> float:
        """The log-likelihood."""
        return float(self.observation.sum() + self.choice.sum())

    @property
    def by_agent(self) -> pd.DataFrame:
        """Observation part, choice part and their sum for each agent."""
        frame = pd.DataFrame(
            {"observation": self.observation.sum(axis=1), "choice": self.choice.sum(axis=1)},
            index=pd.Index(self.panel.agents, name="agent", tupleize_cols=False),
        )
        return frame.assign(total=frame.sum(axis=1))

    def parts(self) -> Float[np.ndarray, "N 2"]:
        """Observation and choice part of each agent."""
        return np.stack([self.observation.sum(axis=1), self.choice.sum(axis=1)], axis=1)

    def weighted(self, weights: Float[np.ndarray, "N 2"]) -> float:
        """sum_i w_i0 observation_i + w_i1 choice_i; an agent of weight zero is left out."""
        parts = np.where(weights > 0, self.parts(), 0.0)
        return float((weights * parts).sum())

    def to_frame(self) -> pd.DataFrame:
        """The panel's rows with their terms and beliefs."""
        beliefs = {f"x({s})": self.belief[..., s] for s in range(self.belief.shape[-1])}
        return self.panel.to_frame(
            log_observation=self.observation, log_choice=self.choice, **beliefs
        )


class AbstractLikelihood(abc.ABC):
    """The log-likelihood of one panel as a function of theta.

    `start` is what an earlier result carried; handing it on saves work, and changes nothing else.
    A part that is not asked for is zero in the result, and is not paid for where that can be.
    """

    model: Any  # what has reward(theta) and discount(theta)
    panel: Panel
    space: ParameterSpace
    prior: AbstractPrior | None = None  # of the hidden states, where there are any

    @property
    @abc.abstractmethod
    def dynamics(self) -> frozenset[str]:
        """The parameters that the observation terms depend on; the choice terms may too."""

    @property
    @abc.abstractmethod
    def states(self) -> int:
        """|S|; 1 where everything is observed."""

    @abc.abstractmethod
    def terms(
        self, theta: Theta, *, part: Part = Part.BOTH, start: Array | None = None
    ) -> LogLikelihood:
        """The terms at theta; an error (never NaN) where there are none."""

    @abc.abstractmethod
    def pull(
        self,
        theta: Theta,
        weights: Float[np.ndarray, "N 2"],
        names: tuple[str, ...],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
    ) -> tuple[LogLikelihood, dict[str, np.ndarray]]:
        """The terms, and the gradient of sum_i w_i0 observation_i + w_i1 choice_i.

        The gradient is a tree over `names`, in all entries (derived ones of a simplex included).
        Agents of weight zero may have likelihood zero.
        """

    @abc.abstractmethod
    def push(
        self,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
        among: Bool[np.ndarray, "N"] | None = None,
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N 2 p"]]:
        """The terms, and the derivative of each agent's two parts along each of p directions.

        `directions[name]` says how that leaf of theta moves; leaves that are not named stay.
        Agents that are not `among` those that count may have likelihood zero; their rows are zero.
        """

    def weighed_scores(
        self,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        weights: Float[np.ndarray, "N"],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
    ) -> tuple[LogLikelihood, Float[np.ndarray, "M 2 p"]]:
        """The terms, and rows whose outer products add up to sum_i w_i s_i s_i'.

        Here these are the agents' own scores, times the roots of their weights.
        """
        terms, scores = self.push(theta, directions, part=part, start=start, among=weights > 0)
        return terms, scores if (weights == 1).all() else scores * np.sqrt(weights)[:, None, None]

    def complete_information(
        self,
        theta: Theta,
        weights: Float[np.ndarray, "N 2"],
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        *,
        part: Part = Part.BOTH,
    ) -> Float[np.ndarray, "p p"] | None:
        """What would be told along p directions if the hidden states were seen; None if unknown."""
        return None

    def prepare(self, theta: Theta, parts: Iterable[Part]) -> None:  # noqa: B027  (if it can be)
        """Have what a search through these parts will ask for compiled ahead."""

    def take_jobs(self, n_jobs: int | None) -> int | None:
        """Use so many processes for each evaluation if it can be spread; those that are left."""
        return n_jobs

    def curvature(
        self,
        theta: Theta,
        weights: Float[np.ndarray, "N 2"],
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        steps: Mapping[int, float],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
    ) -> Float[np.ndarray, "p k"]:
        """Second derivatives of the sum that `pull` differentiates, along pairs of directions.

        One column for each entry of `steps`, a central difference of gradients: a step of steps[k]
        along direction k. It is NaN where there is no likelihood a step away.
        """
        names, count = tuple(directions), len(next(iter(directions.values())))

        def slope(k: int, step: float) -> np.ndarray:
            moved = {name: theta[name] + step * directions[name][k] for name in names}
            _, tree = self.pull({**theta, **moved}, weights, names, part=part, start=start)
            each = [np.tensordot(directions[n], tree[n], np.ndim(tree[n])) for n in names]
            return np.sum(each, axis=0)

        columns = np.full((count, len(steps)), np.nan)
        for place, (k, step) in enumerate(steps.items()):
            with contextlib.suppress(SolveError, ImpossibleObservationError):
                columns[:, place] = (slope(k, step) - slope(k, -step)) / (2 * step)
        return columns

    @abc.abstractmethod
    def choice_probabilities(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N T A"]]:
        """The terms (with the beliefs) and pi(. | z, x) in every row of the panel.

        NaN after the last epoch of a finite horizon, where nothing is chosen.
        """

    @abc.abstractmethod
    def simulate(self, theta: Theta, seed: int) -> Panel:
        """A panel drawn at theta with the same agents, lengths, first z and covariates."""


class MovableLikelihood(AbstractLikelihood):
    """A likelihood that can be moved to other panels, chunk by chunk of a data set."""

    @abc.abstractmethod
    def on(
        self, panel: Panel, contexts: Mapping[str, Float[np.ndarray, "C"]] | None = None
    ) -> "MovableLikelihood":
        """The same likelihood of another panel, with what is compiled.

        contexts  the table of covariates by which the panel's rows are numbered; those of the
                  panel if not given
        """
