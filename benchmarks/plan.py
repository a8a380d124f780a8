"""python -m benchmarks.plan: one evaluation on many workers, from what was measured on one."""

import json
from typing import Any

from benchmarks.__main__ import RESULTS
from benchmarks.row import row_of
from benchmarks.schedule import Cluster, simulate

_WORKERS = (1, 10, 100, 1000, 10000)
_FILES = (2e6, 1e7)  # rows


def measured(results: dict[str, Any]) -> Cluster:
    """What one process does, and what a task costs the driver."""
    rows = [row_of(values) for values in results["streaming"]["rows"]]
    of = lambda start: next(row for row in rows if row.name.startswith(start))
    large = of("one likelihood with gradient")
    assert large.measured is not None
    count = float(large.name.split(", ")[1].split(" ")[0].replace(",", ""))
    call = of("the driver's time for one task").measured
    assert call is not None
    return Cluster(1e10, _FILES[0], count / large.measured, 1e-3 * call)


def table(results: dict[str, Any]) -> str:
    """Markdown: seconds by the formula and by the schedule, for small and for large files."""
    base = measured(results)
    lines = [
        "| workers | rows a file | files | formula, s | schedule, s |",
        "|--:|--:|--:|--:|--:|",
    ]
    for size in _FILES:
        cluster = Cluster(base.rows, size, base.rows_per_second, base.call)
        for workers in _WORKERS:
            predicted, played = cluster.predicted(workers), simulate(cluster, workers)
            cells = (workers, int(size), cluster.files, f"{predicted:,.0f}", f"{played:,.0f}")
            lines.append(
                "| "
                + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells)
                + " |"
            )
        lines.append(f"| *saturation* | {int(size):,} | | {cluster.saturation:,.0f} workers | |")
    rate, call = base.rows_per_second / 1e6, 1e3 * base.call
    lines.append(
        f"\n{rate:.2f} million rows a second; {call:.2f} ms of the driver's time for a file."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(json.loads(RESULTS.read_text())))
