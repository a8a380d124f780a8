"""One measurement on a streamed data set in a process of its own: JSON on the standard output.

python -m benchmarks.stream_case make FOLDER ROWS [FILES]
python -m benchmarks.stream_case gradient|memory|fit|tasks FOLDER
python -m benchmarks.stream_case workers FOLDER COUNT

The model is the bus engine of Rust's size with 11 parameters. Peaks are of the whole process.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

import pomdpfit as pf
from benchmarks.bus import bus_model
from benchmarks.size import FULL
from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._parallel import run_parallel

PERIODS = 99  # so that an agent has 100 rows
SAMPLE = 1000  # agents that a fit of all of them starts from
PRIOR, GRID = pf.KnownPrior([0.9, 0.1]), pf.Smooth(15)
MODEL = bus_model(FULL)
COLUMNS = {"agent": "agent", "time": "time", "observation": "z", "action": "a"}


def _likelihood(panel: pf.Panel) -> pf.Likelihood:
    return pf.Likelihood(MODEL, panel, prior=PRIOR, grid=GRID)


def make(folder: str, rows: str, files: str | None = None) -> dict[str, Any]:
    """Simulate the data set, and scan it."""
    began = time.perf_counter()
    agents = max(1, int(rows) // (PERIODS + 1))
    scan = pf.simulate_parquet(
        MODEL,
        MODEL.example(),
        folder,
        agents=agents,
        periods=PERIODS,
        seed=0,
        prior=PRIOR,
        agents_per_file=None if files is None else -(-agents // int(files)),
    )
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    pf.Panel.scan_parquet(folder, **COLUMNS)
    return {
        "rows": scan.rows,
        "files": len(scan.partitions),
        "bytes": sum(part.size for part in scan.partitions),
        "seconds": seconds,
        "scan": time.perf_counter() - began,
    }


def gradient(folder: str) -> dict[str, Any]:
    """One likelihood with gradient after one that compiles, and what would go to workers."""
    scan = pf.Panel.scan_parquet(folder, **COLUMNS)
    streamed = pf.StreamedLikelihood(_likelihood, scan)
    took = _timed(streamed, scan.agent_count)
    weights, names = np.broadcast_to(1.0, (1, 2)), streamed.space.free_leaves
    theta = {name: np.asarray(leaf) for name, leaf in MODEL.example().items()}
    task = ("pull", 0, theta, weights, names, Part.BOTH)
    answer = streamed._work.pull(0, theta, weights, names, Part.BOTH)
    sent = {
        "once": len(cloudpickle.dumps(streamed._work)),
        "task": len(cloudpickle.dumps(task)),
        "answer": len(cloudpickle.dumps(answer)),
    }
    return {**took, "rows": scan.rows, **sent, "peak": _peak()}


def workers(folder: str, count: str) -> dict[str, Any]:
    """One likelihood with gradient, its files shared by processes."""
    scan = pf.Panel.scan_parquet(folder, **COLUMNS)
    streamed = pf.StreamedLikelihood(_likelihood, scan, n_jobs=int(count))
    return {**_timed(streamed, scan.agent_count), "rows": scan.rows, "files": len(scan.partitions)}


def tasks(folder: str, count: int = 2000) -> dict[str, Any]:
    """What it costs to send a task that does nothing to another process and to hear of it."""
    shared = (np.zeros(1000),)
    run = lambda: list(run_parallel(_nothing, shared, [(k,) for k in range(count)], 2))
    run()  # starts the processes
    return {"seconds": _seconds(run) / count}


def _nothing(shared: np.ndarray, k: int) -> int:
    return k


def memory(folder: str) -> dict[str, Any]:
    """The same with all rows in memory."""
    panel = pf.Panel.scan_parquet(folder, **COLUMNS).collect()
    return {**_timed(_likelihood(panel), panel.agent_count), "peak": _peak()}


def fit(folder: str) -> dict[str, Any]:
    """A joint fit with standard errors: a sample from a good way off the truth, then all of it."""
    scan = pf.Panel.scan_parquet(folder, **COLUMNS)
    fit = lambda panel, start, **how: pf.fit(
        MODEL, panel, prior=PRIOR, grid=GRID, start=start, starts=1, **how
    )
    began = time.perf_counter()
    part = scan.sample(min(SAMPLE, scan.agent_count), seed=0)
    rough = fit(part, _off(), skip_hessian=True)
    middle = time.perf_counter()
    found = fit(scan, rough.theta)
    return {
        "seconds": time.perf_counter() - began,
        "sample": part.agent_count,
        "search": middle - began,
        "off": _worst(found, rough.theta),
        "steps": found.steps,
        "converged": found.converged,
        "worst": _worst(found, MODEL.example()),
        "peak": _peak(),
    }


def _off() -> dict[str, np.ndarray]:
    """Costs a third lower, hidden states that leave sooner, steps a third of the way to even."""
    theta = {name: np.asarray(leaf) for name, leaf in MODEL.example().items()}
    steps = theta["increment"]
    return {
        "RC": theta["RC"] * 2 / 3,
        "cost": theta["cost"] * 2 / 3,
        "stay": theta["stay"] * 0.9,
        "increment": (2 * steps + 1 / steps.shape[-1]) / 3,
    }


def _worst(found: pf.Estimate, theta: Mapping[str, Any]) -> float:
    """The largest distance of an estimate from theta in standard errors."""
    other = MODEL.space().to_series(theta)[found.params.index]
    return float(((found.params - other) / found.bse).abs().max())


def _timed(likelihood: AbstractLikelihood, agents: int) -> dict[str, float]:
    ones, names = np.broadcast_to(1.0, (agents, 2)), likelihood.space.free_leaves

    def run() -> None:
        likelihood.pull(MODEL.example(), ones, names)

    return {"first": _seconds(run), "seconds": min(_seconds(run), _seconds(run))}


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


_CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "make": make,
    "gradient": gradient,
    "workers": workers,
    "tasks": tasks,
    "memory": memory,
    "fit": fit,
}

if __name__ == "__main__":
    what, folder, *more = sys.argv[1:]
    print(json.dumps(_CASES[what](str(Path(folder)), *more)))
