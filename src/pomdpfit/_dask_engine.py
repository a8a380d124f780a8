"""Dask's workers: what tasks share is a task of its own, which the scheduler can have done again.

Data that were merely scattered are lost with the last worker that holds them.
"""

import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import joblib
from distributed import Client
from distributed.scheduler import KilledWorker
from joblib._dask import DaskDistributedBackend

from pomdpfit._engine import AbstractEngine

_shipped: weakref.WeakKeyDictionary[Client, dict[str, Any]] = weakref.WeakKeyDictionary()


class DaskEngine(AbstractEngine):
    """The cluster of the client that joblib has found."""

    deaths = (KilledWorker, CancelledError)
    mend = (
        "Dask gave a task up after several workers had died with it, or has lost its scheduler. "
        "Look into the workers' logs, and give each more memory (--memory-limit)."
    )

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.jobs = max(1, backend.effective_n_jobs(-1))

    def ship(self, digest: str, payload: bytes) -> Any:
        """A future of the bytes, which workers pass on to each other.

        The client's last one is kept, so that the next work on the same things ships nothing.
        """
        client = self._backend.client
        last = _shipped.get(client, {})
        if digest not in last or last[digest].status not in ("pending", "finished"):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")  # once
                future = client.submit(_same, payload, key=f"pomdpfit-{digest}")
            last = {digest: future}
            _shipped[client] = last
        return last[digest]

    def parallel(self) -> joblib.Parallel:
        """All tasks are handed over at once: workers that join later find some to do."""
        known = self._backend
        backend = _Backend(client=known.client, **known.submit_kwargs)
        backend.wait_for_workers_timeout = known.wait_for_workers_timeout
        backend.nesting_level = known.nesting_level
        return joblib.Parallel(
            self.jobs,
            backend=backend,
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch="all",
        )


class _Backend(DaskDistributedBackend):
    """Joblib's, which waits for ever for a task that dask has given up, and stays in this process
    where the cluster has one core so far."""

    def effective_n_jobs(self, n_jobs: int) -> int:
        return max(2, super().effective_n_jobs(n_jobs))

    def submit(self, func: Callable, callback: Callable | None = None) -> Future:
        future = super().submit(func, callback)

        def heard(done: Future) -> None:
            error = done.exception()
            if error is not None and callback is not None:
                callback(error)

        future.add_done_callback(heard)
        return future


def _same(payload: bytes) -> bytes:
    return payload
