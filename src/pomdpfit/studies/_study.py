"""What all replications of a study share, and one replication: draw a panel, estimate, look.

Replication r of the cell with N agents and T periods is drawn with the seed [seed, N, T, r]: it
depends on no other, so that a study can be enlarged.
"""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pomdpfit._entries import Entries, free_entries
from pomdpfit._errors import (
    ConvergenceWarning,
    IdentificationWarning,
    InferenceWarning,
    PomdpfitError,
)
from pomdpfit._estimate import Estimate
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._panel import Panel
from pomdpfit._setting import Setting
from pomdpfit._types import Theta
from pomdpfit.baselines import MDP
from pomdpfit.estimators._fit import fit, prepare
from pomdpfit.inference._information import Information, known_variances, scores_along
from pomdpfit.studies._panels import empty_panel, padded

# Rows of the largest panel: an evaluation of so many takes a fraction of a second, and compiling
# for one more shape of panel many seconds in each process.
_SMALL = 50_000

Cell = tuple[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """A model at its true parameters, and how it would be estimated."""

    model: Any
    theta: Theta
    means: Mapping[str, Any]  # prior, grid, solver
    held: Mapping[str, Any]  # fixed, free, constraints
    estimator: Any
    starts: int
    skip_hessian: bool
    z0: tuple[int, ...]
    seed: int
    shape: Cell | None = None  # agents and columns that panels are padded to

    def setting(self, panel: Panel) -> Setting:
        """The model with a panel."""
        return Setting(self.model, panel, **self.means, estimator=self.estimator)

    def empty(self, agents: int, periods: int) -> Panel:
        """A panel to simulate into."""
        return empty_panel(self.model, self.theta, agents, periods, self.z0)

    def entries(self) -> tuple[AbstractLikelihood, Entries]:
        """What is estimated, in a likelihood of the smallest panel."""
        return self._prepared(self.empty(1, 1))

    def _prepared(self, panel: Panel) -> tuple[AbstractLikelihood, Entries]:
        likelihood, restrictions = prepare(self.setting(panel), **self.held)
        self.estimator.check(likelihood, restrictions)
        space = likelihood.space
        return likelihood, free_entries(space, space.free_leaves, self.theta, restrictions)

    def sharing_shape(self, cells: Sequence[Cell], entries: int) -> "Study":
        """The study in which all panels have one shape, where that saves time.

        A prior for each agent has no agents to spare; few agents are told from many by the climb;
        and where nothing is hidden little is compiled.
        """
        prior, fewest = self.means.get("prior"), min(N for N, _ in cells)
        agents, periods = max(N for N, _ in cells), max(T for _, T in cells)
        alone = isinstance(self.model, MDP) or (prior is not None and prior.by_agent)
        if alone or fewest <= entries or agents * (periods + 1) > _SMALL:
            return self
        return dataclasses.replace(self, shape=(agents, periods + 1))

    def draw(self, simulator: AbstractLikelihood, *place: int) -> Panel:
        """A panel in the shape of the simulator's, which depends on the seed and the place."""
        rng = np.random.default_rng([self.seed, *place])
        return simulator.simulate(self.theta, int(rng.integers(2**31)))

    def replications(self, cell: Cell, part: Sequence[int]) -> list[dict]:
        """The rows of some replications of a cell."""
        simulator = self.setting(self.empty(*cell)).likelihood()
        return [self._replication(simulator, cell, r) for r in part]

    def _replication(self, simulator: AbstractLikelihood, cell: Cell, r: int) -> dict:
        where = {"agents": cell[0], "periods": cell[1], "replication": r}
        try:
            return where | _row(self._estimate(self.draw(simulator, *cell, r)))
        except PomdpfitError as error:  # one bad panel must not cost the others
            return where | {"reason": f"{type(error).__name__}: {error}"}

    def _estimate(self, panel: Panel) -> Estimate:
        if self.shape is not None:
            panel = padded(panel, *self.shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # its reason is in the row
            warnings.simplefilter("ignore", IdentificationWarning)
            return fit(
                self.model,
                panel,
                self.estimator,
                **self.means,
                **self.held,
                start=self.theta,
                starts=self.starts,
                batch=1,
                seed=self.seed,
                skip_hessian=self.skip_hessian,
            )

    def information_errors(self, agents: int, periods: int) -> dict:
        """Standard errors of one agent by the information at the true parameters.

        I = E[s s'] from the scores of a large panel; N agents have 1 / sqrt(N) of these errors.
        """
        where = {"periods": periods, "agents": agents}
        try:
            simulator = self.setting(self.empty(agents, periods)).likelihood()
            likelihood, entries = self._prepared(self.draw(simulator, 0, periods))
            phi = entries.flatten(self.theta)
            bound = entries.at_bound(phi)
            order = np.arange(len(phi), dtype=float)
            chart = entries.chart(phi, held=bound, priority=order)
            first = None
            if self.estimator.by_stages:
                owners = likelihood.space.only(entries.leaves).owners
                dynamics = likelihood.dynamics
                first = np.array([owners[k] in dynamics for k in chart.independent], dtype=bool)
            _, scores = scores_along(likelihood, entries, self.theta, chart)
        except PomdpfitError as error:
            return where | {"reason": f"{type(error).__name__}: {error}"}
        names = tuple(entries.names[k] for k in chart.independent)
        if agents <= len(names):
            few = f"{agents} agents cannot give the information on {len(names)} parameters"
            return where | {"reason": f"{few}: ask for more, information={10 * len(names)}."}
        J = chart.jacobian
        known = Information(names, entries.names, J, scores, first=first)
        cov, unknown = known_variances(J, known.covariance("opg"))
        variance = agents * np.einsum("np,pq,nq->n", J, cov, J)
        errors = np.sqrt(np.where((variance > 0) & ~unknown, variance, np.nan))
        return where | {"errors": [_finite(value) for value in errors], "reason": ""}


def _row(estimate: Estimate) -> dict:
    """What is kept of a replication."""
    failed = "" if estimate.converged else f"{estimate.result.name}: {estimate.reason}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InferenceWarning)  # in the row
        errors = estimate.bse
    return {
        "values": [float(value) for value in estimate.params],
        "errors": [_finite(value) for value in errors],
        "boundary": list(estimate.boundary),
        "llf": _finite(estimate.llf),
        "steps": estimate.steps,
        "note": " ".join(estimate.covariance_notes()),
        "reason": failed,
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
