"""Peaks of memory: of a solve, and of a likelihood with its gradient as the panel grows."""

from benchmarks.process import ProcessError, run_module
from benchmarks.row import Row
from benchmarks.size import FULL, Size


def rows(size: Size) -> list[Row]:
    """In sizes of the value array times actions, and in bytes a row of the panel."""
    cases = (("linear", size.nodes), ("linear", size.memory_nodes), ("smooth", size.nodes))
    solves = [row for case in cases for row in _solve(size, *case)]
    return [*solves, *_gradient(size)]


def _solve(size: Size, scheme: str, nodes: int) -> list[Row]:
    where = f"{scheme} {size.bins} x {nodes}"
    name, unit = f"peak of a solve, {where}", "times value array x actions"
    try:
        found = run_module("benchmarks.peak", _scale(size), "solve", scheme, str(nodes))
    except ProcessError as error:
        return [Row(name, None, unit, 8.0, note=str(error))]
    note = f"{found['solve'] / 1e6:.1f} MB; value array x actions {found['values'] / 1e6:.2f} MB"
    one = found["application"] / found["values"]
    return [
        Row(name, found["solve"] / found["values"], unit, 8.0, note=note),
        Row(f"peak of one application of the operator, {where}", one, unit),
    ]


def _gradient(size: Size) -> list[Row]:
    out, each = [], []
    for agents in size.memory_agents:
        name = f"peak of likelihood and gradient, {agents * size.periods:,} rows"
        try:
            found = run_module("benchmarks.peak", _scale(size), "gradient", str(agents))
        except ProcessError as error:
            out.append(Row(name, None, "bytes a row", note=str(error)))
            continue
        each.append(found["gradient"] / found["rows"])
        note = f"{found['gradient'] / 1e6:.0f} MB in all"
        out.append(Row(name, each[-1], "bytes a row", note=note))
    if len(each) == len(size.memory_agents) and each[0] > 0:
        ratio = each[-1] / each[0]
        name = "bytes a row, the larger panel beside the smaller"
        out.append(Row(name, ratio, "times", 1.25, note="linear in the panel: 1"))
    return out


def _scale(size: Size) -> str:
    return "full" if size == FULL else "tiny"
