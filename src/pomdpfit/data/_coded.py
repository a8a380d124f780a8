"""A column as its distinct values: what is checked is checked once for each of them."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._types import Bool, Int

# Words that often stand for no value; none of them is read as such unless the caller says so.
ABSENT = {"na", "n/a", "nan", "null", "none", ".", "-", "missing", "#n/a", "<na>", "nat"}


@dataclasses.dataclass(frozen=True)
class Coded:
    """Row k holds distinct[code[k]].

    A million rows have few distinct observations, actions, periods and agents, so that checks in
    plain Python on the distinct values cost little. Values are told apart by type as well: True,
    1 and 1.0 are three.
    """

    distinct: np.ndarray
    code: Int[np.ndarray, "n"]

    @classmethod
    def of(cls, values: Sequence[Any]) -> "Coded":
        """From one value for each row."""
        number: dict[tuple[type, Any], int] = {}
        try:
            code = np.fromiter(
                (number.setdefault((type(v), v), len(number)) for v in values), int, len(values)
            )
        except TypeError:  # a list in a cell, say, cannot be looked up: each stands for itself
            return cls(objects(values), np.arange(len(values)))
        distinct = [value for _, value in number]
        plain = [_plain(v) for v in distinct]
        if any(new is not old for new, old in zip(plain, distinct, strict=True)):
            merged = cls.of(plain)  # 1 and np.int64(1) are one value
            return cls(merged.distinct, merged.code[code])
        return cls(objects(distinct), code)

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, rows: np.ndarray) -> "Coded":
        """These rows (a mask or an order), with the distinct values that they hold."""
        code = self.code[rows]
        used = np.bincount(code, minlength=len(self.distinct)) > 0
        return Coded(self.distinct[used], (np.cumsum(used) - 1)[code])

    def map(self, change: Callable[[Any], Any]) -> "Coded":
        """Every value changed."""
        return Coded(objects([change(v) for v in self.distinct]), self.code)

    def where(self, holds: Callable[[Any], bool]) -> Bool[np.ndarray, "n"]:
        """The rows whose value has a property."""
        return np.fromiter(map(holds, self.distinct), bool, len(self.distinct))[self.code]

    def missing(self) -> Bool[np.ndarray, "n"]:
        """The rows without a value."""
        return self.where(is_missing)

    def values(self) -> np.ndarray:
        """One value for each row."""
        return self.distinct[self.code]


def _plain(value: Any) -> Any:
    """NumPy's numbers, booleans and text as Python's; its dates would lose their unit."""
    dates = isinstance(value, np.datetime64 | np.timedelta64 | np.longdouble)
    return value.item() if isinstance(value, np.generic) and not dates else value


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or NA."""
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def is_whole(value: Any, bound: int = 2**63) -> bool:
    """A whole number that fits 64 bits; booleans and text are none."""
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | np.integer):
        return abs(int(value)) < bound
    is_float = isinstance(value, float | np.floating)
    return is_float and float(value).is_integer() and abs(float(value)) < bound


def objects(values: Sequence[Any]) -> np.ndarray:
    """A one-dimensional array of objects, also where they are tuples."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column
