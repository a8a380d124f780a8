"""Engines for tests: a dask cluster as the documentation starts one, and a small ray."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import joblib
import pytest

HERE = str(Path(__file__).parent)
# A task may cost two workers their lives, not three: then dask gives it up.
DASK = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2"}
RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_DEDUP_LOGS": "0"}


def environment():
    """Workers find the tests' modules as this process does."""
    path = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path}


@contextmanager
def dask_cluster(folder, workers=2) -> Iterator:
    """A scheduler and workers, each a process of its own; the client of them."""
    distributed = pytest.importorskip("distributed")
    meeting = str(folder / "scheduler.json")
    dask = [sys.executable, "-m", "dask"]
    quiet = ["--no-dashboard"]
    scheduler = [*dask, "scheduler", "--scheduler-file", meeting, "--port", "0", *quiet]
    worker = [*dask, "worker", "--scheduler-file", meeting, "--nthreads", "1", *quiet]
    with (folder / "log.txt").open("w") as log:
        start = lambda command: subprocess.Popen(
            command, cwd=folder, env=environment() | DASK, stdout=log, stderr=log
        )
        processes = [start([*scheduler, "--host", "127.0.0.1"])]
        processes += [start(worker) for _ in range(workers)]
        try:
            with distributed.Client(scheduler_file=meeting, timeout=60) as client:
                client.wait_for_workers(workers, timeout=120)
                yield client
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait()


@contextmanager
def ray_cluster() -> Iterator:
    """Two cores of this machine, in ray's hands."""
    ray = pytest.importorskip("ray")
    before = dict(os.environ)
    os.environ.update(environment() | RAY)
    try:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 2**20,
        )
        yield ray
    finally:
        ray.shutdown()
        os.environ.clear()
        os.environ.update(before)


class Engines:
    """By name: what a user enters to have work done elsewhere; clusters start when asked for."""

    def __init__(self, request):
        self._request = request

    def __call__(self, name):
        if name in ("loky", "threading"):
            return joblib.parallel_config(backend=name, n_jobs=2)
        cluster = self._request.getfixturevalue(f"{name}_engine")
        # One backend for all tests: its actors stay, and with them what they have compiled.
        return joblib.parallel_config(backend=cluster if name == "ray" else name)
