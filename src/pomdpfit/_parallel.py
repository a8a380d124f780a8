"""Work spread over processes by joblib, on whatever backend the user has configured.

A process that unpickles JAX arrays before 64-bit floats are switched on gets 32-bit ones, without
a word. So what is sent travels as bytes that are opened only after the switch. What all tasks
share is sent as the same bytes and opened once in each process.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cloudpickle
from joblib import Parallel, delayed

from pomdpfit._precision import require_float64


def run_parallel(
    function: Callable[..., Any], shared: tuple, tasks: Iterable[tuple], n_jobs: int
) -> Iterator[Any]:
    """function(*shared, *task) for each task, in order; here and now if n_jobs is 1."""
    if n_jobs == 1:
        yield from (function(*shared, *task) for task in tasks)
        return
    common = cloudpickle.dumps((function, shared))
    jobs = (delayed(_call)(common, cloudpickle.dumps(task)) for task in tasks)
    yield from Parallel(n_jobs=n_jobs, return_as="generator")(jobs)


def _call(common: bytes, task: bytes) -> Any:
    require_float64()
    function, shared = _opened(common)
    return function(*shared, *cloudpickle.loads(task))


@functools.lru_cache(maxsize=1)
def _opened(common: bytes) -> tuple[Callable[..., Any], tuple]:
    return cloudpickle.loads(common)
