"""Data as JSON beside npy files: arrays, ids, dates, tables, and the panel made of them.

What JSON has is itself. Everything else is an object with one key, the tag that says what it is:
{"tuple": [1, "a"]}, {"array": "0003.npy"}, {"timestamp": ...}. Mappings are lists of pairs, for
their order counts. Nothing is looked up by a name in a file but the tags listed here.
"""

import datetime
import json
import math
import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pandas as pd

from pomdpfit._errors import EstimationError, Result
from pomdpfit._shown import shown
from pomdpfit.packing._npy import NUMBER

_TEXT_TYPES = ("str", "object", "string")  # of a column that is not of numbers
_NOT_FINITE = ("nan", "inf", "-inf")
_NUMBER_TYPE = re.compile(NUMBER)
_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}")
_DATE_TYPE = re.compile(r"[<>][mM]8(\[[0-9]{0,6}[A-Za-z]{1,2}\])?")


class Writer:
    """Values to JSON; `arrays` collects what goes to npy files, by name."""

    def __init__(self, pack_object: Callable[[Any, "Writer"], dict]) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._pack_object = pack_object

    def encode(self, value: Any) -> Any:
        """The value as JSON; what no tag is for is handed to `pack_object`."""
        if isinstance(value, jax.Array):
            value = np.asarray(value)
        kind = np.generic if isinstance(value, np.generic) else type(value)
        kind = dict if isinstance(value, Mapping) else kind
        if value is None or kind in {bool, int, str} or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.encode(entry) for entry in value]
        for tag, (tagged, pack, _) in _TAGS.items():
            if kind is tagged:
                return {tag: pack(value, self)}
        return self._pack_object(value, self)

    def store(self, array: np.ndarray) -> str:
        """The name of the file that will hold the array."""
        name = f"{len(self.arrays):04d}.npy"
        self.arrays[name] = array
        return name


class Reader:
    """JSON to values; `fetch` gives the array of a file, once."""

    def __init__(
        self,
        fetch: Callable[[str], np.ndarray],
        unpack_object: Callable[[str, Any, "Reader"], Any],
    ) -> None:
        self.fetch = fetch
        self._unpack_object = unpack_object

    def decode(self, value: Any) -> Any:
        """The value that was written; a tag that is not listed is left to `unpack_object`."""
        if isinstance(value, list):
            return [self.decode(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise ValueError(f"a tagged value has one key, but there are {sorted(value)}.")
        [(tag, content)] = value.items()
        if tag in _TAGS:
            return _TAGS[tag][2](content, self)
        return self._unpack_object(tag, content, self)


# ---- arrays ------------------------------------------------------------------------------------


def _is_numeric(dtype: np.dtype) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _pack_array(array: np.ndarray, writer: Writer) -> Any:
    """A file of numbers; objects are numbered, and each distinct one is written once."""
    if _is_numeric(array.dtype):
        return writer.store(array)
    if array.dtype != object:
        raise EstimationError(f"there is no stored form for an array of type {array.dtype}.")
    number: dict[tuple, int] = {}
    distinct: list[Any] = []
    codes = np.empty(array.shape, dtype=np.int64)
    for where, value in np.ndenumerate(array):
        written = writer.encode(value)
        plain = type(value) in {int, str}
        # 1, 1.0 and True are equal but not the same: other types are told apart by their text.
        key = (type(value), value) if plain else (None, json.dumps(written, sort_keys=True))
        if key not in number:
            number[key] = len(distinct)
            distinct.append(written)
        codes[where] = number[key]
    return {"distinct": distinct, "codes": writer.store(codes)}


def _unpack_array(content: Any, reader: Reader) -> np.ndarray:
    if isinstance(content, str):
        return reader.fetch(content)
    distinct, codes = reader.decode(content["distinct"]), reader.fetch(content["codes"])
    if not isinstance(distinct, list):  # a table can claim any length
        raise ValueError("an array of objects has no list of distinct ones.")
    if codes.dtype != np.int64 or np.any((codes < 0) | (codes >= len(distinct))):
        raise ValueError("an array of objects has codes beyond its list of distinct ones.")
    objects = np.empty(len(distinct), dtype=object)
    for k, value in enumerate(distinct):
        objects[k] = value
    return objects[codes]


# ---- ids and dates -----------------------------------------------------------------------------


def _pack_scalar(value: np.generic, _: Writer) -> list:
    kind = value.dtype.kind
    if kind == "U":
        return ["str", str(value)]
    if kind in "mM":
        return [value.dtype.str, int(value.view(np.int64))]
    if not _is_numeric(value.dtype):
        raise EstimationError(f"there is no stored form for a number of type {value.dtype}.")
    number = value.item()
    return [value.dtype.str, repr(number) if kind == "f" else number]


def _unpack_scalar(content: Any, _: Reader) -> np.generic:
    name, value = content
    if name == "str":
        return np.str_(value)
    if _DATE_TYPE.fullmatch(name):
        return np.int64(value).view(np.dtype(name))
    if not _NUMBER_TYPE.fullmatch(name) or isinstance(value, list | dict):
        raise ValueError(f"a number has type {shown(name)}, which is not one to be read.")
    return np.dtype(name).type(value)


def _pack_zone(zone: datetime.tzinfo | None) -> str | float | None:
    """The key of a named zone, or the seconds of a fixed one."""
    if zone is None:
        return None
    if isinstance(zone, datetime.timezone):
        return zone.utcoffset(None).total_seconds()
    key = getattr(zone, "key", None) or getattr(zone, "zone", None)  # zoneinfo's, pytz's
    if not isinstance(key, str):
        raise EstimationError(f"there is no stored form for a time zone of {type(zone)}.")
    return key


def _unpack_zone(content: Any) -> datetime.tzinfo | None:
    if content is None:
        return None
    if isinstance(content, str):
        if not _ZONE.fullmatch(content):  # zoneinfo would look for a file of that name
            raise ValueError(f"{shown(content)} is not the name of a time zone.")
        return zoneinfo.ZoneInfo(content)
    return datetime.timezone(datetime.timedelta(seconds=content))


def _pack_timestamp(value: pd.Timestamp, _: Writer) -> list:
    return [value.unit, int(value.asm8.view(np.int64)), _pack_zone(value.tz)]


def _unpack_timestamp(content: Any, _: Reader) -> pd.Timestamp:
    unit, count, zone = content
    if unit not in {"s", "ms", "us", "ns"}:
        raise ValueError(f"a time has the unit {shown(unit)}.")
    value = pd.Timestamp(np.int64(count).view(f"M8[{unit}]"))
    if zone is None:
        return value
    there = _unpack_zone(zone)
    # By its name, pandas makes a zone of the kind that it makes elsewhere: pytz's before 3.0.
    return value.tz_localize("UTC").tz_convert(zone if isinstance(zone, str) else there)


def _pack_datetime(value: datetime.datetime, _: Writer) -> list:
    return [value.replace(tzinfo=None).isoformat(), value.fold, _pack_zone(value.tzinfo)]


def _unpack_datetime(content: Any, _: Reader) -> datetime.datetime:
    text, fold, zone = content
    return datetime.datetime.fromisoformat(text).replace(fold=fold, tzinfo=_unpack_zone(zone))


# ---- tables ------------------------------------------------------------------------------------


def _index(values: Any, names: list) -> pd.Index:
    if len(names) > 1:
        return pd.MultiIndex.from_tuples(list(values), names=names)
    return pd.Index(list(values), name=names[0], tupleize_cols=False)


def _pack_index(index: pd.Index, writer: Writer) -> list:
    names = list(index.names)
    if isinstance(index, pd.RangeIndex):
        return [writer.encode(names), [index.start, index.stop, index.step]]
    values = index.to_numpy(dtype=object)
    if not _index(values, names).identical(index):
        raise EstimationError(f"there is no stored form for an index of type {index.dtype}.")
    return [writer.encode(names), writer.encode(values)]


def _unpack_index(content: Any, reader: Reader) -> pd.Index:
    names, values = reader.decode(content[0]), content[1]
    if isinstance(values, list):
        start, stop, step = values
        return pd.RangeIndex(start, stop, step, name=names[0])
    return _index(reader.decode(values), names)


def _pack_frame(frame: pd.DataFrame, writer: Writer) -> dict:
    columns = []
    for name, column in frame.items():
        numeric = isinstance(column.dtype, np.dtype) and _is_numeric(column.dtype)
        if not numeric and str(column.dtype) not in _TEXT_TYPES:
            raise EstimationError(
                f"column {name!r}: there is no stored form for the type {column.dtype}."
            )
        values = column.to_numpy() if numeric else column.to_numpy(dtype=object)
        columns.append([writer.encode(name), str(column.dtype), writer.encode(values)])
    return {"index": _pack_index(frame.index, writer), "columns": columns}


def _unpack_frame(content: Any, reader: Reader) -> pd.DataFrame:
    data = {}
    for name, kind, values in content["columns"]:
        column = reader.decode(values)
        if column.dtype == object and kind in _TEXT_TYPES:
            column = pd.Series(column, dtype=kind).array
        elif str(column.dtype) != kind or column.dtype == object:
            raise ValueError(f"a column is said to be of type {shown(kind)}, but it is not.")
        data[reader.decode(name)] = column
    return pd.DataFrame(data, index=_unpack_index(content["index"], reader))


# ---- all tags, and the panel -------------------------------------------------------------------


def _unpack_float(text: str) -> float:
    if text not in _NOT_FINITE:
        raise ValueError(f"{shown(text)} is not one of {_NOT_FINITE}.")
    return float(text)


_TAGS: dict[str, tuple[type, Callable[[Any, Writer], Any], Callable[[Any, Reader], Any]]] = {
    "float": (float, lambda v, _: repr(v), lambda c, _: _unpack_float(c)),
    "tuple": (tuple, lambda v, w: w.encode(list(v)), lambda c, r: tuple(map(r.decode, c))),
    "mapping": (
        dict,
        lambda v, w: [w.encode([name, entry]) for name, entry in v.items()],
        lambda c, r: dict(map(r.decode, c)),
    ),
    "array": (np.ndarray, _pack_array, _unpack_array),
    "numpy": (np.generic, _pack_scalar, _unpack_scalar),
    "timestamp": (pd.Timestamp, _pack_timestamp, _unpack_timestamp),
    "period": (pd.Period, lambda v, _: [v.ordinal, v.freqstr], lambda c, _: _period(*c)),
    "datetime": (datetime.datetime, _pack_datetime, _unpack_datetime),
    "date": (
        datetime.date,
        lambda v, _: v.isoformat(),
        lambda c, _: datetime.date.fromisoformat(c),
    ),
    "frame": (pd.DataFrame, _pack_frame, _unpack_frame),
    "result": (Result, lambda v, _: v.name, lambda c, _: Result[c]),
}


def _period(ordinal: int, freq: str) -> pd.Period:
    return pd.Period(ordinal=ordinal, freq=freq)
