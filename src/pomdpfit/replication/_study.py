"""What every part of the replication is given, and what it gives back."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pomdpfit._estimate import Estimate
from pomdpfit._panel import Panel
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, silent
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Theta
from pomdpfit.datasets import CHANG, Conventions, Rust1987, rust1987
from pomdpfit.estimators import TwoStage, fit
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.models import EngineReplacement
from pomdpfit.replication._plan import QUICK, Plan
from pomdpfit.report import Section


@dataclasses.dataclass(frozen=True)
class Study:
    """Sizes, seed and source. `found` holds estimates that later parts build on."""

    plan: Plan = QUICK
    seed: int = 0
    source: str | Path | None = None
    samples: tuple[tuple[int, ...], ...] = ()  # further groups for Rust's tables
    checkpoint: Path | None = None
    n_jobs: int = 1
    tell: Progress = silent
    found: dict[str, Any] = dataclasses.field(default_factory=dict)

    def fit(
        self,
        model: EngineReplacement,
        panel: Panel,
        prior: AbstractPrior,
        *,
        estimator: AbstractEstimator | None = None,
        start: Theta | None = None,
        starts: int = 1,
        grid: AbstractScheme | None = None,
        skip_hessian: bool = True,
        progress: Progress | bool = False,
    ) -> Estimate:
        """`pf.fit` as the plan has it: two stages and the plan's grid unless told otherwise."""
        return fit(
            model,
            panel,
            TwoStage() if estimator is None else estimator,
            prior=prior,
            start=start,
            starts=starts,
            grid=self.plan.grid if grid is None else grid,
            seed=self.seed,
            n_jobs=self.n_jobs if starts > 1 else 1,
            skip_hessian=skip_hessian,
            progress=progress,
        )

    def data(self, groups: int | tuple[int, ...] = 4, conventions: Conventions = CHANG) -> Rust1987:
        """Rust's buses under these conventions."""
        return rust1987(groups, self.plan.bins, self.source, conventions)

    def model(self, data: Rust1987, **options: Any) -> EngineReplacement:
        """The paper's model for these data."""
        return EngineReplacement(data.bins, data.increments, reset=data.reset, **options)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A section of the report, what to take home from it, and its figures for machines."""

    section: Section
    findings: tuple[str, ...]
    results: dict[str, Any]


Part = Callable[[Study], Outcome]


def count_scored(panel: Panel) -> dict[str, int]:
    """How many transitions and choices a log-likelihood is the sum of."""
    return {
        "transitions": int(panel.score_observation.sum()),
        "choices": int(panel.score_choice.sum()),
    }
