"""Ray's workers: what tasks share lies in ray's object store; the actors stay between calls."""

import weakref
from typing import Any

import joblib
import ray
from ray.exceptions import RayActorError
from ray.util.joblib.ray_backend import RayBackend
from ray.util.multiprocessing import Pool

from pomdpfit._engine import AbstractEngine
from pomdpfit._parcel import Reference

# An actor that dies is started again, and its task with it, unless the user says otherwise.
_AGAIN = {"max_restarts": 3, "max_task_retries": 3}


class RayEngine(AbstractEngine):
    """The cluster that ray is connected to; if to none, ray.init() finds or starts one."""

    deaths = (RayActorError,)
    mend = (
        "Ray started a worker again several times, and it died each time: look into its logs, "
        "and use fewer processes (n_jobs) if memory has run out."
    )

    def __init__(self, known: RayBackend, jobs: int | None) -> None:
        if not ray.is_initialized():
            ray.init()
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        asked = -1 if jobs is None else jobs
        self.jobs = asked if asked > 0 else max(1, cores + 1 + asked)
        self._backend = _kept_backend(known)

    def ship(self, digest: str, payload: bytes) -> Any:
        """Where the bytes are in the store; the last ones are kept there for the next work."""
        return self._backend.stored(digest, payload)

    def parallel(self) -> joblib.Parallel:
        """All tasks are handed over at once: ray's pool deals them out by turns."""
        return joblib.Parallel(
            self.jobs,
            backend=self._backend,
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch="all",
        )


class _Stored(Reference):
    """Bytes in ray's store, fetched by a worker when it needs them, not with every task."""

    def __init__(self, where: ray.ObjectRef) -> None:
        self._where = where

    def fetch(self) -> bytes:
        return ray.get(self._where)


class _Backend(RayBackend):
    """Ray's backend with its actors kept from call to call, and results given one by one."""

    supports_return_generator = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pool: Pool | None = None
        self._size, self.parallel = 0, None
        self._last: tuple[str, _Stored] | None = None

    def stored(self, digest: str, payload: bytes) -> _Stored:
        """The bytes in the store."""
        if self._last is None or self._last[0] != digest:
            self._last = digest, _Stored(ray.put(payload))
        return self._last[1]

    def effective_n_jobs(self, n_jobs: int) -> int:
        return max(2, n_jobs)  # joblib would run one alone in this process

    def configure(  # type: ignore[override]
        self, n_jobs: int = 1, parallel: Any = None, **rest: Any
    ) -> int:
        if self._pool is None or self._size != n_jobs:
            for other in [*_backends.values(), self]:
                if other.parallel is None:  # idle actors hold the cores that these need
                    other.shut()
            self._pool = Pool(n_jobs, ray_remote_args=_AGAIN | (self.ray_remote_args or {}))
            self._size = n_jobs
        self.parallel = parallel
        return self.effective_n_jobs(n_jobs)

    def terminate(self) -> None:
        """The end of a call: the actors stay until the configuration is left."""
        self.parallel = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        self.shut()

    def shut(self) -> None:
        """Stop the actors."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            pool.terminate()


_backends: weakref.WeakKeyDictionary[RayBackend, _Backend] = weakref.WeakKeyDictionary()


def _kept_backend(known: RayBackend) -> _Backend:
    """The backend of ours for the one that joblib was configured with."""
    if known not in _backends:
        level, args = known.nesting_level, known.ray_remote_args
        _backends[known] = _Backend(nesting_level=level, ray_remote_args=args)
    return _backends[known]
