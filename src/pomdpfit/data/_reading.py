"""From a table to the sequences of a panel: sorted, checked, split by agent."""

import dataclasses
import operator
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import PanelError
from pomdpfit._types import Bool, Float, Int
from pomdpfit.data import _repairs, _values
from pomdpfit.data._refusals import Refusals
from pomdpfit.data._repairs import Repair, SplitAtGaps
from pomdpfit.data._swapped import seem_swapped, swapped_words
from pomdpfit.data._table import Table

_CELLS = 10**8  # a rectangle agents x periods of this size takes some 3 GB
_HOLLOW = 50  # and is refused where it is this many times larger than the data


@dataclasses.dataclass(frozen=True)
class Reading:
    """Agents in the order of their first row, and their rows one after the other.

    `rows` and `acts` count each agent's rows and actions: z, times and covariates stand row by
    row, `a` goes without the last rows that have no action. `came_as` names each agent as the
    table does and `elapsed` counts the periods since that agent's first row in the table: both
    differ from the plain case for agents that were split, `elapsed` for those whose first rows were
    dropped too.
    """

    agents: tuple[Hashable, ...]
    came_as: tuple[Hashable, ...]
    elapsed: Int[np.ndarray, "N"]
    rows: Int[np.ndarray, "N"]
    acts: Int[np.ndarray, "N"]
    z: Int[np.ndarray, "n"]
    a: Int[np.ndarray, "m"]
    times: np.ndarray
    notes: tuple[str, ...]
    groups: tuple[Hashable, ...] | None
    covariates: dict[str, Float[np.ndarray, "n"]]


def read_table(table: Table, repairs: Sequence[Repair] = ()) -> Reading:
    """Check every column, sort, repair what is asked for, refuse duplicates and gaps, and split.

    Columns are refused together as far as they do not depend on one another.
    """
    split = any(isinstance(repair, SplitAtGaps) for repair in repairs)
    table = _repairs.without_unplaced(table, repairs)
    _refuse_unplaced(table)
    table, agent, when = _in_order(table)
    kept = _repairs.without_missing(table, repairs, agent, _ends(_starts(agent, when, split)))
    begun = np.zeros(table.rows.max() + 1, dtype=int)  # each row's agent's first period
    begun[table.rows] = when[_starts(agent, when, split=False)][agent]
    if kept is not table:
        table, agent, when = _in_order(kept)
    start, columns, groups = _starts(agent, when, split), table.columns, None
    covariates, refusals = {}, Refusals()
    with refusals.gathered():
        _refuse_steps(table, agent, when, split)
    with refusals.gathered():
        z = _values.codes(table, columns.observation, columns.observations, "observations")
    with refusals.gathered():
        a = _values.codes(table, columns.action, columns.actions, "actions", optional=_ends(start))
    if columns.group is not None:
        with refusals.gathered():
            groups = _one_for_each(table, columns.group, agent)
    for name in columns.covariates:
        with refusals.gathered():
            covariates[name] = _values.numbers(table, name)
    if refusals and seem_swapped(table):
        refusals.add(swapped_words(table))
    refusals.tell()
    z, lumped = _repairs.top_coded(z, repairs)
    first = np.flatnonzero(start)
    lengths = np.diff(np.append(first, len(table)))
    _refuse_hollow(table, first, lengths)
    came_as = tuple(table.data[columns.agent].values()[first])
    agents, cut = _names(came_as, agent[first])
    elapsed = when[first] - begun[table.rows[first]]
    return Reading(
        agents=agents,
        came_as=came_as,
        elapsed=elapsed,
        rows=lengths,
        acts=lengths - (a[first + lengths - 1] < 0),
        z=z,
        a=a[a >= 0],
        times=table.data[columns.time].values(),
        notes=(*table.notes, *cut, *_late(came_as, agent[first], elapsed), *lumped),
        groups=None if groups is None else tuple(groups[first]),
        covariates=covariates,
    )


def _refuse_unplaced(table: Table) -> None:
    """Refuse ids and periods, and with them what is wrong in other columns whatever the order.

    What is missing there is left aside: a repair may drop it, once rows have their places.
    """
    columns, refusals = table.columns, Refusals()
    with refusals.gathered():
        _refuse_ids(table)
    with refusals.gathered():
        _values.periods(table)
    if not refusals:
        return
    for name in columns.names:
        there = ~table.data[name].missing()
        if name in {columns.agent, columns.time, columns.group} or not there.any():
            continue
        with refusals.gathered():
            if name in columns.covariates:
                _values.numbers(table[there], name)
            else:
                argument = "observations" if name == columns.observation else "actions"
                _values.codes(table[there], name, columns.labels[name], argument)
    refusals.tell()


def _in_order(table: Table) -> tuple[Table, Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """By agent, in the order of their first rows, and time; noted where that moves rows."""
    when = _values.periods(table)
    agent, _ = pd.factorize(table.data[table.columns.agent].code)
    step = np.diff(agent)
    if ((step > 0) | ((step == 0) & (np.diff(when) >= 0))).all():
        return table, agent, when
    order = np.lexsort((when, agent))
    note = "rows were sorted: agents in the order of their first rows, each by time"
    return table[order].noted(note), agent[order], when[order]


def _starts(
    agent: Int[np.ndarray, "n"], when: Int[np.ndarray, "n"], split: bool
) -> Bool[np.ndarray, "n"]:
    """The rows with which an agent begins; with `split` also those that follow a gap."""
    new = agent[1:] != agent[:-1]
    return np.append(True, new | (np.diff(when) > 1) if split else new)


def _ends(start: Bool[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    return np.append(start[1:], True)


def _late(
    came_as: tuple[Hashable, ...], agent: Int[np.ndarray, "N"], elapsed: Int[np.ndarray, "N"]
) -> tuple[str, ...]:
    """A note where the first rows of agents were dropped."""
    late = np.flatnonzero(np.append(True, agent[1:] != agent[:-1]) & (elapsed > 0))
    if len(late) == 0:
        return ()
    return (
        f"{len(late)} agents, the first of them {came_as[late[0]]!r}, have lost their first rows: "
        "the prior now applies at the first row that is left, and decision epochs count from the "
        "first row in the data",
    )


def _refuse_ids(table: Table) -> None:
    """Refuse agents without a name, with two kinds of name, or with one that is not exact."""
    column = table.columns.agent
    ids = table.data[column]
    absent = ids.missing() | ids.where(operator.not_, str)
    table.refuse(absent, column, "is missing: the row has no agent; give it one")
    nul = ids.where(operator.methodcaller("__contains__", "\0"), str)
    table.refuse(nul, column, "holds a NUL, which text never does")
    spaced = ids.where(lambda v: v != v.strip(), str)
    table.refuse(spaced, column, "has spaces around it; remove them, ids are compared exactly")
    inexact = ids.where(lambda v: not abs(v) <= 2**53, float)
    why = "is beyond 2^53, where floats skip whole numbers; keep ids as text or integers"
    table.refuse(inexact, column, why)
    if len({kind.__name__ for kind in ids.kinds}) > 1:
        usual = pd.Series(ids.map(lambda v: type(v).__name__).values()).mode()[0]
        odd = ids.where(lambda v: type(v).__name__ != usual)
        mend = "make all ids of one type, such as text"
        table.refuse(odd, column, lambda v: f"is {type(v).__name__}, others are {usual}; {mend}")
    if not ids.kinds <= {int, float, str}:
        table.refuse(ids.where(_unhashable), column, "cannot be an id; use text or whole numbers")


def _unhashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return True
    return False


def _refuse_steps(
    table: Table, agent: Int[np.ndarray, "n"], when: Int[np.ndarray, "n"], split: bool
) -> None:
    """Refuse a time that stands still within an agent, and a gap that is not to be split at."""
    time = table.columns.time
    within, step = np.append(False, agent[1:] == agent[:-1]), np.append(0, np.diff(when))
    why = "appears twice for this agent; keep one of the rows"
    table.refuse(within & (step == 0), time, why)
    if not split:
        why = (
            "follows a gap; fill in the missing periods, or split the agent there with "
            "repair=[pf.SplitAtGaps()]"
        )
        table.refuse(within & (step > 1), time, why)


def _refuse_hollow(
    table: Table, first: Int[np.ndarray, "N"], lengths: Int[np.ndarray, "N"]
) -> None:
    """Refuse a panel whose rectangle, agents x periods, would fill the memory with nothing."""
    cells = len(first) * int(lengths.max())
    if cells > max(_CELLS, _HOLLOW * len(table)):
        longest = table.data[table.columns.agent].values()[first[lengths.argmax()]]
        raise PanelError(
            f"{table.source or 'the frame'}: {len(first)} agents over {lengths.max()} periods make "
            f"{cells:.2g} cells, {cells // len(table)} times the rows there are: agent "
            f"{longest!r} is far longer than the others. Is the agent column the right one? If so, "
            "read the longest agents as a panel of their own."
        )


def _names(
    came_as: tuple[Hashable, ...], agent: Int[np.ndarray, "N"]
) -> tuple[tuple[Hashable, ...], tuple[str, ...]]:
    """Agents, and a note where they were split."""
    begins = np.append(True, agent[1:] != agent[:-1])
    if begins.all():
        return came_as, ()
    part = np.arange(len(agent)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
    cut = len(np.unique(agent[part > 0]))
    was_split = np.isin(agent, agent[part > 0])
    first = (came_as[int(np.argmax(was_split))], 0)
    note = (
        f"{cut} agents were split at {int((~begins).sum())} gaps on request, and their parts named "
        f"(agent, part) from {first!r} on; the belief begins anew from the prior at each part"
    )
    names = tuple(
        (name, int(k)) if parted else name
        for name, k, parted in zip(came_as, part, was_split, strict=True)
    )
    return names, (note,)


def _one_for_each(table: Table, column: str, agent: Int[np.ndarray, "n"]) -> np.ndarray:
    """The values of a column that is to have one value for each agent."""
    values = table.data[column]
    table.refuse(values.missing(), column, "is missing; every row needs its agent's group")
    begins = np.append(True, agent[1:] != agent[:-1])
    first = values.code[begins][np.cumsum(begins) - 1]
    why = "differs from the agent's first; an agent has one group"
    table.refuse(values.code != first, column, why)
    return values.values()
