"""Many starts side by side, stage by stage; those that have met go on as one."""

from collections.abc import Callable, Sequence

from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._parallel import run_parallel
from pomdpfit._restrictions import Restrictions
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._modes import join_equal
from pomdpfit.estimators._naming import Naming, align_paths
from pomdpfit.estimators._paths import Path, run_stage


def run_paths(
    likelihood: AbstractLikelihood,
    estimator: AbstractEstimator,
    paths: Sequence[Path],
    restrictions: Restrictions | None,
    names: Naming,
    n_jobs: int,
    tell: Callable[[str, int, int], None],
) -> list[Path]:
    """Where all starts have led, those that were lost on the way included."""
    space, stages = likelihood.space, estimator.stages(likelihood)
    lost: list[Path] = []
    climbed: set[str] = set()
    for k, stage in enumerate(stages):
        what = f"stage {k + 1} of {len(stages)}: {len(paths)} starts"
        tell(what, 0, len(paths))
        tasks = ((path, restrictions) for path in paths)
        moved = []
        for done in run_parallel(run_stage, (likelihood, stage), tasks, n_jobs):
            moved.append(done)
            tell(what, len(moved), len(paths))
        lost += [path for path in moved if not path.alive]
        alive = [path for path in moved if path.alive]
        climbed.update(stage.leaves)
        if not alive:
            return lost
        best = max(alive, key=lambda path: path.climbs[-1].value)
        paths = join_equal(space, align_paths(space, alive, best.theta, names), climbed)
    return [*paths, *lost]
