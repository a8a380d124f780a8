"""python -m benchmarks.one_core full|tiny: cold and warm solves in units, all on one core.

The targets come from a prototype on one core. There unit and solve have the same means; with more
cores the unit, one pass through memory, shares its work among them, and a sweep, a chain of many
small steps, hardly.
"""

import json
import os
import sys

if __name__ == "__main__":  # before JAX starts as many threads as it finds cores
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import pomdpfit as pf
from benchmarks.bus import application, bus_model, moved, solver_alone
from benchmarks.size import FULL, TINY, Size
from benchmarks.timing import side_by_side


def solves(size: Size) -> dict[str, float]:
    """Seconds of one application, a cold and a warm solve; and steps of both."""
    model, grid, newton = bus_model(size), pf.Linear(size.nodes), pf.Newton()
    theta = model.example()
    here = pf.solve(model, theta, grid=grid)
    there = pf.solve(model, moved(theta), grid=grid, start=here)
    works = {
        "unit": application(here),
        "cold": solver_alone(here, newton),
        "warm": solver_alone(there, newton, here.coefficients),
    }
    steps = {"cold steps": here.steps, "warm steps": there.steps}
    return {**side_by_side(works, 3 * size.repetitions), **steps}


if __name__ == "__main__":
    print(json.dumps(solves(FULL if sys.argv[1] == "full" else TINY)))
