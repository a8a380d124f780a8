"""A first fit in a fresh process, and a second one: JSON on the standard output.

python -m benchmarks.first_fit full|tiny group4|table1 [FOLDER]

FOLDER keeps compiled programs. `group4` is the two-stage fit of Rust's buses, `table1` the joint
fit of simulated ones; tiny or without his data, a small simulated panel stands in.
"""

import time

began = time.perf_counter()  # imports are part of what a user waits for

import collections  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402

import pomdpfit as pf  # noqa: E402

imported = time.perf_counter()

from benchmarks.fit_cases import Case, group_4, table_1  # noqa: E402
from benchmarks.size import FULL, TINY  # noqa: E402
from pomdpfit import _likelihood  # noqa: E402
from pomdpfit.programs import forget_programs  # noqa: E402

_STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling",
}
_COUNTED = ("terms", "pull", "push", "slope")


def count_evaluations() -> collections.Counter:
    """Count calls of the likelihood by kind, from now on."""
    calls: collections.Counter = collections.Counter()

    def counting(name: str, method: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return method(*args, **kwargs)

        return wrapped

    for name in ("terms", "pull", "push"):
        setattr(pf.Likelihood, name, counting(name, getattr(pf.Likelihood, name)))
    _likelihood.lagrangian_slope = counting("slope", _likelihood.lagrangian_slope)
    return calls


def listen() -> tuple[collections.Counter, collections.Counter]:
    """Seconds and numbers of programs by stage, from now on."""
    seconds: collections.Counter = collections.Counter()
    programs: collections.Counter = collections.Counter()

    def heard(name: str, duration: float, **_: object) -> None:
        if name in _STAGES:
            seconds[_STAGES[name]] += duration
            programs[_STAGES[name]] += 1

    jax.monitoring.register_event_duration_secs_listener(heard)
    return seconds, programs


def timed_fit(case: Case) -> tuple[float, pf.Estimate]:
    """Seconds of the whole fit, and what it found."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pf.ConvergenceWarning)
        found = case.fit()
    return time.perf_counter() - began, found


def main(scale: str, what: str, folder: str | None = None) -> dict[str, Any]:
    size = {"full": FULL, "tiny": TINY}[scale]
    case = {"group4": group_4, "table1": table_1}[what](size)
    forget_programs()  # simulating the panel is no part of the fit
    if folder is not None:
        pf.cache_compilations(folder)
    calls = count_evaluations()
    seconds, programs = listen()
    first, found = timed_fit(case)
    evaluations = dict(calls)
    stages = dict(seconds)
    second, found = timed_fit(case)
    return {
        "imports": imported - began,
        "first": first,
        "second": second,
        **{stage: stages.get(stage, 0.0) for stage in _STAGES.values()},
        "programs": programs["compiling"],
        "evaluations": {name: evaluations.get(name, 0) for name in _COUNTED},
        "steps": found.steps,
        "converged": found.converged,
        "case": case.name,
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
