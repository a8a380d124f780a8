"""The values of a table as periods, codes and numbers; each refusal says why."""

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import PanelError
from pomdpfit._nearest import closest
from pomdpfit._types import Bool, Float, Int
from pomdpfit.data._coded import ABSENT, Coded, is_missing, is_whole
from pomdpfit.data._columns import listed
from pomdpfit.data._table import Table, shown

# Year first: nobody can tell the day from the month in 01/02/2020.
_CLOCK = r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?"
_DATE = re.compile(rf"[0-9]{{4}}(-[0-9]{{2}}(-[0-9]{{2}}({_CLOCK})?)?)?")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([, '\u00a0\u2009\u202f][0-9]{3})+(\.[0-9]*)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_NEAREST = 3  # wrong labels whose nearest ones a message names
_FARTHEST = 2**62  # so that differences of periods fit 64 bits


def periods(table: Table) -> Int[np.ndarray, "n"]:
    """Times as whole numbers of periods."""
    column, freq = table.columns.time, table.columns.freq
    time = table.data[column]
    table.refuse(time.missing(), column, "is missing; every row needs its period")
    if freq is not None:
        return _dates(table, freq)
    whole = _integers(time, _FARTHEST)
    if whole is None:
        table.refuse(time.where(lambda v: not is_whole(v, _FARTHEST)), column, _no_period)
        whole = np.array([int(v) for v in time.distinct])
    return whole[time.code]


def _integers(values: Coded, bound: int) -> Int[np.ndarray, "d"] | None:
    """The distinct values as integers, where all are whole numbers of one type below a bound."""
    kinds = values.kinds
    try:
        if kinds == {int}:
            each = values.distinct.astype(np.int64)
        elif kinds == {float}:
            each = values.distinct.astype(float)
        else:
            return None
    except OverflowError:  # beyond 64 bits
        return None
    whole = (each > -bound) & (each < bound) & (each == np.floor(each))
    return each.astype(np.int64) if whole.all() else None


def _no_period(value: Any) -> str:
    dates = 'for dates say how long a period is, for example freq="M"'
    grouped = isinstance(value, str) and _GROUPED.fullmatch(value)
    return why_no_number(value, "whole number") if grouped else f"is not a whole number; {dates}"


def _dates(table: Table, freq: str) -> Int[np.ndarray, "n"]:
    """Dates (or pandas periods) as numbers of periods of this length."""
    column = table.columns.time
    time = table.data[column]
    number = time.where(lambda v: True, int | float | np.number)
    table.refuse(number, column, f"is a number, not a date; leave freq={freq!r} out")
    strange = time.where(lambda v: not _DATE.fullmatch(v), str)
    table.refuse(strange, column, "is not a date; write year, month and day as in 2020-01-31")
    values: Any = time.distinct
    if not all(isinstance(v, pd.Period) for v in values):
        zones = {str(getattr(v, "tzinfo", None)) for v in values}
        if len(zones) > 1:
            raise PanelError(f"column {column!r} mixes time zones: {sorted(zones)}; use one.")
        local = [v.replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for v in values]
        dates = pd.to_datetime(pd.Series(local, dtype=object), errors="coerce", format="ISO8601")
        table.refuse(dates.isna().to_numpy()[time.code], column, "is not a date")
        values = dates.to_numpy()
    try:
        return pd.PeriodIndex(values, freq=freq).astype("int64").to_numpy()[time.code]
    except (ValueError, TypeError) as error:
        raise PanelError(f"freq={freq!r} is not a length of period: {error}") from error


def codes(
    table: Table,
    column: str,
    labels: Sequence[Hashable] | None,
    argument: str,
    optional: Bool[np.ndarray, "n"] | None = None,
) -> Int[np.ndarray, "n"]:
    """Labels or whole numbers as codes from 0; -1 where a value is missing and may be."""
    values = table.data[column]
    missing = values.missing()
    may_miss = np.zeros_like(missing) if optional is None else optional
    tail = "" if optional is None else " (only an agent's last row may lack one)"
    mend = "fill it in, or leave such rows out with repair=[pf.DropRows()]"
    table.refuse(missing & ~may_miss, column, f"is missing{tail}; {mend}")
    known = [v for v in values.distinct if not is_missing(v)]
    number = _numbering(labels, argument)
    if number is None and known and all(isinstance(v, bool) for v in known):
        number = {_key(False): 0, _key(True): 1}
    if number is None:
        bad = values.where(lambda v: not is_missing(v) and not is_whole(v))
        table.refuse(bad, column, lambda v: why_no_code(v, argument))
        each = [-1 if is_missing(v) else int(v) for v in values.distinct]
        negative = values.where(lambda v: not is_missing(v) and int(v) < 0)
        table.refuse(negative, column, "is negative; codes count from 0")
    else:
        bad = values.where(lambda v: not is_missing(v) and not _listed(v, number))
        if bad.any():
            table.refuse(bad, column, _why_no_label(values[bad].distinct, table, argument, labels))
        each = [-1 if is_missing(v) else number[_key(v)] for v in values.distinct]
    return np.array(each)[values.code]


def _why_no_label(
    wrong: np.ndarray, table: Table, argument: str, labels: Sequence[Hashable] | None
) -> str:
    """Which labels there are, and which of them were probably meant."""
    known = [] if labels is None else list(labels)
    words, texts = [str(label) for label in known], [v for v in wrong if isinstance(v, str)]
    of_model = argument in table.from_model
    there = f"the model's {argument}: {listed(words)}" if of_model else f"{argument}={known}"
    near = {value: close for value in texts if (close := closest(value, words)) is not None}
    pairs = [f"{close!r} for {shown(value)}" for value, close in list(near.items())[:_NEAREST]]
    if len(wrong) == 1 and near:
        pairs = [repr(close) for close in near.values()]
    hint = f" (did you mean {', '.join(pairs)}?)" if pairs else ""
    absent = next((value for value in texts if value.lower() in ABSENT), None)
    return f"is not one of {there}{hint}{'' if absent is None else _no_value(absent)}"


def _no_value(word: str) -> str:
    """What to do about a word that may stand for no value."""
    return (
        f"; if it stands for no value leave the cell empty (or say missing=['', {word!r}] to "
        "pf.read_panel)"
    )


def numbers(table: Table, column: str) -> Float[np.ndarray, "n"]:
    """A covariate as finite floats."""
    values = table.data[column]
    why = "is missing; a covariate is a finite number in every row"
    table.refuse(values.missing(), column, why)
    if values.kinds <= {float, bool}:
        each = values.distinct.astype(float)
    else:
        text = values.where(lambda v: not isinstance(v, int | float | bool))
        table.refuse(text, column, lambda v: why_no_number(v, "number"))
        each = np.array([_float(v) for v in values.distinct])
    table.refuse(~np.isfinite(each)[values.code], column, "is not a finite number")
    return each[values.code]


def _float(value: int | float | bool) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond 1e308
        return np.inf


def why_no_code(value: Any, argument: str) -> str:
    """Why a value is no code, and the mend."""
    if isinstance(value, bool):
        return "is a boolean among numbers; write 0 and 1 throughout"
    if isinstance(value, str):
        why = why_no_number(value, "whole number")
        return f"{why}; for labels say {argument}=[...]" if why.startswith("is text") else why
    if isinstance(value, float) and np.isinf(value):
        return "is infinite, not a whole number"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "is beyond 64 bits; codes count from 0"
    return f"is not a whole number; for labels say {argument}=[...]"


def why_no_number(value: Any, wanted: str) -> str:
    """Why a value is no number, and the mend."""
    if not isinstance(value, str):
        return f"is not a {wanted}"
    why = f"is text, not a {wanted}"
    if _INFINITE.fullmatch(value.strip()):
        why = f"is infinite, not a {wanted}"
    elif _GROUPED.fullmatch(value):
        why = f"has a thousands separator; write {re.sub(r'[^0-9.+-]', '', value)}"
    elif value != value.strip():
        why = "has spaces around it; remove them"
    elif wanted == "number" and _DECIMAL_COMMA.fullmatch(value):
        why = f"has a decimal comma; write {value.replace(',', '.')}"
    elif value.lower() in ABSENT:
        why += _no_value(value)
    return why


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


def _listed(value: Any, number: Mapping[Hashable, int]) -> bool:
    try:
        return _key(value) in number
    except TypeError:  # what cannot be looked up is no label
        return False
