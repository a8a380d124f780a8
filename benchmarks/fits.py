"""Whole fits with standard errors, in units and beside peers.

Units are plain applications of the operator with linear interpolation at the size of the targets:
the form in which ruspy's time for the fully observed model was taken down.
"""

import dataclasses
import importlib.util

import pomdpfit as pf
from benchmarks.bus import bus_plain_unit
from benchmarks.first_fit import timed_fit
from benchmarks.fit_cases import Case, group_4, observed
from benchmarks.process import ProcessError, run_module
from benchmarks.row import Row
from benchmarks.size import FULL, Size
from benchmarks.timing import least, side_by_side

_UNIT = "plain applications"
_RUSPY = 2250.0  # of them: ruspy 1.4 s, one application 0.62 ms, on one machine


def rows(size: Size) -> list[Row]:
    """Ours, our NFXP, the published yardstick, econirl, and Table I's joint fit."""
    return [*_group_4(size), *_table_1(size)]


def _group_4(size: Size) -> list[Row]:
    hidden, plain = group_4(size), observed(size)
    first, _ = timed_fit(hidden)  # compiles
    repetitions = 1 if first > 30 else size.repetitions
    unit = bus_plain_unit(size)
    least(unit)
    seconds = side_by_side(
        {"unit": unit, "nfxp": lambda: timed_fit(plain)[0]}, size.repetitions, budget=20
    )
    fits = [timed_fit(hidden) for _ in range(repetitions)]
    unit_seconds = min(seconds["unit"], least(unit, 50))
    ours, found = min(took for took, _ in fits), fits[0][1]
    out = [
        Row(
            f"two-stage fit, {hidden.name}",
            ours / unit_seconds,
            _UNIT,
            _RUSPY / 2,
            note=f"{ours:.2f} s; llf {found.llf:.3f}, converged: {found.converged}",
        ),
        Row(
            f"{plain.name}, the same buses",
            seconds["nfxp"] / unit_seconds,
            _UNIT,
            _RUSPY / 4,
            note=f"{seconds['nfxp']:.2f} s",
        ),
        Row(
            "ruspy's NFXP, 175 bins (published yardstick, not run here)",
            _RUSPY,
            _UNIT,
            note="1.4 s where a plain application took 0.62 ms; not on PyPI. "
            f"It takes {1e3 * unit_seconds:.2f} ms here",
        ),
    ]
    out.insert(1, _smooth(hidden, unit_seconds, repetitions))
    return [*out, *_econirl(size, ours)]


def _smooth(hidden: Case, unit_seconds: float, repetitions: int) -> Row:
    """The same fit on fewer nodes of the smooth scheme, which are as accurate."""
    case = dataclasses.replace(hidden, grid=pf.Smooth(min(hidden.grid.nodes, 21)))
    timed_fit(case)  # compiles
    seconds = min(timed_fit(case)[0] for _ in range(repetitions))
    return Row(f"the same on {case.grid}", seconds / unit_seconds, _UNIT, note=f"{seconds:.2f} s")


def _econirl(size: Size, ours: float) -> list[Row]:
    name, unit = "our fit beside econirl's NFXP (fully observed, 90 bins)", "times as fast"
    if not size.peers:
        return [Row(name, None, unit, 30.0, at_least=True, note="left out of a tiny run")]
    if importlib.util.find_spec("econirl") is None:
        return [Row(name, None, unit, 30.0, at_least=True, note="econirl is not installed")]
    try:
        peer = run_module("benchmarks.peer_econirl")
    except ProcessError as error:
        note = f"econirl did not run: {error} (pip install --group bench)"
        return [Row(name, None, unit, 30.0, at_least=True, note=note)]
    note = (
        f"econirl {peer['version']}: {peer['second']:.1f} s the second time, {peer['first']:.1f} s "
        "the first"
    )
    return [Row(name, peer["second"] / ours, unit, 30.0, at_least=True, note=note)]


def _table_1(size: Size) -> list[Row]:
    try:
        found = run_module("benchmarks.first_fit", "full" if size == FULL else "tiny", "table1")
    except ProcessError as error:
        return [Row("Table I's joint fit", None, "s", 20.0, note=str(error))]
    calls = found["evaluations"]
    return [
        Row(
            f"joint fit of {found['case']}, compilation included",
            found["first"],
            "s",
            20.0,
            note=f"{found['second']:.1f} s compiled; {found['steps']} steps, "
            f"converged: {found['converged']}",
        ),
        Row(
            "its evaluations of likelihood and derivatives",
            sum(calls.values()),
            "evaluations",
            60.0,
            note=f"{calls['terms']} of the terms alone, {calls['pull']} with a gradient, "
            f"{calls['push']} with scores; {calls['slope']} gradients for the Hessian, at a value "
            "that is not solved for again",
        ),
    ]
