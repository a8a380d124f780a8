"""Many starts side by side, stage by stage; those that have met go on as one."""

from collections.abc import Callable, Sequence

from pomdpfit._batch import Batch
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._parallel import run_parallel
from pomdpfit._restrictions import Restrictions
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._kept_search import KeptSearch
from pomdpfit.estimators._modes import join_equal
from pomdpfit.estimators._naming import Naming, align_paths
from pomdpfit.estimators._paths import Path, run_stage
from pomdpfit.estimators._together import run_stage_together


def run_paths(
    likelihood: AbstractLikelihood,
    estimator: AbstractEstimator,
    paths: Sequence[Path],
    restrictions: Restrictions | None,
    names: Naming,
    n_jobs: int,
    tell: Callable[[str, int, int], None],
    batch: int = 1,
    kept: KeptSearch | None = None,
) -> list[Path]:
    """Where all starts have led, those that were lost on the way included.

    batch  how many are answered by one program (see `_together`); 1 for one after the other
    kept   where climbs are kept, and gone on with if they are there
    """
    space, stages = likelihood.space, estimator.stages(likelihood)
    lost: list[Path] = []
    climbed: set[str] = set()
    for k, stage in enumerate(stages):
        what, total = f"stage {k + 1} of {len(stages)}: {len(paths)} starts", len(paths)
        tell(what, 0, len(paths))
        moved = []
        places = kept.climbs(k, len(paths)) if kept is not None else ()
        if batch > 1:
            say = lambda done, what=what, total=total: tell(what, done, total)
            crowd = Batch(likelihood, batch)
            moved = run_stage_together(crowd, stage, paths, restrictions, tell=say, kept=places)
        else:
            tasks = (
                (path, restrictions, None, None, places[j] if places else None)
                for j, path in enumerate(paths)
            )
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
