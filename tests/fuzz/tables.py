"""Panels as Parquet and Stata: damaged bytes, and sound files whose columns hold strange things."""

import datetime
import decimal
import functools
import io
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.errors import PossiblePrecisionLoss

import pomdpfit as pf
from tests.fuzz import panel_checks
from tests.fuzz.byte_mutations import BYTES, Mutation, splice
from tests.fuzz.kinds import Kind, Sound
from tests.malformed_inputs import COLUMNS

_FRAME = pd.DataFrame(
    {
        "bus": ["4403", "4403", "4403", "4404", "4404"],
        "month": [1, 2, 3, 1, 2],
        "bin": np.array([0, 1, 2, 0, 0], dtype="int16"),
        "replace": [0.0, 0.0, 1.0, 1.0, np.nan],
        "price": np.array([1.5, -0.0, 1e300, 2.0, 3.0]),
    }
)
_DATED = _FRAME.assign(
    month=pd.to_datetime(["1980-01-31", "1980-02-29", "1980-03-31", "1980-01-31", "1980-02-29"]),
    replace=pd.Categorical(["keep", "keep", "new", "new", None], ["keep", "new"]),
)
_PRICED = {**COLUMNS, "covariates": ["price"]}
_NAMED = {**COLUMNS, "freq": "M", "actions": ["keep", "new"]}

_STRANGE: tuple[Any, ...] = (
    *(float("nan"), float("inf"), -1, 2**62, -(2**63), 0.5, True, "", "x", " 1", "1\0", b"\xff"),
    *([1, 2], {"a": 1}, (), decimal.Decimal("1.5"), datetime.date(9999, 12, 31), None),
    *(datetime.timedelta(days=1), datetime.time(1), 2**64 - 1, "4403", 1e308, -0.0),
)


def _parquet(frame: pd.DataFrame, **options: Any) -> bytes:
    stream = io.BytesIO()
    frame.to_parquet(stream, engine="pyarrow", index=False, **options)
    return stream.getvalue()


def _stata(frame: pd.DataFrame, version: int = 118, **options: Any) -> bytes:
    stream = io.BytesIO()
    stamp = datetime.datetime(2020, 1, 1)
    with warnings.catch_warnings():  # of whole numbers beyond 2^53: they are what is wanted
        warnings.simplefilter("ignore", PossiblePrecisionLoss)
        frame.to_stata(stream, write_index=False, version=version, time_stamp=stamp, **options)
    return stream.getvalue()


SOUND = (
    Sound("plain.parquet", _parquet(_FRAME), _PRICED),
    Sound("bare.parquet", _parquet(_FRAME, compression="NONE", use_dictionary=False), _PRICED),
    Sound("dated.pq", _parquet(_DATED, compression="GZIP"), _NAMED),
    Sound("plain.dta", _stata(_FRAME), _PRICED),
    Sound("old.dta", _stata(_FRAME, version=114), _PRICED),
    Sound("dated.dta", _stata(_DATED, convert_dates={"month": "td"}), _NAMED),
    Sound("long.dta", _stata(_FRAME, version=117, convert_strl=["bus"]), _PRICED),
)


def strange_column(random: random.Random, data: bytes) -> bytes:
    """A sound file, one column of which holds something else in some rows."""
    name = random.choice(list(_FRAME.columns))
    value = random.choice(_STRANGE)
    column = list(_FRAME[name])
    for row in random.sample(range(len(column)), random.choice((1, 2, len(column)))):
        column[row] = value
    try:
        frame = _FRAME.assign(**{name: pd.Series(column, dtype=object).infer_objects()})
        return _parquet(frame) if data.startswith(b"PAR1") else _stata(frame)
    except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException):
        return data  # the format has no such columns


def other_columns(random: random.Random, data: bytes) -> bytes:
    """A column less, or under another name, or without rows."""
    names = list(_FRAME.columns)
    renamed = {random.choice(names): random.choice((*names, "", "BUS", "x" * 20))}
    frame = random.choice((_FRAME.iloc[:0], _FRAME.rename(columns=renamed), _FRAME[names[1:]]))
    if not data.startswith(b"PAR1"):
        return data if frame.columns.duplicated().any() or "" in frame else _stata(frame)
    stream = io.BytesIO()
    arrays = [pa.array(frame.iloc[:, k]) for k in range(frame.shape[1])]
    pq.write_table(pa.table(arrays, names=list(frame.columns)), stream)
    return stream.getvalue()


def exploding(random: random.Random, data: bytes) -> bytes:
    """Millions of rows in a few kilobytes: a column of one value packs to nothing."""
    return _exploding() if data.startswith(b"PAR1") and random.random() < 0.1 else data


@functools.lru_cache(maxsize=1)
def _exploding() -> bytes:
    rows = 20_000_000
    zeros = pa.array(np.zeros(rows, dtype=np.int8))
    stream = io.BytesIO()
    names = list(_FRAME.columns)
    pq.write_table(pa.table([zeros] * len(names), names=names), stream, row_group_size=rows)
    return stream.getvalue()


_MUTATIONS: tuple[Mutation, ...] = (
    *(*BYTES, *BYTES, splice([s.content for s in SOUND])),
    *(strange_column, strange_column, strange_column, other_columns, exploding),
)


def _check(panel: pf.Panel, sound: Sound, content: bytes, folder: Path) -> None:
    panel_checks.check(panel, folder)


TABLES = Kind("tables", SOUND, _MUTATIONS, panel_checks.read, pf.PanelError, _check)
