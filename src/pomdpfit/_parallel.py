"""Work spread over processes by joblib, on whatever backend the user has configured.

The function and what all tasks share should be the same from call to call (a likelihood, a panel),
and what changes belongs to the tasks: then a worker is sent the former once, opens it once, and
compiles for it once.
"""

import contextlib
import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cloudpickle
from joblib import delayed

from pomdpfit._engine import AbstractEngine, find_engine
from pomdpfit._errors import WorkerError
from pomdpfit._parcel import call
from pomdpfit.programs import kept_folder, whole_loops


def run_parallel(
    function: Callable[..., Any], shared: tuple, tasks: Iterable[tuple], n_jobs: int | None
) -> Iterator[Any]:
    """function(*shared, *task) for each task, in the order of the tasks.

    n_jobs  as in joblib; 1 for here and now, None for what `joblib.parallel_config` says
    """
    waiting: dict[int, Any] = {}
    due = 0
    for number, result in run_as_finished(function, shared, tasks, n_jobs):
        waiting[number] = result
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def run_all(
    function: Callable[..., Any],
    shared: tuple,
    tasks: Iterable[tuple],
    n_jobs: int | None,
    heard: Callable[[int], None],
) -> list[Any]:
    """All results in the order of the tasks; `heard` is told how many are there, as they come."""
    found: dict[int, Any] = {}
    for number, result in run_as_finished(function, shared, tasks, n_jobs):
        found[number] = result
        heard(len(found))
    return [found[number] for number in range(len(found))]


def run_as_finished(
    function: Callable[..., Any], shared: tuple, tasks: Iterable[tuple], n_jobs: int | None
) -> Iterator[tuple[int, Any]]:
    """(number of the task, its result), the first to be finished first: none waits for another."""
    engine = find_engine(n_jobs)
    if engine.here:
        yield from ((k, function(*shared, *task)) for k, task in enumerate(tasks))
        return
    whole_loops()  # before others start: they compile loops as this process does
    payload = cloudpickle.dumps(shared)
    digest = hashlib.sha256(payload).hexdigest()
    source = engine.ship(digest, payload)
    del payload
    folder = kept_folder() if engine.same_disk else None
    work = (
        delayed(call)(k, digest, source, cloudpickle.dumps((function, task)), folder)
        for k, task in enumerate(tasks)
    )
    done = 0
    try:
        with _closing(engine.parallel()(work)) as results:
            for result in results:
                done += 1
                yield result
    except engine.deaths as error:
        raise WorkerError(_death(engine, done)) from error


@contextlib.contextmanager
def _closing(results: Any) -> Iterator[Iterable[Any]]:
    """The results; who stops listening has a reason, of which joblib need not warn."""
    try:
        yield results
    finally:
        if hasattr(results, "close"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.close()


def _death(engine: AbstractEngine, done: int) -> str:
    return (
        f"a worker process died in the middle of its work; {done} tasks of this call were "
        f"finished before, and are kept where a checkpoint is. {engine.mend} The same call with "
        "the same checkpoint goes on from there."
    )
