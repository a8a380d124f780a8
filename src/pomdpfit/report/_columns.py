"""Tables as text, column by column: what HTML and LaTeX show alike."""

import dataclasses
import enum
import math
import numbers
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeGuard

import pandas as pd

_TINY, _HUGE = 1e-4, 1e9  # beyond these an exponent reads better than zeros


@dataclasses.dataclass(frozen=True)
class Part:
    """A column of a frame, or a level of its index, which `heads` the rows."""

    label: Hashable
    values: Sequence[object]
    heads: bool


@dataclasses.dataclass(frozen=True)
class Column:
    """A part as it is shown."""

    label: str
    cells: tuple[str, ...]
    numeric: bool
    heads: bool


def shows_index(frame: pd.DataFrame) -> bool:
    """Whether the index says more than the number of the row."""
    index = frame.index
    named = any(name is not None for name in index.names)
    return named or index.nlevels > 1 or not pd.api.types.is_integer_dtype(index.dtype)


def parts_of(frame: pd.DataFrame) -> list[Part]:
    """The levels of the index, where it is shown, and the columns."""
    index = frame.index
    levels = range(index.nlevels if shows_index(frame) else 0)
    heads = [Part(index.names[k], index.get_level_values(k).tolist(), True) for k in levels]
    labels = enumerate(frame.columns)
    return heads + [Part(label, frame.iloc[:, k].tolist(), False) for k, label in labels]


def columns_of(frame: pd.DataFrame, formats: Mapping[str, str]) -> tuple[Column, ...]:
    """The parts as text: by their formats, or so that points stand below one another."""
    if frame.columns.nlevels > 1:
        raise ValueError(
            f"its columns have {frame.columns.nlevels} levels, such as {frame.columns[0]!r}: join "
            "them into one label each."
        )
    parts = parts_of(frame)
    labels = ["" if part.label is None else str(part.label) for part in parts]
    unknown = [name for name in formats if name not in labels]
    if unknown:
        raise ValueError(
            f"formats are given for {', '.join(map(repr, unknown))}, which it does not have: its "
            f"columns are {', '.join(map(repr, labels))}."
        )
    pairs = zip(labels, parts, strict=True)
    return tuple(_column(label, part, formats.get(label)) for label, part in pairs)


def is_missing(value: Any) -> bool:
    """Whether the value is one of the many that stand for none."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _column(label: str, part: Part, spec: str | None) -> Column:
    there = [value for value in part.values if not is_missing(value)]
    decimals = _decimals([float(v) for v in there if _is_number(v)])
    cells = tuple(_cell(label, value, spec, decimals) for value in part.values)
    return Column(label, cells, bool(there) and all(map(_is_number, there)), part.heads)


def _cell(label: str, value: object, spec: str | None, decimals: int) -> str:
    word = _word(value)
    if word is not None:
        return word
    if spec is not None:
        return _formatted(label, value, spec)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        number = float(value)
        return f"{number:.{decimals}f}" if _is_ordinary(number) else f"{number:.4g}"
    return str(value)


def _word(value: object) -> str | None:
    """What is shown of a value that no format is for; None where one is."""
    if is_missing(value):
        return ""
    if isinstance(value, enum.Enum):
        return value.name
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if isinstance(value, numbers.Real) and math.isinf(value):
        return "∞" if float(value) > 0 else "-∞"
    return value if isinstance(value, str) else None


def _formatted(label: str, value: object, spec: str) -> str:
    try:
        return format(value, spec)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"the format {spec!r} of column {label!r} does not fit {value!r}, of type "
            f"{type(value).__name__}: {error}. Give one that format() knows, such as '.4f'."
        ) from error


def _decimals(values: Sequence[float]) -> int:
    """As many as show four digits that count of each, within reason."""
    ordinary = [value for value in values if _is_ordinary(value)]
    most = 4 if any(abs(value) >= 1 for value in ordinary) else 6
    return min(most, max(map(_decimals_of, ordinary), default=0))


def _decimals_of(value: float) -> int:
    exact = len(repr(value).removesuffix(".0").partition(".")[2])
    if exact <= (3 if abs(value) >= 1 else 6):  # typed: four digits of 0.99999 would be 1
        return exact
    return max(2, 3 - math.floor(math.log10(abs(value))))


def _is_ordinary(value: float) -> bool:
    return value == 0 or _TINY <= abs(value) < _HUGE


def _is_number(value: object) -> TypeGuard[float]:
    """Yes and no are words, and so are names of an enum."""
    words = isinstance(value, enum.Enum) or pd.api.types.is_bool(value)
    return isinstance(value, numbers.Real) and not words
