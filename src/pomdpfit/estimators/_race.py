"""Many starts side by side, stage by stage; those that have met go on as one."""

import functools
from collections.abc import Callable, Sequence

from pomdpfit._batch import Batch
from pomdpfit._engine import find_engine
from pomdpfit._entries import free_entries
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._parallel import run_as_finished
from pomdpfit._progress import with_keywords
from pomdpfit._restrictions import Restrictions
from pomdpfit.estimators._base import AbstractEstimator, Stage
from pomdpfit.estimators._kept_climb import KeptClimb
from pomdpfit.estimators._kept_search import KeptSearch
from pomdpfit.estimators._modes import join_equal
from pomdpfit.estimators._naming import Naming, align_paths
from pomdpfit.estimators._paths import Path, kept_path, run_stage
from pomdpfit.estimators._together import run_stage_together


def run_paths(
    likelihood: AbstractLikelihood,
    estimator: AbstractEstimator,
    paths: Sequence[Path],
    restrictions: Restrictions | None,
    names: Naming,
    n_jobs: int | None,
    tell: Callable[[str, int, int], None],
    batch: int = 1,
    kept: KeptSearch | None = None,
) -> list[Path]:
    """Where all starts have led, those that were lost on the way included.

    batch  how many are answered by one program (see `_together`); 1 for one after the other
    kept   where climbs are kept, and gone on with if they are there
    """
    space, stages = likelihood.space, estimator.stages(likelihood)
    if batch == 1 and find_engine(n_jobs).here:
        likelihood.prepare(paths[0].theta, [stage.part for stage in stages])
    lost: list[Path] = []
    climbed: set[str] = set()
    for k, stage in enumerate(stages):
        starts = "1 start" if len(paths) == 1 else f"{len(paths)} starts"
        what, total = f"stage {k + 1} of {len(stages)}: {starts}", len(paths)
        tell(what, 0, len(paths))
        places = kept.climbs(k, len(paths)) if kept is not None else ()
        say = functools.partial(_report, with_keywords(tell), what, total)
        if batch > 1:
            crowd = Batch(likelihood, batch)
            moved = run_stage_together(crowd, stage, paths, restrictions, tell=say, kept=places)
        else:
            moved = _run_stage_apart(likelihood, stage, paths, restrictions, n_jobs, say, places)
        lost += [path for path in moved if not path.alive]
        alive = [path for path in moved if path.alive]
        climbed.update(stage.leaves)
        if not alive:
            return lost
        best = max(alive, key=lambda path: path.climbs[-1].value)
        paths = join_equal(space, align_paths(space, alive, best.theta, names), climbed)
    return [*paths, *lost]


def _report(report: Callable[..., None], what: str, total: int, done: int, **detail: str) -> None:
    """So many of the starts are done."""
    report(what, done, total, **detail)


def _run_stage_apart(
    likelihood: AbstractLikelihood,
    stage: Stage,
    paths: Sequence[Path],
    restrictions: Restrictions | None,
    n_jobs: int | None,
    say: Callable[..., None],
    places: Sequence[KeptClimb],
) -> list[Path]:
    """The paths after one more climb each, one by one or in processes.

    Workers that see this process's files write climbs down themselves, also those under way. For
    the others it is done here, when they are finished.
    """
    reach = find_engine(n_jobs).same_disk
    moved: dict[int, Path] = {}
    if places and not reach:
        for j, path in enumerate(paths):
            entries = free_entries(likelihood.space, stage.leaves, path.theta, restrictions)
            known = kept_path(entries, path, places[j])
            if known is not None:
                moved[j] = known
    ahead = [j for j in range(len(paths)) if j not in moved]

    def step(number: int, value: float, gain: float) -> None:
        """Report a step of the search; workers cannot."""
        first, *others = paths[ahead[len(moved)]].origins
        start = f"{first} and {len(others)} more" if others else first
        say(len(moved), detail=f"{start}: step {number}, log-likelihood {value:.2f}")

    each_step = step if find_engine(n_jobs).here else None
    tasks = (
        (stage, paths[j], restrictions, None, each_step, places[j] if places and reach else None)
        for j in ahead
    )
    for number, path in run_as_finished(run_stage, (likelihood,), tasks, n_jobs):
        j = ahead[number]
        moved[j] = path
        if places and not reach:
            places[j].finish(path.climbs[-1])
        say(len(moved))
    return [moved[j] for j in range(len(paths))]
