"""From monthly mileage to a panel of bins and replacements, under given conventions.

Rust numbers cells of mileage from one, cell = ceil(mileage / width), and z = cell - 1 is the bin
that costs depend on. (For mileage on the edge of a bin this is one less than floor(mileage /
width): that single reading of bus 4339, 70,000 miles, is what his Table IX hangs on.) Increments
are differences of cells; but after a replacement he counts them from cell zero, so that the
increment is the cell itself and not z. One row cannot hold both, and both are used: the cell by
the transition into that month, z by its choice and by the transition out of it. So with "ceil"
each engine is an agent of its own, named (bus, engine). The life of a replaced engine ends with a
row, without an action, that holds the cell; the life of the next begins with a row for the same
month that holds z. No transition leads from one to the other, so each month's increment and choice
are scored once. A new engine is in good condition for certain, so nothing is lost by that.
With "floor" and "skip" each bus is an agent.
"""

from collections.abc import Sequence

import numpy as np

from pomdpfit._panel import Panel
from pomdpfit._types import Float, Int
from pomdpfit.datasets._bus_record import BusRecord
from pomdpfit.datasets._conventions import Conventions

HIGHEST_MILEAGE = 450_000


def mileage_cell(mileage: Float[np.ndarray, "T"], bins: int) -> Int[np.ndarray, "T"]:
    """Cells counted from one; a product of whole numbers, so that no edge is missed."""
    return np.ceil(mileage * bins / HIGHEST_MILEAGE).astype(int)


def mileage_bin(mileage: Float[np.ndarray, "T"], bins: int) -> Int[np.ndarray, "T"]:
    """z, counted from zero."""
    return np.maximum(mileage_cell(mileage, bins) - 1, 0)


def make_panel(records: Sequence[BusRecord], bins: int, conventions: Conventions) -> Panel:
    """One agent a bus, or with "ceil" one an engine; masks say what is scored."""
    if conventions.after_replacement == "ceil":
        panel, first = _by_engine(records, bins, conventions)
    else:
        panel, first = _by_bus(records, bins, conventions)
    if conventions.excess == "drop":
        panel = panel.exclude_transitions(_steps(panel) > conventions.largest)
    if conventions.after_replacement == "skip":
        panel = panel.exclude_transitions((panel.a == 1) & panel.acted)
    if conventions.first_choice:
        return panel
    choice = np.ones(panel.z.shape, dtype=bool)
    choice[first, 0] = False
    return panel.score(choice=choice)


def highest_increment(panel: Panel) -> int:
    """The largest step that a panel scores; after a replacement from zero."""
    return int(_steps(panel)[panel.continues & panel.informs].max(initial=1))


def _steps(panel: Panel) -> Int[np.ndarray, "N T"]:
    """z' - z, and z' itself after a replacement; of no meaning in an agent's last row."""
    z_next = np.roll(panel.z, -1, axis=1)
    return np.where(panel.a == 1, z_next, z_next - panel.z)


def _by_bus(
    records: Sequence[BusRecord], bins: int, conventions: Conventions
) -> tuple[Panel, np.ndarray]:
    z = [np.concatenate(_lives(record, bins, conventions)) for record in records]
    panel = Panel.from_arrays(
        z, [record.replaced for record in records], agents=[record.bus for record in records]
    )
    return panel, np.ones(len(records), dtype=bool)


def _by_engine(
    records: Sequence[BusRecord], bins: int, conventions: Conventions
) -> tuple[Panel, np.ndarray]:
    z, a, agents, first = [], [], [], []
    for record in records:
        lives = _lives(record, bins, conventions)
        for engine, life in enumerate(lives):
            z.append(np.append(life, _first_step(record, engine + 1, bins, conventions)))
            a.append(record.replaced[record.engine == engine])
            agents.append((record.bus, engine))
            first.append(engine == 0)
    return Panel.from_arrays(z, a, agents=agents), np.array(first)


def _first_step(
    record: BusRecord, engine: int, bins: int, conventions: Conventions
) -> Int[np.ndarray, "1"]:
    """The cell of a new engine's first reading; nothing if there is no such engine."""
    step = mileage_cell(record.mileage[record.engine == engine][:1], bins)
    return np.minimum(step, conventions.largest) if conventions.excess == "lump" else step


def _lives(record: BusRecord, bins: int, conventions: Conventions) -> list[Int[np.ndarray, "t"]]:
    """z of each engine in turn."""
    z = mileage_bin(record.mileage, bins)
    lives = [z[record.engine == engine] for engine in range(record.engine[-1] + 1)]
    if conventions.excess != "lump":
        return lives
    steps = [np.minimum(np.diff(life), conventions.largest) for life in lives]
    # Where the month after a replacement is scored it is an increment like any other: of z itself,
    # or of the cell, which is one more.
    highest = {"skip": None, "floor": conventions.largest, "ceil": conventions.largest - 1}
    most = highest[conventions.after_replacement]
    starts = [
        int(life[0]) if engine == 0 or most is None else min(int(life[0]), most)
        for engine, life in enumerate(lives)
    ]
    return [start + np.append(0, np.cumsum(s)) for start, s in zip(starts, steps, strict=True)]
