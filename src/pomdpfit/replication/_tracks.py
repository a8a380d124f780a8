"""Tracks of parts, each in a process of its own, with one view of their progress."""

import dataclasses
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from joblib import Parallel, cpu_count, delayed, parallel_config

from pomdpfit._precision import require_float64
from pomdpfit._progress import Progress, quiet
from pomdpfit.replication._study import Outcome, Part, Study

Finished = Callable[[str, Outcome, float], None]  # name, what came out, seconds


def run_tracks(
    study: Study,
    tracks: Sequence[Sequence[str]],
    parts: Mapping[str, Part],
    finished: Finished,
    n_jobs: int,
    tell: Progress,
) -> None:
    """Run every part of every track; `finished` hears of each as soon as it is there."""
    if n_jobs == 1 or len(tracks) == 1:
        for track in tracks:
            _run_track(study, track, parts, finished, tell, n_jobs)
        return
    with _listener(finished, tell) as send:
        jobs = (delayed(_in_worker)(study, list(track), dict(parts), send) for track in tracks)
        # On this machine, whatever joblib is configured for: workers write to a queue of it. LAPACK
        # has as many threads as here: the last bit of what it solves hangs on their number.
        with parallel_config("loky", inner_max_num_threads=_threads()):
            Parallel(n_jobs=min(n_jobs, len(tracks)))(jobs)


def _threads() -> int:
    """That LAPACK has in this process, unless it was told otherwise within."""
    told = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
    return int(told) if told and told.isdecimal() else cpu_count()


def _run_track(
    study: Study,
    track: Sequence[str],
    parts: Mapping[str, Part],
    finished: Finished,
    tell: Progress,
    n_jobs: int = 1,
) -> None:
    # What one part has found is for the later ones of its track.
    here = dataclasses.replace(study, tell=tell, n_jobs=n_jobs, found={})
    for name in track:
        # What a fit warns of is in the report, beside the numbers that it is about.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.perf_counter()
            outcome = parts[name](here)
        finished(name, outcome, time.perf_counter() - began)


def _in_worker(study: Study, track: list[str], parts: dict[str, Part], send: Any) -> None:
    require_float64()

    def finished(name: str, outcome: Outcome, seconds: float) -> None:
        send.put(("finished", (name, outcome, seconds)))

    def tell(what: str, done: int, total: int) -> None:
        send.put(("tell", (what, done, total)))

    with quiet():
        _run_track(study, track, parts, finished, tell)


@contextmanager
def _listener(finished: Finished, tell: Progress) -> Iterator[Any]:
    """A queue for workers to write to, and a thread that passes on what they say."""
    # Spawned: a process that has started JAX must not be forked.
    with multiprocessing.get_context("spawn").Manager() as manager:
        channel = manager.Queue()
        failed: list[BaseException] = []
        hears: dict[str, Callable[..., None]] = {"finished": finished, "tell": tell}

        def listen() -> None:
            while True:
                kind, content = channel.get()
                if kind == "stop":
                    return
                try:
                    hears[kind](*content)
                except BaseException as error:  # raised below, in the main thread
                    failed.append(error)

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield channel
        finally:
            channel.put(("stop", ()))
            thread.join()
        if failed:
            raise failed[0]
