"""Reading a frame as a panel: every refusal names row, agent, period, column and value."""

import dataclasses
import difflib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd

from pomdpfit._errors import PanelError
from pomdpfit._types import ArrayLike

_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which column holds what, and the labels in the order of their codes."""

    agent: str
    time: str
    observation: str
    action: str
    observations: Sequence[Hashable] | None = None
    actions: Sequence[Hashable] | None = None
    freq: str | None = None
    group: str | None = None
    covariates: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        further = ([] if self.group is None else [self.group]) + list(self.covariates)
        return [self.agent, self.time, self.observation, self.action, *further]


@dataclasses.dataclass(frozen=True)
class Reading:
    """Agents in the order of their first row; (z, a), times, group and covariates of each."""

    agents: tuple[Hashable, ...]
    sequences: list[tuple[np.ndarray, np.ndarray]]
    times: list[np.ndarray]
    notes: tuple[str, ...]
    groups: tuple[Hashable, ...] | None
    covariates: dict[str, list[np.ndarray]]


def integer_pair(agent: Hashable, z: ArrayLike, a: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """One agent's arrays as integers, a as long as z or one shorter."""
    pair = []
    for name, values in (("z", np.asarray(z)), ("a", np.asarray(a))):
        if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.size == 0):
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


def entry_epochs(
    entry: ArrayLike | int | Mapping[Hashable, int], agents: Sequence[Hashable]
) -> np.ndarray:
    """The decision epoch of each agent's first row."""
    if isinstance(entry, Mapping):
        missing = [agent for agent in agents if agent not in entry]
        if missing:
            raise PanelError(f"entry has no epoch for agent {missing[0]!r}.")
        entry = np.array([entry[agent] for agent in agents])
    epochs = np.asarray(entry)
    fits = epochs.shape in {(), (len(agents),)} and np.issubdtype(epochs.dtype, np.integer)
    if not fits or epochs.min() < 0:
        raise PanelError(
            f"entry must be one epoch (a whole number from 0) or {len(agents)} of them, but it is "
            f"{entry!r}."
        )
    return np.broadcast_to(epochs, (len(agents),))


def read_frame(frame: Any, columns: Columns) -> Reading:
    """Check every column, sort, refuse duplicates and gaps, and split by agent."""
    table = _Table.of(frame, columns)
    table.refuse(pd.isna(table.values[columns.agent]), columns.agent, "is no agent; give it one")
    when = table.periods()
    codes, uniques = pd.factorize(table.values[columns.agent])
    order = np.lexsort((when, codes))
    sorted_already = (order == np.arange(len(order))).all()
    table, codes, when = table.reordered(order), codes[order], when[order]
    first = np.append(True, codes[1:] != codes[:-1])
    table.refuse_steps(np.append(1, np.diff(when)), within=~first)
    z = table.codes(columns.observation, columns.observations, "observations")
    last = np.append(first[1:], True)
    a = table.codes(columns.action, columns.actions, "actions", optional=last)
    parts = np.split(np.arange(len(codes)), np.flatnonzero(first)[1:])
    covariates = {name: table.numbers(name) for name in columns.covariates}
    return Reading(
        agents=tuple(u.item() if isinstance(u, np.generic) else u for u in uniques),
        sequences=[(z[part], a[part][a[part] >= 0]) for part in parts],
        times=[table.values[columns.time][part] for part in parts],
        notes=() if sorted_already else ("rows were sorted by agent and time",),
        groups=None if columns.group is None else table.one_for_each(columns.group, parts),
        covariates={name: [all_[p] for p in parts] for name, all_ in covariates.items()},
    )


@dataclasses.dataclass(frozen=True)
class _Table:
    """The columns as arrays of objects, and where each row stood in the frame."""

    values: dict[str, np.ndarray]
    rows: np.ndarray
    columns: Columns

    @classmethod
    def of(cls, frame: Any, columns: Columns) -> "_Table":
        """The columns of a pandas or polars frame."""
        try:
            table = nw.from_native(frame, eager_only=True)
        except TypeError as error:
            raise PanelError(f"expected a pandas or polars frame, not {type(frame)}.") from error
        except ValueError as error:  # narwhals refuses duplicate columns
            raise PanelError(f"the frame cannot be read: {error}") from error
        names = columns.names
        if len(set(names)) < len(names):
            raise PanelError(f"{len(names)} different columns are needed, but they are {names}.")
        for name in names:
            if name not in table.columns:
                there = list(map(str, table.columns))
                close = difflib.get_close_matches(str(name), there, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise PanelError(
                    f"the frame has no column {name!r}; it has {', '.join(there)}.{hint}"
                )
        if len(table) == 0:
            raise PanelError("the frame is empty: it has no rows.")
        values = {name: _objects(table[name].to_list()) for name in names}
        return cls(values, np.arange(len(table)), columns)

    def reordered(self, order: np.ndarray) -> "_Table":
        """The same rows in another order."""
        values = {name: column[order] for name, column in self.values.items()}
        return dataclasses.replace(self, values=values, rows=self.rows[order])

    def refuse(self, bad: np.ndarray, column: str, why: str) -> None:
        """Raise for the rows where `bad`: the first five, and a count."""
        places = np.flatnonzero(bad)
        if len(places) == 0:
            return
        agents, times = self.values[self.columns.agent], self.values[self.columns.time]
        shown = [
            f"row {self.rows[k]} (agent {agents[k]!r}, {self.columns.time} {times[k]!r}): "
            f"{column} {self.values[column][k]!r} {why}"
            for k in places[:_SHOWN]
        ]
        more = f" ... and {len(places) - _SHOWN} more rows." if len(places) > _SHOWN else ""
        raise PanelError(f"column {column!r}: " + "; ".join(shown) + "." + more)

    def refuse_steps(self, step: np.ndarray, within: np.ndarray) -> None:
        """Raise where time stands still or jumps within an agent."""
        time = self.columns.time
        self.refuse(within & (step == 0), time, "appears twice for this agent")
        why = "follows a gap; split the agent there, or fill in the missing periods"
        self.refuse(within & (step > 1), time, why)

    def periods(self) -> np.ndarray:
        """Times as whole numbers of periods."""
        column, freq = self.columns.time, self.columns.freq
        values = self.values[column]
        self.refuse(pd.isna(values), column, "is missing")
        if freq is not None:
            return self._dates(values, freq)
        bad = np.array([not _is_whole(v) for v in values])
        why = 'is not a whole number; for dates say how long a period is, for example freq="M"'
        self.refuse(bad, column, why)
        return np.array([int(v) for v in values])

    def _dates(self, values: np.ndarray, freq: str) -> np.ndarray:
        """Dates (or pandas periods) as numbers of periods of this length."""
        column = self.columns.time
        number = np.array([isinstance(v, int | float | np.number) for v in values])
        self.refuse(number, column, f"is a number, not a date; leave freq={freq!r} out")
        if not all(isinstance(v, pd.Period) for v in values):
            dates = pd.to_datetime(pd.Series(values, dtype=object), errors="coerce")
            self.refuse(dates.isna().to_numpy(), column, "is not a date")
            values = dates.to_numpy()
        try:
            return pd.PeriodIndex(values, freq=freq).astype("int64").to_numpy()
        except (ValueError, TypeError) as error:
            raise PanelError(f"freq={freq!r} is not a length of period: {error}") from error

    def codes(
        self,
        column: str,
        labels: Sequence[Hashable] | None,
        argument: str,
        optional: np.ndarray | None = None,
    ) -> np.ndarray:
        """Labels or whole numbers as codes from 0; -1 where a value is missing and may be."""
        values = self.values[column]
        missing = np.array(pd.isna(values), dtype=bool)
        may_miss = np.zeros_like(missing) if optional is None else optional
        tail = "" if optional is None else " (only an agent's last row may lack one)"
        self.refuse(missing & ~may_miss, column, f"is missing{tail}")
        number = _numbering(labels, argument)
        if number is not None:
            why = f"is not one of {argument}={list(labels or ())}"
            bad = [not m and _key(v) not in number for v, m in zip(values, missing, strict=True)]
        elif {isinstance(v, bool | np.bool_) for v in values[~missing]} == {True}:
            number, bad, why = {_key(False): 0, _key(True): 1}, [False] * len(values), ""
        else:
            why = f"is not a whole number; for labels say {argument}=[...]"
            bad = [not m and not _is_whole(v) for v, m in zip(values, missing, strict=True)]
        self.refuse(np.array(bad), column, why)
        codes = np.full(len(values), -1)
        codes[~missing] = [int(v) if number is None else number[_key(v)] for v in values[~missing]]
        self.refuse(~missing & (codes < 0), column, "is negative; codes count from 0")
        return codes

    def numbers(self, column: str) -> np.ndarray:
        """A covariate as finite floats."""
        values = self.values[column]
        real = [isinstance(v, int | float | np.number | bool | np.bool_) for v in values]
        self.refuse(~np.array(real, dtype=bool), column, "is not a number")
        numbers = values.astype(float)
        self.refuse(~np.isfinite(numbers), column, "is not a finite number")
        return numbers

    def one_for_each(self, column: str, parts: Sequence[np.ndarray]) -> tuple[Hashable, ...]:
        """The one value that each agent has in this column."""
        values = self.values[column]
        self.refuse(np.array(pd.isna(values), dtype=bool), column, "is missing")
        changed = np.zeros(len(values), dtype=bool)
        for part in parts:
            changed[part] = [value != values[part[0]] for value in values[part]]
        self.refuse(changed, column, "differs from the agent's first; an agent has one group")
        firsts = [values[part[0]] for part in parts]
        return tuple(v.item() if isinstance(v, np.generic) else v for v in firsts)


def _numbering(labels: Sequence[Hashable] | None, argument: str) -> dict[Hashable, int] | None:
    if labels is None:
        return None
    number = {_key(label): code for code, label in enumerate(labels)}
    if len(number) != len(labels):
        raise PanelError(f"{argument} lists a label twice: {list(labels)}.")
    return number


def _key(label: Any) -> Hashable:
    """Labels are told apart by value and by whether they are booleans: True is not 1."""
    return isinstance(label, bool | np.bool_), label


def _objects(values: list) -> np.ndarray:
    """A list as a one-dimensional array, also where its entries are tuples."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def _is_whole(value: Any) -> bool:
    """A whole number that fits 64 bits."""
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | np.integer):
        return abs(int(value)) < 2**63
    is_float = isinstance(value, float | np.floating)
    return is_float and float(value).is_integer() and abs(float(value)) < 2**63
