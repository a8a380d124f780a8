"""Reading a frame as a panel: every refusal names row, agent, period, column and value."""

import dataclasses
import difflib
from collections.abc import Hashable, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd

from pomdpfit._errors import PanelError
from pomdpfit._types import ArrayLike

_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Reading:
    """Agents in the order of their first row, and (z, a) and times of each."""

    agents: tuple[Hashable, ...]
    sequences: list[tuple[np.ndarray, np.ndarray]]
    times: list[np.ndarray]
    notes: tuple[str, ...]


def integer_pair(agent: Hashable, z: ArrayLike, a: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """One agent's arrays as integers, a as long as z or one shorter."""
    pair = []
    for name, values in (("z", np.asarray(z)), ("a", np.asarray(a))):
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise PanelError(
                f"agent {agent!r}: {name} must be a one-dimensional array of integers, but it has "
                f"type {values.dtype} and shape {values.shape}."
            )
        pair.append(values.astype(int))
    if len(pair[0]) == 0 or len(pair[0]) - len(pair[1]) not in {0, 1}:
        raise PanelError(
            f"agent {agent!r}: a must be as long as z or one shorter, but there are {len(pair[0])} "
            f"observations and {len(pair[1])} actions."
        )
    return pair[0], pair[1]


def read_frame(
    frame: Any,
    agent: str,
    time: str,
    observation: str,
    action: str,
    observations: Sequence[Hashable] | None,
    actions: Sequence[Hashable] | None,
    freq: str | None,
) -> Reading:
    """Check every column, sort, refuse duplicates and gaps, and split by agent."""
    table = _columns(frame, [agent, time, observation, action])
    ids, when = table[agent], _periods(table[time], time, freq)
    missing = pd.isna(ids)
    _refuse(missing, table, agent, agent, time, "has no agent; give every row its agent")
    codes, uniques = pd.factorize(ids)
    order = np.lexsort((when, codes))
    notes = () if (order == np.arange(len(order))).all() else ("rows were sorted by agent and time",)
    codes, when = codes[order], when[order]
    table = {name: values[order] for name, values in table.items()}
    rows = order  # where each sorted row stood in the frame
    _refuse_time(codes, when, table, rows, agent, time)
    z = _coded(table, rows, observation, observations, agent, time, "observations")
    last = np.append(codes[1:] != codes[:-1], True)
    a = _coded(table, rows, action, actions, agent, time, "actions", optional=last)
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    sequences, times = [], []
    for part in np.split(np.arange(len(codes)), starts[1:]):
        acted = a[part] >= 0
        sequences.append((z[part], a[part][acted]))
        times.append(np.asarray(table[time][part], dtype=object))
    return Reading(tuple(_plain(u) for u in uniques), sequences, times, notes)


def _plain(value: Any) -> Hashable:
    return value.item() if isinstance(value, np.generic) else value


def _columns(frame: Any, names: list[str]) -> dict[str, np.ndarray]:
    """The four columns as arrays of objects or numbers, whatever kind of frame it is."""
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise PanelError(f"expected a pandas or polars frame, not {type(frame)}.") from error
    except ValueError as error:  # narwhals' own refusal of duplicate columns
        raise PanelError(f"the frame cannot be read: {error}") from error
    for name in names:
        if name not in table.columns:
            close = difflib.get_close_matches(name, table.columns, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise PanelError(
                f"the frame has no column {name!r}; it has {', '.join(table.columns)}.{hint}"
            )
    if len(table) == 0:
        raise PanelError("the frame is empty: it has no rows.")
    return {name: np.asarray(table[name].to_list(), dtype=object) for name in names}


def _periods(values: np.ndarray, column: str, freq: str | None) -> np.ndarray:
    """Times as whole numbers of periods."""
    if freq is not None:
        return pd.PeriodIndex(pd.to_datetime(values), freq=freq).astype("int64").to_numpy()
    bad = np.array([not _is_whole(v) for v in values])
    if bad.any():
        row = int(np.argmax(bad))
        raise PanelError(
            f"row {row}, column {column!r}: time {values[row]!r} is not a whole number. For dates "
            'say how long a period is, for example freq="M".'
        )
    return np.array([int(v) for v in values])


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | np.integer):
        return True
    return isinstance(value, float | np.floating) and bool(np.isfinite(value)) and value == int(value)


def _refuse(
    bad: np.ndarray, table: dict, column: str, agent: str, time: str, why: str,
    rows: np.ndarray | None = None,
) -> None:
    """Raise for the rows where `bad`: the first five, and a count."""
    if not bad.any():
        return
    places = np.flatnonzero(bad)
    shown = [
        f"row {rows[k] if rows is not None else k} (agent {table[agent][k]!r}, {time} "
        f"{table[time][k]!r}): {column} {table[column][k]!r} {why}"
        for k in places[:_SHOWN]
    ]
    more = f" ... and {len(places) - _SHOWN} more rows." if len(places) > _SHOWN else ""
    raise PanelError(f"column {column!r}: " + "; ".join(shown) + "." + more)


def _refuse_time(
    codes: np.ndarray, when: np.ndarray, table: dict, rows: np.ndarray, agent: str, time: str
) -> None:
    same = np.append(False, codes[1:] == codes[:-1])
    step = np.append(1, np.diff(when))
    _refuse(same & (step == 0), table, time, agent, time, "appears twice for this agent", rows)
    why = "follows a gap; split the agent there, or fill in the missing periods"
    _refuse(same & (step > 1), table, time, agent, time, why, rows)


def _coded(
    table: dict, rows: np.ndarray, column: str, labels: Sequence[Hashable] | None, agent: str,
    time: str, argument: str, optional: np.ndarray | None = None,
) -> np.ndarray:
    """Labels or whole numbers as codes from 0; -1 where a value is missing and may be."""
    values = table[column]
    missing = np.array(pd.isna(values), dtype=bool)
    may_miss = np.zeros_like(missing) if optional is None else optional
    tail = "" if optional is None else " (only an agent's last row may lack one)"
    _refuse(missing & ~may_miss, table, column, agent, time, f"is missing{tail}", rows)
    codes = np.full(len(values), -1)
    if labels is not None:
        number = {label: code for code, label in enumerate(labels)}
        if len(number) != len(labels):
            raise PanelError(f"{argument} lists a label twice: {list(labels)}.")
        bad = np.array([not m and v not in number for v, m in zip(values, missing, strict=True)])
        _refuse(bad, table, column, agent, time, f"is not one of {argument}={list(labels)}", rows)
        codes[~missing] = [number[v] for v in values[~missing]]
        return codes
    kinds = {isinstance(v, bool | np.bool_) for v in values[~missing]}
    if kinds == {True}:
        codes[~missing] = values[~missing].astype(int)
        return codes
    bad = np.array([not m and not _is_whole(v) for v, m in zip(values, missing, strict=True)])
    why = f"is not a whole number; for labels say {argument}=[...]"
    _refuse(bad, table, column, agent, time, why, rows)
    codes[~missing] = [int(v) for v in values[~missing]]
    negative = ~missing & (codes < 0)
    _refuse(negative, table, column, agent, time, "is negative; codes count from 0", rows)
    return codes
