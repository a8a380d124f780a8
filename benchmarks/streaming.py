"""Panels larger than memory: rows a second beside the panel in memory, peaks, a whole fit."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.process import ProcessError, run_module
from benchmarks.row import Row
from benchmarks.size import Size

_CASE = "benchmarks.stream_case"
_FILES = 8  # that workers share
_MINUTES = 3600.0  # seconds that one measurement may take


def rows(size: Size) -> list[Row]:
    """In rows a second of the panel in memory, and in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return [
                *_beside_memory(Path(folder) / "small", size.stream_rows),
                *_workers(Path(folder) / "shared", size.stream_rows),
                *_large(Path(folder) / "large", size.stream_large),
                *_fit(Path(folder) / "fit", size.stream_fit),
            ]
        except ProcessError as error:
            return [Row("streaming", None, "", note=str(error))]


def _run(*words: object) -> dict[str, Any]:
    return run_module(_CASE, *map(str, words), seconds=_MINUTES)


def _beside_memory(folder: Path, count: int) -> list[Row]:
    made = _run("make", folder, count)
    streamed, memory = _run("gradient", folder), _run("memory", folder)
    note = f"{streamed['rows'] / streamed['seconds'] / 1e6:.2f} million rows a second"
    task, answer = streamed["task"], streamed["answer"]
    sent = f"the model once, {streamed['once']:,} bytes; then {task:,} out and {answer:,} back"
    return [
        Row(
            f"streamed likelihood and gradient, {made['rows']:,} rows",
            streamed["seconds"] / memory["seconds"],
            "times the panel in memory",
            note=note,
        ),
        Row("sent for one file at one theta", float(task + answer), "bytes", note=sent),
        Row(
            "the driver's time for one task (loky)",
            1e3 * _run("tasks", folder)["seconds"],
            "ms",
            note="a task that does nothing, of 2000",
        ),
        Row(
            "simulating to Parquet and scanning",
            made["bytes"] / made["rows"],
            "bytes a row",
            note=f"{made['seconds']:.0f} s and {made['scan']:.1f} s",
        ),
    ]


@contextlib.contextmanager
def _on_cores(count: int) -> Iterator[None]:
    """Processes that are started here have so many cores."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def _workers(folder: Path, count: int) -> list[Row]:
    """How an evaluation gets shorter with processes, each with a core of its own."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    _run("make", folder, count, _FILES)
    cores = len(os.sched_getaffinity(0))
    found = {}
    for workers in (1, 2, 4, 8):
        if workers <= cores:
            with _on_cores(workers):
                found[workers] = _run("workers", folder, workers)
    one = found.pop(1)
    note = f"{one['rows']:,} rows in {one['files']} files, {one['seconds']:.2f} s with one"
    return [
        Row(
            f"shared by {workers} processes, a core for each",
            one["seconds"] / each["seconds"],
            "times as fast as one",
            note=note,
        )
        for workers, each in found.items()
    ]


def _large(folder: Path, count: int) -> list[Row]:
    made = _run("make", folder, count)
    found = _run("gradient", folder)
    rate = found["rows"] / found["seconds"] / 1e6
    return [
        Row(
            f"peak of the process, likelihood and gradient, {found['rows']:,} rows",
            found["peak"] / 2**30,
            "GiB",
            2.0,
            note=f"{made['files']} files of {made['bytes'] / 1e6:,.0f} MB in all",
        ),
        Row(
            f"one likelihood with gradient, {found['rows']:,} rows",
            found["seconds"],
            "s",
            note=f"{rate:.2f} million rows a second",
        ),
    ]


def _fit(folder: Path, count: int) -> list[Row]:
    made = _run("make", folder, count)
    found = _run("fit", folder)
    note = (
        f"{found['search']:.0f} s of it a sample of {found['sample']:,} agents, which ended "
        f"{found['off']:.1f} s.e. off; then {found['steps']} steps, "
        f"{'converged' if found['converged'] else 'NOT converged'}; peak "
        f"{found['peak'] / 2**30:.2f} GiB; furthest from the truth {found['worst']:.1f} s.e."
    )
    return [Row(f"joint fit, {made['rows']:,} rows", found["seconds"], "s", note=note)]
