"""A column as its distinct values: what is checked is checked once for each of them."""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd

from pomdpfit._types import Bool, Int

_SIGNED, _UNSIGNED = (nw.Int8, nw.Int16, nw.Int32, nw.Int64), (nw.UInt8, nw.UInt16, nw.UInt32)
_NUMBERS = (*_SIGNED, *_UNSIGNED, nw.UInt64, nw.Float32, nw.Float64, nw.Boolean)
_DATES = (nw.Date, nw.Datetime, nw.Duration)
_EXTENSIONS = (pd.StringDtype, pd.CategoricalDtype, pd.PeriodDtype)
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
        number: dict[tuple[type, Any], int] = collections.defaultdict(itertools.count().__next__)
        try:  # no loop in Python: there may be millions of values
            keys = zip(map(type, values), values, strict=True)
            code = np.fromiter(map(number.__getitem__, keys), int, len(values))
        except TypeError:  # a list in a cell, say, cannot be looked up: each stands for itself
            return cls(objects(values), np.arange(len(values)))
        column = cls(objects([value for _, value in number]), code)
        if any(issubclass(kind, np.generic) for kind in column.kinds):
            plain = [_plain(v) for v in column.distinct]
            if any(new is not old for new, old in zip(plain, column.distinct, strict=True)):
                merged = cls.of(plain)  # 1 and np.int64(1) are one value
                return cls(merged.distinct, merged.code[code])
        return column

    @classmethod
    def of_series(cls, series: nw.Series) -> "Coded":
        """From a column of a frame: the same as `of(series.to_list())`.

        Numbers, dates and pandas' text are numbered by pandas, and Python's objects made of their
        distinct values alone.
        """
        values = _factorizable(series)
        if values is None:
            return cls.of(series.to_list())
        code, found = pd.factorize(values, use_na_sentinel=False)
        if isinstance(found, np.ndarray) and series.dtype in _NUMBERS:
            return cls(objects(found.tolist()), code)
        first = np.empty(len(found), dtype=int)
        first[code[::-1]] = np.arange(len(code))[::-1]  # the last one written is the first row
        column = cls.of(series[first.tolist()].to_list())
        return cls(column.distinct, column.code[code])

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, rows: np.ndarray) -> "Coded":
        """These rows (a mask or an order), with the distinct values that they hold."""
        code = self.code[rows]
        used = np.bincount(code, minlength=len(self.distinct)) > 0
        return Coded(self.distinct[used], (np.cumsum(used) - 1)[code])

    @functools.cached_property
    def kinds(self) -> set[type]:
        """The types of the values."""
        return set(map(type, self.distinct))

    def map(self, change: Callable[[Any], Any]) -> "Coded":
        """Every value changed."""
        return Coded(objects([change(v) for v in self.distinct]), self.code)

    def where(self, holds: Callable[[Any], bool], kind: Any = object) -> Bool[np.ndarray, "n"]:
        """The rows whose value is of this kind and has a property."""
        fit = [issubclass(each, kind) for each in self.kinds]
        if not any(fit):
            return np.zeros(len(self), dtype=bool)
        among = (isinstance(v, kind) and holds(v) for v in self.distinct)
        each = map(holds, self.distinct) if all(fit) else among
        return np.fromiter(each, bool, len(self.distinct))[self.code]

    def missing(self) -> Bool[np.ndarray, "n"]:
        """The rows without a value."""
        return pd.isna(self.distinct)[self.code]

    def values(self) -> np.ndarray:
        """One value for each row."""
        return self.distinct[self.code]


def _factorizable(series: nw.Series) -> Any:
    """The column as an array whose equal values `pd.factorize` finds quickly; None for others."""
    native = series.to_native()
    if isinstance(native, pd.Series) and not isinstance(native.dtype, np.dtype):
        quick = native.dtype.kind in "biufmM" or isinstance(native.dtype, _EXTENSIONS)
        return native.array if quick else None
    if series.implementation.is_pyarrow():
        known = series.dtype in (*_NUMBERS, *_DATES, nw.String)
        return pd.arrays.ArrowExtensionArray(native) if known else None
    if series.dtype not in (*_NUMBERS, *_DATES):
        return None
    whole = isinstance(native, pd.Series) or series.null_count() == 0  # integers stay integers
    return series.to_numpy() if whole else None


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
    return np.fromiter(values, object, len(values))
