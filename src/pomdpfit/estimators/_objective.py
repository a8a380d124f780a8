"""What is climbed: a weighted part of the log-likelihood over the entries that move."""

from typing import NamedTuple

import numpy as np

from pomdpfit._entries import Entries
from pomdpfit._errors import ImpossibleObservationError, ModelError, SolveError
from pomdpfit._log_likelihood import AbstractLikelihood, LogLikelihood, Part
from pomdpfit._types import Array, Float, Theta


class Scores(NamedTuple):
    """Derivatives of both parts along the columns of a chart's jacobian, agent by agent.

    Or of fewer rows with the same outer products: see `AbstractLikelihood.weighed_scores`.
    """

    jacobian: Float[np.ndarray, "n p"]
    parts: Float[np.ndarray, "M 2 p"]

    def along(self, jacobian: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "M 2 q"] | None:
        """The same along the columns of another chart, if these span them."""
        if np.array_equal(self.jacobian, jacobian):
            return self.parts
        change = np.linalg.lstsq(self.jacobian, jacobian, rcond=None)[0]
        # Scores that are zero stay so: who has one is counted.
        change[np.abs(change) <= 1e-14 * np.abs(change).max(axis=0, initial=0.0)] = 0.0
        if np.abs(self.jacobian @ change - jacobian).max(initial=0.0) > 1e-12:
            return None
        return self.parts @ change


class Objective:
    """sum_i w_i (parts of log l_i) as a function of phi, every solve started from the last one."""

    def __init__(
        self,
        likelihood: AbstractLikelihood,
        entries: Entries,
        part: Part,
        theta: Theta,
        weights: Float[np.ndarray, "N"] | None = None,
        start: Array | None = None,
    ) -> None:
        self.likelihood, self.entries, self.part = likelihood, entries, part
        self._theta, self.start = theta, start
        self._wanted = np.array([Part.OBSERVATION in part, Part.CHOICE in part])
        agents = likelihood.panel.agent_count
        if weights is None:  # views of one number: there may be many agents
            self.agent_weights = np.broadcast_to(1.0, (agents,))
            self._weights = np.broadcast_to(self._wanted.astype(float), (agents, 2))
        else:
            self.agent_weights = np.asarray(weights, float)
            self._weights = self.agent_weights[:, None] * self._wanted
        self.last: tuple[np.ndarray, Scores] | None = None  # the scores that were taken last

    def theta(self, phi: Float[np.ndarray, "n"]) -> dict[str, np.ndarray]:
        """The whole tree."""
        return self.entries.insert(phi, self._theta)

    def gradient(self, phi: Float[np.ndarray, "n"]) -> tuple[float, Float[np.ndarray, "n"]] | None:
        """Value and gradient in all entries; None where they are not there or not finite."""
        try:
            terms, tree = self.likelihood.pull(
                self.theta(phi),
                self._weights,
                self.entries.leaves,
                part=self.part,
                start=self.start,
            )
        except (ImpossibleObservationError, ModelError, SolveError):
            return None
        self._keep(terms)
        value, gradient = terms.weighted(self._weights), self.entries.flatten(tree)
        return (value, gradient) if np.isfinite([value, *gradient]).all() else None

    def outer(
        self, phi: Float[np.ndarray, "n"], jacobian: Float[np.ndarray, "n p"]
    ) -> Float[np.ndarray, "p p"]:
        """sum_i w_i s_i s_i', with each agent's derivatives s_i along the columns of a chart."""
        terms, parts = self.likelihood.weighed_scores(
            self.theta(phi),
            self.entries.split(jacobian.T),
            self.agent_weights,
            part=self.part,
            start=self.start,
        )
        self._keep(terms)
        self.last = (phi, Scores(jacobian, parts))
        scores = parts[:, self._wanted].sum(axis=1)
        return scores.T @ scores

    def complete(
        self, phi: Float[np.ndarray, "n"], jacobian: Float[np.ndarray, "n p"]
    ) -> Float[np.ndarray, "p p"] | None:
        """The information of complete data along the columns of a chart; None if unknown."""
        directions = self.entries.split(jacobian.T)
        return self.likelihood.complete_information(
            self.theta(phi), self._weights, directions, part=self.part
        )

    def scores_at(self, phi: Float[np.ndarray, "n"]) -> Scores | None:
        """Scores of the whole likelihood at phi, if they were taken there last, of all agents."""
        if self.last is None or self.part != Part.BOTH or (self.agent_weights != 1).any():
            return None
        return self.last[1] if np.array_equal(self.last[0], phi) else None

    def _keep(self, terms: LogLikelihood) -> None:
        if terms.start is not None:
            self.start = terms.start
