"""The log-likelihood of a data set: the sum of those of its files, each found chunk by chunk."""

from collections.abc import Callable, Mapping

import numpy as np

from pomdpfit._errors import EstimationError, PomdpfitError
from pomdpfit._log_likelihood import AbstractLikelihood, LogLikelihood, MovableLikelihood, Part
from pomdpfit._panel import Panel
from pomdpfit._parallel import run_parallel
from pomdpfit._types import Array, Bool, Float, Theta
from pomdpfit.streaming._scan import PanelScan
from pomdpfit.streaming._work import Sums, Work, attempt, triangle


class StreamedTerms(LogLikelihood):
    """Sums over all agents, in the shape of one agent with one row."""

    def weighted(self, weights: Float[np.ndarray, "N 2"]) -> float:
        """The sum: what it was weighted by when it was taken."""
        return self.total


class StreamedLikelihood(AbstractLikelihood):
    """The log-likelihood of a `PanelScan`, by sums that files are mapped to.

    make    the likelihood of a panel in memory, which is moved from chunk to chunk
    n_jobs  processes that share the files, as in joblib

    In the place of agents' scores there are 2 p rows with the same outer products.
    """

    def __init__(
        self,
        make: Callable[[Panel], MovableLikelihood],
        scan: PanelScan,
        n_jobs: int | None = None,
    ) -> None:
        one = next(scan.panels()).take([0])
        self._inner = make(one)
        if self._inner.prior is not None and self._inner.prior.by_agent:
            raise EstimationError(
                "a prior for each agent is not estimated from a data set that is streamed, for "
                "only sums over agents are kept of it. Use pf.CommonPrior(), or scan.collect()."
            )
        self.model, self.panel, self.space = self._inner.model, scan, self._inner.space  # type: ignore[assignment]
        self.prior = self._inner.prior
        self.scan, self._jobs = scan, n_jobs
        self._first = np.cumsum([0, *(part.agents for part in scan.partitions)])  # of each file
        scan.check_labels(self.model)
        names = self.space.covariates
        groups = getattr(self.model, "group_labels", lambda: None)()
        contexts = scan.contexts(names, groups) if names else None
        self._work = Work(self._inner.on(one, contexts), contexts, scan)

    @property
    def dynamics(self) -> frozenset[str]:
        """What the kernel and the prior read."""
        return self._inner.dynamics

    @property
    def states(self) -> int:
        """|S|."""
        return self._inner.states

    def take_jobs(self, n_jobs: int | None) -> int:
        """Files are shared by the processes; starts go one after the other."""
        self._jobs = n_jobs
        return 1

    def terms(
        self, theta: Theta, *, part: Part = Part.BOTH, start: Array | None = None
    ) -> LogLikelihood:
        """The sums of the terms."""
        return self._told(self._sums("terms", theta, lambda k: (part,)))

    def pull(
        self,
        theta: Theta,
        weights: Float[np.ndarray, "N 2"],
        names: tuple[str, ...],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
    ) -> tuple[LogLikelihood, dict[str, np.ndarray]]:
        """The weighted sums and their gradient."""
        sums = self._sums("pull", theta, lambda k: (self._share(weights, k), names, part))
        each = [one.answer for one in sums if isinstance(one.answer, dict)]
        return self._told(sums), {n: np.sum([tree[n] for tree in each], axis=0) for n in names}

    def push(
        self,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
        among: Bool[np.ndarray, "N"] | None = None,
    ) -> tuple[LogLikelihood, Float[np.ndarray, "M 2 p"]]:
        """The sums, and rows with the outer products of all agents' derivatives."""
        agents = self.scan.agent_count
        weights = np.broadcast_to(1.0, (agents,)) if among is None else among.astype(float)
        return self.weighed_scores(theta, directions, weights, part=part)

    def weighed_scores(
        self,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        weights: Float[np.ndarray, "N"],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
    ) -> tuple[LogLikelihood, Float[np.ndarray, "M 2 p"]]:
        """The sums, and rows whose outer products add up to sum_i w_i s_i s_i'."""
        given = dict(directions)
        sums = self._sums("scores", theta, lambda k: (given, self._share(weights, k), part))
        rows = None
        for each in sums:  # in the order of the files, whoever was first
            assert isinstance(each.answer, np.ndarray)
            rows = triangle(rows, each.answer)
        assert rows is not None
        return self._told(sums), rows

    def choice_probabilities(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N T A"]]:
        """Refused: there are no rows."""
        raise EstimationError(
            "probabilities of rows are not kept of a data set that is streamed: hand over a part "
            "of it, est.predict(scan.sample(1000, seed=0))."
        )

    def simulate(self, theta: Theta, seed: int) -> Panel:
        """Refused: panels in memory have rows."""
        raise EstimationError(
            "a panel in the shape of a data set that is streamed would not fit memory: use "
            "pf.simulate_parquet, or fit a sample."
        )

    def _share(self, weights: np.ndarray, k: int) -> np.ndarray:
        """The weights of one file's agents; one for all where they are all the same."""
        if weights.strides[0] == 0:
            return weights[:1]
        return weights[self._first[k] : self._first[k + 1]]

    def _sums(self, what: str, theta: Theta, asked: Callable[[int], tuple]) -> list[Sums]:
        """One answer a file, in the order of the files."""
        theta = {name: np.asarray(leaf) for name, leaf in self.space.check(theta).items()}
        tasks = ((what, k, theta, *asked(k)) for k in range(len(self.scan.partitions)))
        sums = []
        for answer in run_parallel(attempt, (self._work,), tasks, self._jobs):
            if isinstance(answer, PomdpfitError):
                raise answer
            sums.append(answer)
        return sums

    def _told(self, sums: list[Sums]) -> StreamedTerms:
        observation, choice = np.sum([each.parts for each in sums], axis=0)
        errors = [each.prior_error for each in sums if each.prior_error is not None]
        return StreamedTerms(
            np.array([[observation]]),
            np.array([[choice]]),
            np.full((1, 1, self.states), np.nan),
            self.scan,  # type: ignore[arg-type]
            max(each.residual for each in sums),
            max(each.steps for each in sums),
            None,
            max(errors, default=None),
        )
