"""Solving the bus model at a discount of 0.9999, cold and after a move of theta.

Targets are those of one core (`one_core`); what all cores make of it stands beside them.
"""

import pomdpfit as pf
from benchmarks.bus import application, bus_model, moved, plain_application, solver_alone
from benchmarks.process import ProcessError, run_module
from benchmarks.row import Row
from benchmarks.size import FULL, Size
from benchmarks.timing import side_by_side

_UNIT = "applications"


def rows(size: Size) -> list[Row]:
    """Units of time of both solvers on both schemes."""
    linear, smooth = pf.Linear(size.nodes), pf.Smooth(size.nodes)
    return _on_one_core(size) + _on_grid(size, linear, True) + _on_grid(size, smooth, False)


def _on_one_core(size: Size) -> list[Row]:
    where = f"Linear {size.bins} x {size.nodes}, one core"
    asked = (("cold", "cold start", 30.0), ("warm", "warm start after a move of 2 %", 12.0))
    try:
        found = run_module("benchmarks.one_core", "full" if size == FULL else "tiny")
    except ProcessError as error:
        return [Row(f"{where}: {t}", None, _UNIT, most, note=str(error)) for _, t, most in asked]
    unit = found["unit"]
    rows = [
        Row(
            f"{where}: {told}, solver alone",
            found[key] / unit,
            _UNIT,
            most,
            note=f"{found[f'{key} steps']} steps, {1e3 * found[key]:.1f} ms",
        )
        for key, told, most in asked
    ]
    note = "the unit of the next two rows; the targets were set on one core"
    return [Row(f"{where}: one application", 1e3 * unit, "ms", note=note), *rows]


def _on_grid(size: Size, grid: object, plainly: bool) -> list[Row]:
    model = bus_model(size)
    theta = model.example()
    there = moved(theta)
    newton, plain = pf.Newton(), pf.RelativeValueIteration()
    here = pf.solve(model, theta, grid=grid)
    next_one = pf.solve(model, there, grid=grid, start=here)
    slow = pf.solve(model, theta, grid=grid, solver=plain)
    looked_up = {"plain unit": plain_application(here)} if plainly else {}
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
    where = f"{type(grid).__name__} {size.bins} x {size.nodes}, all cores"
    units = {name: value / unit for name, value in seconds.items()}
    told = (
        ("cold start, solver alone", "cold", f"{here.steps} steps{in_old('cold')}"),
        (
            "warm start after a move of 2 %, solver alone",
            "warm",
            f"{next_one.steps} steps{in_old('warm')}",
        ),
        ("cold start, pf.solve", "cold, pf.solve", "with checks and what a Solution needs"),
        ("warm start, pf.solve", "warm, pf.solve", "likewise"),
        ("relative value iteration, cold", "plain", f"{slow.steps} sweeps"),
    )
    return [
        Row(f"{where}: one application", 1e3 * unit, "ms", note="the unit of the rows below"),
        *_plain_row(where, unit, old),
        *(Row(f"{where}: {name}", units[key], _UNIT, note=note) for name, key, note in told),
    ]


def _plain_row(where: str, unit: float, old: float | None) -> list[Row]:
    if old is None:
        return []
    note = f"{1e3 * old:.2f} ms: the form in which the targets were set"
    return [Row(f"{where}: one plain application", old / unit, _UNIT, note=note)]
