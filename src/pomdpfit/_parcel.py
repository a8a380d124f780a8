"""What a worker does with what it is sent.

A process that unpickles JAX arrays before 64-bit floats are switched on gets 32-bit ones, without
a word. So what is sent travels as bytes that are opened only after the switch. What all tasks share
is opened once in each thread of a worker and kept: likelihoods remember what they have found, which
two threads must not do to the same one.
"""

import threading
from pathlib import Path
from typing import Any

import cloudpickle
import joblib
import numpy as np

from pomdpfit._precision import require_float64
from pomdpfit._progress import quiet
from pomdpfit.programs import cache_compilations, kept_folder, told_folder

_KEPT = 2  # shared things, the last used ones: a worker may serve two pieces of work by turns
_opened = threading.local()


class Reference:
    """Where a worker finds the bytes that all tasks share, for engines that keep them."""

    def fetch(self) -> bytes:
        """The bytes, from the engine's own store."""
        raise NotImplementedError


def call(
    number: int, digest: str, source: Any, work: bytes, folder: Path | None = None
) -> tuple[int, Any]:
    """function(*shared, *task), in a worker, with the number of the task.

    digest  of the shared bytes
    source  the shared bytes, or where they are: looked at where the digest is not known here
    work    the function and the task
    folder  where who sent it keeps compiled programs, if workers see the same files
    """
    require_float64()
    _keep_programs(folder)
    shared = _shared(digest, source)
    function, task = cloudpickle.loads(work)
    # What runs in parallel inside a task stays in its process: all others are busy.
    with joblib.parallel_config(backend="sequential"), quiet():
        return number, function(*shared, *task)


def _keep_programs(folder: Path | None) -> None:
    """In the folder of who sent the task, or in the one that JAX was told of in this worker."""
    if folder is not None and kept_folder() != folder:
        cache_compilations(folder)
    elif folder is None and kept_folder() is None and told_folder() is not None:
        cache_compilations()


def _shared(digest: str, source: Any) -> tuple:
    kept: dict[str, tuple] = _opened.__dict__.setdefault("kept", {})
    shared = kept.pop(digest, None)
    if shared is None:
        if isinstance(source, Reference):
            source = source.fetch()
        elif isinstance(source, np.ndarray):
            source = source.data
        shared = cloudpickle.loads(source)
    kept[digest] = shared  # the last one now
    while len(kept) > _KEPT:
        kept.pop(next(iter(kept)))
    return shared
