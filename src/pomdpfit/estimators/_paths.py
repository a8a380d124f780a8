"""From a starting point through all stages, alone or side by side."""

import dataclasses

import numpy as np

from pomdpfit._entries import Entries, free_entries, project
from pomdpfit._errors import SolveError
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._restrictions import Restrictions
from pomdpfit._types import Array, Float
from pomdpfit.estimators._base import AbstractEstimator, Stage, Tell
from pomdpfit.estimators._kept_climb import KeptClimb
from pomdpfit.estimators._objective import Objective
from pomdpfit.estimators._walk import Climb, lost


@dataclasses.dataclass(frozen=True, eq=False)
class Path:
    """Where a start has led so far; `origins` are the starts that have met on it."""

    origins: tuple[str, ...]
    theta: dict[str, np.ndarray]
    climbs: tuple[Climb, ...] = ()
    warm: Array | None = None

    @property
    def alive(self) -> bool:
        """Whether there is a likelihood here."""
        return not self.climbs or np.isfinite(self.climbs[-1].value)

    def after(self, climb: Climb, entries: Entries) -> "Path":
        """The path with one more climb, over these entries."""
        return dataclasses.replace(
            self,
            theta=entries.insert(climb.phi, self.theta),
            climbs=(*self.climbs, climb),
            warm=self.warm if climb.start is None else climb.start,
        )

    def decisive(self, estimator: AbstractEstimator) -> tuple[Climb, ...]:
        """The climbs that the estimate is defined by: all stages, or the last one alone."""
        return self.climbs if estimator.by_stages else self.climbs[-1:]


def run_stage(
    likelihood: AbstractLikelihood,
    stage: Stage,
    path: Path,
    restrictions: Restrictions | None = None,
    weights: Float[np.ndarray, "N"] | None = None,
    tell: Tell | None = None,
    kept: KeptClimb | None = None,
) -> Path:
    """The path after one more climb, which goes on from where it is kept, if it is."""
    entries = free_entries(likelihood.space, stage.leaves, path.theta, restrictions)
    known = None if kept is None else kept_path(entries, path, kept)
    if known is not None:
        return known
    objective = Objective(likelihood, entries, stage.part, path.theta, weights, path.warm)
    phi = project(entries, entries.flatten(path.theta))
    try:
        done = stage.optimiser.run(objective, phi, tell, kept)
    except SolveError:  # a derivative that could not be had: this start leads nowhere
        done = lost(phi)
    if kept is not None:
        kept.finish(done)
    return path.after(done, entries)


def kept_path(entries: Entries, path: Path, kept: KeptClimb) -> Path | None:
    """The path after the climb over these entries that is kept, if it was finished."""
    found = kept.found(path.theta, len(entries.names))
    return None if found is None else path.after(found, entries)


def run_path(
    likelihood: AbstractLikelihood,
    estimator: AbstractEstimator,
    path: Path,
    restrictions: Restrictions | None = None,
    weights: Float[np.ndarray, "N"] | None = None,
) -> Path:
    """All stages from one start."""
    for stage in estimator.stages(likelihood):
        if path.alive:
            path = run_stage(likelihood, stage, path, restrictions, weights)
    return path
