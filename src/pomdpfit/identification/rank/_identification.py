"""The report on what can be told apart, in tables and in words."""

import dataclasses

import numpy as np
import pandas as pd

from pomdpfit._errors import ModelError
from pomdpfit._panel import Panel
from pomdpfit._summary import Summary
from pomdpfit.identification.rank import _words
from pomdpfit.identification.rank._designs import Design
from pomdpfit.identification.rank._evidence import Evidence, Question
from pomdpfit.identification.rank._invisible import Invisible
from pomdpfit.identification.rank._local_rank import Rank
from pomdpfit.identification.rank._mirrors import Mirror
from pomdpfit.identification.rank._walk import walk


@dataclasses.dataclass(frozen=True, eq=False)
class Identification:
    """What data of this kind tell apart, around theta.

    observations  rank of the dynamics by observations alone, as a first stage sees them (or None)
    everything    rank of all free parameters by observations and choices
    invisible     moves that no data could show, where something is not told apart: gauge, shaping,
                  scale; `invisible_observations` likewise for the dynamics alone
    kernels       kernels without full rank, by (z', z, a)
    mirrors       thetas that are the same model with its hidden states renamed (None: not tried)
    normalised    what is taken as given, and what if it were not
    remedies      the rank that richer designs would have
    """

    question: Question = dataclasses.field(repr=False)
    data: Design | Panel = dataclasses.field(repr=False)
    evidence: Evidence = dataclasses.field(repr=False)
    observations: Rank | None
    everything: Rank
    invisible_observations: Invisible | None
    invisible: Invisible | None
    kernels: pd.DataFrame
    mirrors: tuple[Mirror, ...] | None
    normalised: pd.DataFrame
    remedies: pd.DataFrame

    @property
    def identified(self) -> bool:
        """Whether every free parameter is told apart, locally, by observations and choices."""
        return self.everything.full

    @property
    def directions(self) -> pd.DataFrame:
        """The directions of theta that are not told apart: one row each, one column an entry."""
        return self.everything.directions

    @property
    def table(self) -> pd.DataFrame:
        """A row for each free parameter: its value, what tells it, how well."""
        values = self.evidence.likelihood.space.to_series(self.question.theta)
        names = list(self.everything.names)
        frame = pd.DataFrame({"theta": values[names]})
        frame["observations"] = [_words.told(self.observations, name) for name in names]
        frame["with choices"] = [_words.told(self.everything, name) for name in names]
        agents = self.data.agent_count if isinstance(self.data, Panel) else 1
        whose = "one agent" if isinstance(self.data, Design) else "these agents"
        frame[f"std err, {whose}"] = self.everything.standard_errors() / np.sqrt(agents)
        return frame

    def walk(self, direction: int = 1, distance: float = 0.05) -> dict[str, np.ndarray]:
        """Another theta with the same law of all that is seen, `distance` away (largest entry).

        `direction` counts the rows of `directions`. The path is followed, not extrapolated: the
        probabilities of every sequence are those at theta, to rounding.
        """
        rank, space = self.everything, self.evidence.likelihood.space
        if not 1 <= direction <= len(rank.directions):
            raise ModelError(
                f"there are {len(rank.directions)} directions that are not told apart, so there "
                f"is no number {direction}."
            )
        likelihood, weights = self.evidence.likelihood, self.evidence.weights
        kept = weights > 1e-12 * weights.max()
        root = np.sqrt(weights[kept])
        moves = space.free_directions()

        def law(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            theta = space.from_vector(point, self.question.theta)
            terms, slopes = likelihood.push(theta, moves, part=self.question.part)
            whole = terms.parts().sum(axis=1)[kept], slopes.sum(axis=1)[kept]
            return root * whole[0], root[:, None] * whole[1]

        row = rank.directions.loc[direction]
        rate = np.asarray(row[list(space.free_names)], dtype=float)
        start = np.asarray(space.to_vector(self.question.theta))
        end = walk(law, start, rate, distance, rank.tolerance)
        return {n: np.asarray(v) for n, v in space.from_vector(end, self.question.theta).items()}

    def summary(self) -> Summary:
        """The report as text, HTML or LaTeX."""
        return Summary(
            f"What can be told apart: {type(self.question.model).__name__}",
            _words.facts(self),
            self.table,
            tuple(_words.sentences(self)),
        )

    def __str__(self) -> str:
        return str(self.summary())
