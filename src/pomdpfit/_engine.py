"""Which engine work runs on: this process, or the one that joblib is configured for.

Without a configuration and without `n_jobs` work runs in this process. Otherwise it goes where
`joblib.parallel_config` says: loky's processes on this machine by default, dask's or ray's workers.
What all tasks share is shipped to a worker once. No engine here forks this process.
"""

import abc
from concurrent.futures.process import BrokenProcessPool
from numbers import Integral
from typing import Any

import joblib
import numpy as np
from joblib.parallel import BACKENDS, get_active_backend

from pomdpfit._errors import EstimationError
from pomdpfit._optional import import_extra


class AbstractEngine(abc.ABC):
    """Where tasks run, how many at a time, and how what they share gets there."""

    jobs: int  # tasks at a time, as far as is known before they begin
    here = False  # in this process, one after the other
    same_disk = False  # whether workers see the files of this process under the same names
    deaths: tuple[type[BaseException], ...] = ()  # how joblib tells that a worker has died
    mend = ""  # what to do about that

    @abc.abstractmethod
    def ship(self, digest: str, payload: bytes) -> Any:
        """What stands for the shared bytes in every task: see `_parcel.call`."""

    @abc.abstractmethod
    def parallel(self) -> joblib.Parallel:
        """Joblib's runner of tasks, which gives results as they are finished."""


class Here(AbstractEngine):
    """This process: nothing is shipped and nobody else works."""

    jobs, here, same_disk = 1, True, True

    def ship(self, digest: str, payload: bytes) -> Any:
        """Nothing is."""
        raise NotImplementedError

    def parallel(self) -> joblib.Parallel:
        """Nobody is."""
        raise NotImplementedError


class Local(AbstractEngine):
    """Processes of this machine (loky), threads, or what another package has registered.

    Loky's processes are started afresh, not forked. Joblib writes an array once to a folder of
    its own, which each process maps into memory, and removes it at the end, or when this process
    has died.
    """

    same_disk = True
    deaths = (BrokenProcessPool,)
    mend = (
        "The system kills processes when memory runs out: use fewer of them (n_jobs). A crash in "
        "compiled code shows with n_jobs=1."
    )

    def __init__(self, backend: Any, jobs: int) -> None:
        self.jobs = jobs
        self._gives = "generator_unordered" if backend.supports_return_generator else "list"

    def ship(self, digest: str, payload: bytes) -> Any:
        """An array, which joblib knows how to share."""
        return np.frombuffer(payload, dtype=np.uint8)

    def parallel(self) -> joblib.Parallel:
        """One task at a time for each process, every array shared."""
        return joblib.Parallel(self.jobs, return_as=self._gives, batch_size=1, max_nbytes=0)


def find_engine(n_jobs: int | None) -> AbstractEngine:
    """The engine for so many processes: 1 for this one, None for what joblib is configured for."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise EstimationError(
            f"n_jobs must be at least 1, or -1 for all cores, or None for what joblib is "
            f"configured for, but it is {n_jobs!r}."
        )
    if n_jobs == 1:
        return Here()
    backend, configured = get_active_backend()
    asked = configured if n_jobs is None else int(n_jobs)
    kinds = {kind.__name__ for kind in type(backend).__mro__}
    if "DaskDistributedBackend" in kinds:
        from pomdpfit._dask_engine import DaskEngine

        return DaskEngine(backend)
    if "RayBackend" in kinds:
        from pomdpfit._ray_engine import RayEngine

        return RayEngine(backend, asked)
    jobs = backend.effective_n_jobs(asked)
    if jobs == 1:
        return Here()
    if "MultiprocessingBackend" in kinds:
        raise EstimationError(
            "joblib's backend 'multiprocessing' forks this process, which has started JAX: its "
            "copies would hang. Use joblib.parallel_config(backend='loky', n_jobs=...)."
        )
    return Local(backend, jobs)


def _make_ray_backend(**options: Any) -> Any:
    module = import_extra("ray.util.joblib.ray_backend", "ray", "the engine 'ray'")
    return module.RayBackend(**options)


# Joblib knows dask by name; ray it must be told of. Nothing of ray is imported before it is used.
if "ray" not in BACKENDS:
    joblib.register_parallel_backend("ray", _make_ray_backend)
