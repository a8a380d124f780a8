"""Repairs of a table that are made when asked for, counted and noted; nothing else is repaired."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._types import Bool, Int
from pomdpfit.data._table import Table


@dataclasses.dataclass(frozen=True)
class DropRows:
    """Leave out the rows that lack a value in one of `columns`; by default in any that is read.

    An agent's last row may lack its action. A row that is left out between two others leaves a
    gap: see `SplitAtGaps`. Where an agent's first rows are left out, the prior applies at the first
    row that is left, and with a finite horizon that row keeps its own epoch. Rows without a time
    cannot be placed, and count for no epoch.
    """

    columns: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class DropAgents:
    """Leave out every agent with a row that lacks a value in one of `columns`; see `DropRows`."""

    columns: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class SplitAtGaps:
    """Make the stretches between gaps in time agents of their own, named (agent, 0), (agent, 1)...

    Agents without a gap keep their names. The belief begins anew from the prior at each part; with
    a finite horizon each begins in its own epoch.
    """


@dataclasses.dataclass(frozen=True)
class TopCode:
    """Count observations above `highest` as `highest`."""

    highest: int

    def __post_init__(self) -> None:
        """A code: a whole number from 0."""
        if type(self.highest) is not int or self.highest < 0:
            raise PanelError(
                f"TopCode needs a code, a whole number from 0, but it is {self.highest!r}."
            )


Repair = DropRows | DropAgents | SplitAtGaps | TopCode


def checked_repairs(repair: Repair | Sequence[Repair]) -> tuple[Repair, ...]:
    """The repairs asked for, one or several."""
    asked = (repair,) if isinstance(repair, Repair) else repair
    if isinstance(asked, str) or not isinstance(asked, Sequence):
        asked = (asked,)
    for each in asked:
        if not isinstance(each, Repair):
            raise PanelError(
                f"{each!r} is no repair: there are pf.DropRows(), pf.DropAgents(), "
                "pf.SplitAtGaps() and pf.TopCode(highest)."
            )
    return tuple(asked)


def without_unplaced(table: Table, repairs: Sequence[Repair]) -> Table:
    """Without the rows that have no agent or no time, if they are to be dropped.

    They belong to nobody's sequence, so dropping agents leaves out those rows alone.
    """
    agent, time = table.columns.agent, table.columns.time
    lacking = table.data[time].missing().any()
    kept = _without(table, repairs, {n: table.data[n].missing() for n in (agent, time)}, None)
    if kept is table or not lacking:
        return kept
    return kept.noted("rows without a time cannot be placed: decision epochs do not count them")


def without_missing(
    table: Table,
    repairs: Sequence[Repair],
    agent: Int[np.ndarray, "n"],
    last: Bool[np.ndarray, "n"],
) -> Table:
    """Without the rows, or the agents, that lack a value, if they are to be dropped."""
    columns = table.columns
    names = [name for name in columns.names if name not in {columns.agent, columns.time}]
    missing = {name: table.data[name].missing() for name in names}
    missing[columns.action] &= ~last
    return _without(table, repairs, missing, agent)


def top_coded(
    z: Int[np.ndarray, "n"], repairs: Sequence[Repair]
) -> tuple[Int[np.ndarray, "n"], tuple[str, ...]]:
    """Observations with the highest ones lumped, and what to note."""
    notes = []
    for repair in repairs:
        if isinstance(repair, TopCode):
            above = int((z > repair.highest).sum())
            z = np.minimum(z, repair.highest)
            notes.append(f"{above} observations above {repair.highest} were top-coded on request")
    return z, tuple(notes)


def _without(
    table: Table,
    repairs: Sequence[Repair],
    missing: dict[str, Bool[np.ndarray, "n"]],
    agent: Int[np.ndarray, "n"] | None,
) -> Table:
    drop, notes = np.zeros(len(table), dtype=bool), []
    for repair in repairs:
        if not isinstance(repair, DropRows | DropAgents):
            continue
        unknown = set(repair.columns or ()) - set(table.columns.names)
        if unknown:
            raise PanelError(f"{repair} names columns that are not read: {sorted(unknown)}.")
        lacking = {n: m for n, m in missing.items() if n in (repair.columns or missing)}
        rows = np.any(list(lacking.values()), axis=0) if lacking else np.zeros(len(table), bool)
        if not rows.any():
            continue
        why = ", ".join(f"{name!r} ({int(m.sum())})" for name, m in lacking.items() if m.any())
        if isinstance(repair, DropAgents) and agent is not None:
            gone = np.unique(agent[rows])
            rows = np.isin(agent, gone)
            notes.append(f"{len(gone)} agents were dropped on request, for want of {why}")
        else:
            notes.append(f"{int(rows.sum())} rows were dropped on request, for want of {why}")
        drop |= rows
    if drop.all():
        source = f"{table.source}: " if table.source else ""
        raise PanelError(f"{source}no row is left once those that lack a value are dropped.")
    return table[~drop].noted(*notes) if drop.any() else table
