"""The peak of memory of one call in a fresh process: JSON on the standard output.

python -m benchmarks.peak full|tiny solve linear|smooth NODES
python -m benchmarks.peak full|tiny gradient AGENTS

The call is made once to compile it; then memory that is free is given back, the peak is set to
what is in use, and the call is made again. Every large array has pages of its own, which go back
when it is freed: of what malloc keeps for the next call nothing would be seen. Where Linux does not
offer that, the difference of `ru_maxrss` over both calls stands in, which includes the compiler's
own memory.
"""

import contextlib
import ctypes
import dataclasses
import gc
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pomdpfit as pf
from benchmarks.bus import application, bus_model, bus_panel, solver_alone
from benchmarks.size import FULL, TINY, Size
from benchmarks.timing import once
from pomdpfit.programs import forget_programs

_SELF = Path("/proc/self")
_M_MMAP_THRESHOLD, _LARGE = -3, 1 << 16  # of malloc.h; bytes
_SCHEMES = {"linear": pf.Linear, "smooth": pf.Smooth}


def _status(name: str) -> int:
    """Bytes that Linux tells of this process."""
    for line in (_SELF / "status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"no {name} in /proc/self/status")


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that a call needs at its peak beyond what was in use before it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    once(work)
    gc.collect()
    try:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        (_SELF / "clear_refs").write_text("5")  # sets the peak to what is in use
        used = _status("VmRSS")
    except OSError:
        once(work)
        return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    once(work)
    return _status("VmHWM") - used


def solve_case(size: Size, scheme: str, nodes: int) -> dict[str, Any]:
    """Peak of a solve, of one application, and the size of the value array times the actions."""
    model = bus_model(size)
    solution = pf.solve(model, model.example(), grid=_SCHEMES[scheme](nodes))
    values = solution.coefficients.nbytes * solution.primitives.kernel.actions
    return {
        "solve": peak_of(solver_alone(solution, pf.Newton())),
        "application": peak_of(application(solution)),
        "values": values,
    }


def gradient_case(size: Size, agents: int) -> dict[str, Any]:
    """Peak of the likelihood with its gradient on a panel of so many agents."""
    base = dataclasses.replace(size, agents=min(agents, size.agents))
    panel, prior = bus_panel(base)
    times = agents // base.agents
    if times > 1:  # the same buses again: memory does not care, and drawing takes long
        z, a = np.tile(panel.z, (times, 1)), np.tile(panel.a, (times, 1))
        panel = pf.Panel.from_arrays(list(z), list(a))
        prior = pf.KnownPrior([0.5, 0.5])
    likelihood = pf.Likelihood(bus_model(size), panel, prior=prior, grid=pf.Smooth(21))
    theta = bus_model(size).example()
    start = likelihood(theta).start
    likelihood.forget()
    forget_programs()
    gc.collect()
    return {
        "gradient": peak_of(lambda: likelihood.gradient(theta, start=start)[1].to_numpy()),
        "rows": agents * size.periods,
    }


def main(scale: str, what: str, *case: str) -> dict[str, Any]:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(_M_MMAP_THRESHOLD, _LARGE)
    size = {"full": FULL, "tiny": TINY}[scale]
    if what == "solve":
        return solve_case(size, case[0], int(case[1]))
    return gradient_case(size, int(case[0]))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
