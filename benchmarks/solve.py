"""Solving the bus model at a discount of 0.9999, cold and after a move of theta."""

import pomdpfit as pf
from benchmarks.bus import application, bus_model, moved, plain_application, solver_alone
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
    looked_up = {"plain unit": plain_application(here)} if asked else {}
    seconds = side_by_side(
        {
            "unit": application(here),
            **looked_up,
            "cold": solver_alone(here, newton),
            "warm": solver_alone(next_one, newton, here.coefficients),
            "cold, pf.solve": lambda: pf.solve(model, theta, grid=grid).coefficients,
            "warm, pf.solve": lambda: pf.solve(model, there, grid=grid, start=here).coefficients,
            "plain": solver_alone(here, plain),
        },
        size.repetitions,
    )
    unit, old = seconds.pop("unit"), seconds.pop("plain unit", None)
    in_old = lambda name: "" if old is None else f", {seconds[name] / old:.1f} plain applications"
    where = f"{type(grid).__name__} {size.bins} x {size.nodes}"
    units = {name: value / unit for name, value in seconds.items()}
    told = (
        ("cold start, solver alone", "cold", 30.0, f"{here.steps} steps{in_old('cold')}"),
        (
            "warm start after a move of 2 %, solver alone",
            "warm",
            12.0,
            f"{next_one.steps} steps{in_old('warm')}",
        ),
        ("cold start, pf.solve", "cold, pf.solve", None, "with checks and what a Solution needs"),
        ("warm start, pf.solve", "warm, pf.solve", None, "likewise"),
        ("relative value iteration, cold", "plain", None, f"{slow.steps} sweeps"),
    )
    return [
        Row(f"{where}: one application", 1e3 * unit, "ms", note="the unit of the rows below"),
        *_plain_row(where, unit, old),
        *(
            Row(f"{where}: {name}", units[key], _UNIT, target if asked else None, note=note)
            for name, key, target, note in told
        ),
    ]


def _plain_row(where: str, unit: float, old: float | None) -> list[Row]:
    if old is None:
        return []
    note = f"{1e3 * old:.2f} ms: the form in which the targets were set"
    return [Row(f"{where}: one plain application", old / unit, _UNIT, note=note)]
