"""A text file of delimited fields as a table: every line is split and counted by us."""

import csv
import operator
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit.data._coded import Coded, objects
from pomdpfit.data._columns import Columns
from pomdpfit.data._lines import Lines
from pomdpfit.data._model_words import with_model_words
from pomdpfit.data._table import Table, shown
from pomdpfit.data._text_values import Missing, typed_columns

_SHOWN = 5
_MOST_BLANK = 10**6  # they cost time and, packed, nothing else
_BLOCK = 1024  # records held at a time
_OTHER_DELIMITERS = {",": "','", ";": "';'", "\t": "'\\t'", "|": "'|'"}


def read_text(
    path: Path, columns: Columns, encoding: str, delimiter: str, missing: Missing, model: Any = None
) -> Table:
    """The columns that are read, as values, with the line on which each row begins."""
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise PanelError(f"delimiter must be one character, but it is {delimiter!r}.")
    records = _Records(path, encoding, delimiter)
    width, wanted = _header(records, columns, delimiter)
    rows, fields = array("q"), [_Field(k) for k in wanted]
    blank, ragged, block = 0, _Ragged(width, delimiter), []
    for line, record in records:
        if len(record) == width:
            rows.append(line)
            block.append(record)
            if len(block) == _BLOCK:
                block = _coded(block, fields)
        elif record:
            ragged.add(line, record)
        else:
            blank += 1
            if blank > _MOST_BLANK:
                raise PanelError(
                    f"{path} has more than {_MOST_BLANK:,} blank lines; is it a table?"
                )
    ragged.refuse(path)
    _coded(block, fields)
    if len(rows) == 0:
        raise PanelError(f"{path} is empty but for its header: it has no rows.")
    text = {
        name: Coded(objects(list(field)), np.array(field.codes))
        for name, field in zip(columns.names, fields, strict=True)
    }
    columns, from_model = with_model_words(columns, text, model)
    data, notes = typed_columns(text, columns, missing)
    if blank:
        notes.append(f"{blank} blank lines were skipped")
    return Table(columns, data, np.array(rows), "line", str(path), tuple(notes), from_model)


class _Field(dict):
    """The distinct texts of a column with their numbers, and the number in each row."""

    def __init__(self, place: int) -> None:
        self.text, self.codes = operator.itemgetter(place), array("q")

    def __missing__(self, text: str) -> int:
        """The next number, for a text that is new."""
        self[text] = number = len(self)
        return number


def _coded(block: list[list[str]], fields: Sequence[_Field]) -> list[list[str]]:
    """Take a block of records into the columns, without a loop in Python; and an empty one."""
    for field in fields:
        field.codes.extend(map(field.__getitem__, map(field.text, block)))
    return []


class _Records:
    """Iterates over records, each with the line on which it begins."""

    def __init__(self, path: Path, encoding: str, delimiter: str) -> None:
        self.path, self.lines = path, Lines(path, encoding)
        self._reader = csv.reader(self.lines, delimiter=delimiter, strict=True)

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        lines = self.lines
        try:
            for record in self._reader:
                begun = lines.begun
                lines.begin_record()
                yield begun, record
        except csv.Error as error:
            raise PanelError(
                f"{self.path}: line {lines.begun} cannot be split into fields: "
                f"{self._why(str(error))}."
            ) from error

    @staticmethod
    def _why(error: str) -> str:
        if "new-line" in error:
            return "it holds a carriage return; end lines with a line feed (or both)"
        if "field limit" in error:
            return f"a field is longer than {csv.field_size_limit()} characters"
        if "unexpected end" in error:
            return "a quotation mark is never closed"
        return f"{error}; check its quotation marks"


def _header(records: _Records, columns: Columns, delimiter: str) -> tuple[int, list[int]]:
    """How many fields a record has, and the places of the columns that are read."""
    path = records.path
    for _, header in records:
        if not header:
            continue
        other = [word for d, word in _OTHER_DELIMITERS.items() if d != delimiter and d in header[0]]
        advice = f" Is it written with delimiter={other[0]}?" if len(header) == 1 and other else ""
        columns.check(header, str(path), advice)
        return len(header), [header.index(name) for name in columns.names]
    raise PanelError(f"{path} is empty: it has no header and no rows.")


class _Ragged:
    """Records with another number of fields than the header: the first five, and a count."""

    def __init__(self, width: int, delimiter: str) -> None:
        self._width, self._delimiter = width, delimiter
        self._told: list[str] = []
        self._count, self._long = 0, False

    def add(self, line: int, record: list[str]) -> None:
        """One more."""
        self._count += 1
        self._long |= len(record) > self._width
        if len(self._told) < _SHOWN:
            begins = shown(self._delimiter.join(record))
            self._told.append(f"line {line} has {len(record)} ({begins})")

    def refuse(self, path: Path) -> None:
        """Raise if there was any."""
        if not self._count:
            return
        more = f" ... and {self._count - _SHOWN} more lines." if self._count > _SHOWN else ""
        mend = (
            f"A value that holds {self._delimiter!r}, as 1,234 does, needs quotation marks or goes "
            "without."
            if self._long
            else "Is a value, or the end of the line, missing?"
        )
        told = "; ".join(self._told)
        raise PanelError(f"{path}: the header has {self._width} fields, but {told}.{more} {mend}")
