"""From a starting point through all stages, alone or side by side."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from pomdpfit._entries import free_entries, project
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._parallel import run_parallel
from pomdpfit._restrictions import Restrictions
from pomdpfit._types import Array, Float
from pomdpfit.estimators._base import AbstractEstimator, Stage, Tell
from pomdpfit.estimators._climb import Climb
from pomdpfit.estimators._objective import Objective


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


def run_stage(
    likelihood: AbstractLikelihood,
    stage: Stage,
    path: Path,
    restrictions: Restrictions | None = None,
    weights: Float[np.ndarray, "N"] | None = None,
    tell: Tell | None = None,
) -> Path:
    """The path after one more climb."""
    entries = free_entries(likelihood.space, stage.leaves, path.theta, restrictions)
    objective = Objective(likelihood, entries, stage.part, path.theta, weights, path.warm)
    phi = project(entries, entries.flatten(path.theta))
    done = stage.optimiser.run(objective, phi, tell)
    return dataclasses.replace(
        path,
        theta=objective.theta(done.phi),
        climbs=(*path.climbs, done),
        warm=path.warm if done.start is None else done.start,
    )


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


def run_paths(
    likelihood: AbstractLikelihood,
    estimator: AbstractEstimator,
    paths: Sequence[Path],
    restrictions: Restrictions | None,
    merge: Callable[[Sequence[Path], int], list[Path]],
    n_jobs: int,
    tell: Callable[[str, int, int], None],
) -> list[Path]:
    """All starts, stage by stage; `merge` joins those that have met, which go on as one."""
    stages = estimator.stages(likelihood)
    lost: list[Path] = []
    for k, stage in enumerate(stages):
        what = f"stage {k + 1} of {len(stages)}: {len(paths)} starts"
        tell(what, 0, len(paths))
        tasks = ((path, restrictions) for path in paths)
        moved = []
        for done in run_parallel(run_stage, (likelihood, stage), tasks, n_jobs):
            moved.append(done)
            tell(what, len(moved), len(paths))
        lost += [path for path in moved if not path.alive]
        paths = merge([path for path in moved if path.alive], k)
    return [*paths, *lost]
