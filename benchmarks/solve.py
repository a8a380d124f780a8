"""Solving the bus model at a discount of 0.9999, cold and after a move of theta."""

import pomdpfit as pf
from benchmarks.bus import application, bus_model, moved, solver_alone
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import side_by_side

_UNIT = "applications"


def rows(size: Size) -> list[Row]:
    """Units of time of both solvers on both schemes."""
    return _on_grid(size, pf.Linear(size.nodes), True) + _on_grid(
        size, pf.Smooth(size.nodes), False
    )


def _on_grid(size: Size, grid: object, asked: bool) -> list[Row]:
    model = bus_model(size)
    theta = model.example()
    there = moved(theta)
    newton, plain = pf.Newton(), pf.RelativeValueIteration()
    here = pf.solve(model, theta, grid=grid)
    next_one = pf.solve(model, there, grid=grid, start=here)
    slow = pf.solve(model, theta, grid=grid, solver=plain)
    seconds = side_by_side(
        {
            "unit": application(here),
            "cold": solver_alone(here, newton),
            "warm": solver_alone(next_one, newton, here.coefficients),
            "cold, pf.solve": lambda: pf.solve(model, theta, grid=grid).coefficients,
            "warm, pf.solve": lambda: pf.solve(model, there, grid=grid, start=here).coefficients,
            "plain": solver_alone(here, plain),
        },
        size.repetitions,
    )
    unit = seconds.pop("unit")
    where = f"{type(grid).__name__} {size.bins} x {size.nodes}"
    units = {name: value / unit for name, value in seconds.items()}
    told = (
        ("cold start, solver alone", "cold", 30.0, f"{here.steps} steps"),
        (
            "warm start after a move of 2 %, solver alone",
            "warm",
            12.0,
            f"{next_one.steps} steps",
        ),
        ("cold start, pf.solve", "cold, pf.solve", None, "with checks and what a Solution needs"),
        ("warm start, pf.solve", "warm, pf.solve", None, "likewise"),
        ("relative value iteration, cold", "plain", None, f"{slow.steps} sweeps"),
    )
    return [
        Row(f"{where}: one application", 1e3 * unit, "ms", note="the unit of the rows below"),
        *(
            Row(f"{where}: {name}", units[key], _UNIT, target if asked else None, note=note)
            for name, key, target, note in told
        ),
    ]
