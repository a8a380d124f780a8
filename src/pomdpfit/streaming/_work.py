"""What a process does with the files that are given to it; only sums leave it."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from pomdpfit._errors import PomdpfitError
from pomdpfit._log_likelihood import LogLikelihood, MovableLikelihood, Part
from pomdpfit._panel import Panel
from pomdpfit._types import Array, Float, Theta
from pomdpfit.streaming._scan import PanelScan

_T = TypeVar("_T")
Contexts = Mapping[str, Float[np.ndarray, "C"]]


class Sums(NamedTuple):
    """Of one file: the weighted parts of the log-likelihood, and what was asked for beside them."""

    parts: Float[np.ndarray, "2"]
    answer: dict[str, np.ndarray] | np.ndarray | None
    residual: float
    steps: int
    prior_error: float | None = None


class Work:
    """A likelihood to be moved from chunk to chunk, and the value of the last theta.

    Each theta is solved from nothing, once a process: what comes of a file then depends on no
    other, and is the same in every process.
    """

    def __init__(
        self, likelihood: MovableLikelihood, contexts: Contexts | None, scan: PanelScan
    ) -> None:
        self.likelihood, self.contexts, self.scan = likelihood, contexts, scan
        self._solved: tuple[Theta, Array] | None = None

    def __getstate__(self) -> dict:
        """The same for all thetas, so that it is sent to a process once."""
        return {**self.__dict__, "_solved": None}

    def terms(self, number: int, theta: Theta, part: Part) -> Sums:
        """The parts of one file."""
        parts, error = np.zeros(2), None
        for likelihood in self._chunks(number):
            terms = likelihood.terms(theta, part=part, start=self._start(theta))
            self._keep(theta, terms)
            parts += terms.parts().sum(axis=0)
            if terms.prior_error is not None:
                error = max(error or 0.0, terms.prior_error)
        return Sums(parts, None, terms.residual, terms.steps, error)

    def pull(
        self,
        number: int,
        theta: Theta,
        weights: Float[np.ndarray, "#N 2"],
        names: tuple[str, ...],
        part: Part,
    ) -> Sums:
        """The weighted parts of one file, and their gradient."""
        parts, total = np.zeros(2), {name: np.zeros(np.shape(theta[name])) for name in names}
        before = 0
        for likelihood in self._chunks(number):
            here, before = _of_chunk(weights, likelihood.panel, before)
            terms, gradient = likelihood.pull(
                theta, here, names, part=part, start=self._start(theta)
            )
            self._keep(theta, terms)
            parts += (here * np.where(here > 0, terms.parts(), 0.0)).sum(axis=0)
            total = {name: total[name] + gradient[name] for name in names}
        return Sums(parts, total, terms.residual, terms.steps)

    def scores(
        self,
        number: int,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        weights: Float[np.ndarray, "#N"],
        part: Part,
    ) -> Sums:
        """The parts of one file, and 2 p rows with the outer products of its weighted scores."""
        parts, rows, before = np.zeros(2), None, 0
        for likelihood in self._chunks(number):
            here, before = _of_chunk(weights, likelihood.panel, before)
            terms, scores = likelihood.push(
                theta, directions, part=part, start=self._start(theta), among=here > 0
            )
            self._keep(theta, terms)
            parts += np.where(here[:, None] > 0, terms.parts(), 0.0).sum(axis=0)
            rows = triangle(rows, scores * np.sqrt(here)[:, None, None])
        return Sums(parts, rows, terms.residual, terms.steps)

    def _chunks(self, number: int) -> Iterator[MovableLikelihood]:
        for panel in ahead(self.scan.chunks(number)):
            yield self.likelihood.on(panel, self.contexts)

    def _start(self, theta: Theta) -> Array | None:
        if self._solved is None:
            return None
        there, start = self._solved
        return start if all(np.array_equal(there[n], leaf) for n, leaf in theta.items()) else None

    def _keep(self, theta: Theta, terms: LogLikelihood) -> None:
        if terms.start is not None and self._start(theta) is None:
            self._solved = theta, terms.start


def attempt(work: Work, what: str, number: int, *arguments: object) -> Sums | PomdpfitError:
    """One task; what goes wrong with theta comes back as an answer."""
    try:
        return getattr(work, what)(number, *arguments)
    except PomdpfitError as error:
        return error


def triangle(
    rows: Float[np.ndarray, "q 2 p"] | None, more: Float[np.ndarray, "N 2 p"]
) -> Float[np.ndarray, "q 2 p"]:
    """2 p rows whose outer products are those of all rows: R of a QR decomposition.

    R'R = S'S without ever squaring S, so that directions that are hardly told stay exact.
    """
    p = more.shape[-1]
    flat = more.reshape(-1, 2 * p)
    stacked = flat if rows is None else np.concatenate([rows.reshape(-1, 2 * p), flat])
    if len(stacked) < 2 * p:
        stacked = np.concatenate([stacked, np.zeros((2 * p - len(stacked), 2 * p))])
    R: np.ndarray = np.asarray(np.linalg.qr(stacked, mode="r"))
    return R.reshape(2 * p, 2, p)


def ahead(items: Iterator[_T]) -> Iterator[_T]:
    """The same, each made by a thread of its own while the one before it is in use."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _of_chunk(weights: np.ndarray, panel: Panel, before: int) -> tuple[np.ndarray, int]:
    """The weights of a chunk's agents, zero for nobody, and how many agents have gone before."""
    there = panel.present[:, 0]
    after = before + int(there.sum())
    mine = weights if len(weights) == 1 else weights[before:after]
    found = np.zeros((panel.agent_count, *weights.shape[1:]))
    found[there] = mine
    return found, after
