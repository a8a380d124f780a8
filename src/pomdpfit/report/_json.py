"""Results as strict JSON, whatever they are made of.

What is missing or not a number becomes null. Infinities, for which JSON has no word, become the
strings "Infinity" and "-Infinity": a null would hide them. Enums are their names, paths and times
text, tables lists of rows, series objects by label, sets sorted lists, dataclasses objects.
"""

import dataclasses
import datetime
import enum
import json
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import PurePath
from typing import Any

import jax
import numpy as np
import pandas as pd

from pomdpfit.report._columns import is_missing, parts_of

_SEQUENCES = (list, tuple, pd.Index, pd.api.extensions.ExtensionArray)


def as_json(results: Mapping[str, object]) -> str:
    """The results as JSON with sorted keys; the same results give the same text."""
    plain = _plain(results, "results")
    return json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any, at: str) -> Any:
    """The value in terms of JSON; `at` is what an error calls it."""
    scalar = _scalar(value)
    if scalar is not None or is_missing(value):
        return scalar
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        return _plain(list(array) if array.ndim else array[()], at)
    if isinstance(value, _SEQUENCES):
        return [_plain(entry, f"{at}[{k}]") for k, entry in enumerate(value)]
    if isinstance(value, Set):  # in no order of its own
        entries = [_plain(entry, f"{at}[...]") for entry in value]
        return sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
    if isinstance(value, pd.DataFrame):
        return _rows(value, at)
    items = _items(value)
    if items is not None:
        return _object(items, at)
    raise TypeError(
        f"{at} is of type {type(value).__name__}, which JSON cannot hold: {repr(value)[:80]}. Give "
        "numbers, texts, times, arrays, tables, dataclasses, or mappings and sequences of them."
    )


def _scalar(value: Any) -> bool | int | float | str | None:
    """A single thing as JSON; None where it is missing, or not a single thing."""
    if is_missing(value):
        return None
    simplify = next((simplify for kinds, simplify in _SCALARS if isinstance(value, kinds)), None)
    return None if simplify is None else simplify(value)


def _number(value: numbers.Real) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else "Infinity" if number > 0 else "-Infinity"


# An enum may be an integer or a text, and True is an integer: the first that fits counts.
_SCALARS: tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((enum.Enum,), lambda value: value.name),
    ((bool, np.bool_), bool),
    ((numbers.Integral,), int),
    ((numbers.Real,), _number),
    ((PurePath,), lambda path: path.as_posix()),
    ((datetime.date, datetime.time), lambda time: time.isoformat()),  # datetimes are dates
    ((str, datetime.timedelta, np.datetime64, np.timedelta64, pd.Period, pd.Interval), str),
)


def _items(value: Any) -> Iterable[tuple[Any, Any]] | None:
    if isinstance(value, Mapping | pd.Series):
        return value.items()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def _rows(frame: pd.DataFrame, at: str) -> list[dict[str, Any]]:
    parts = parts_of(frame)
    labels = [f"index_{k}" if p.label is None else p.label for k, p in enumerate(parts)]
    rows = zip(*(part.values for part in parts), strict=True)
    return [_object(zip(labels, row, strict=True), f"{at}[row {k}]") for k, row in enumerate(rows)]


def _object(items: Iterable[tuple[Any, Any]], at: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in items:
        name = _key(key, at)
        if name in out:
            raise ValueError(
                f"{at} has two entries that JSON would both call {name!r}, one of them {key!r}: "
                "rename one."
            )
        out[name] = _plain(value, f"{at}[{name!r}]")
    return out


def _key(key: Any, at: str) -> str:
    if isinstance(key, tuple):
        return ", ".join(_key(part, at) for part in key)
    plain = _plain(key, f"a key of {at}")
    return plain if isinstance(plain, str) else json.dumps(plain)
