"""A table as it came: its columns, where each row stood, and refusals that say so."""

import dataclasses
from collections.abc import Callable
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._types import Bool, Int
from pomdpfit.data._coded import Coded, is_missing
from pomdpfit.data._columns import Columns
from pomdpfit.data._model_words import with_model_words

_SHOWN = 5  # bad rows that a message names
_LONGEST = 60  # characters of a value that it shows


@dataclasses.dataclass(frozen=True)
class Table:
    """The columns that are read, and where each row stood: its row in a frame, line in a file."""

    columns: Columns
    data: dict[str, Coded]
    rows: Int[np.ndarray, "n"]
    place: str = "row"
    source: str = ""
    notes: tuple[str, ...] = ()
    from_model: frozenset[str] = frozenset()  # "observations", "actions": labels not listed

    @classmethod
    def of_frame(cls, frame: Any, columns: Columns, source: str = "", model: Any = None) -> "Table":
        """The columns of a pandas, polars or arrow frame."""
        name = source or "the frame"
        try:
            table = nw.from_native(frame, eager_only=True)
        except TypeError as error:
            raise PanelError(f"expected a pandas or polars frame, not {type(frame)}.") from error
        except ValueError as error:  # narwhals refuses duplicate columns
            raise PanelError(f"{name} cannot be read: {error}") from error
        columns.check(table.columns, name)
        if len(table) == 0:
            raise PanelError(f"{name} is empty: it has no rows.")
        data = {column: Coded.of_series(table[column]) for column in columns.names}
        columns, from_model = with_model_words(columns, data, model)
        rows = np.arange(len(table))
        return cls(columns, data, rows, source=source, from_model=from_model)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: np.ndarray) -> "Table":
        """These rows (a mask or an order)."""
        data = {name: column[rows] for name, column in self.data.items()}
        return dataclasses.replace(self, data=data, rows=self.rows[rows])

    def noted(self, *notes: str) -> "Table":
        """With further notes."""
        return dataclasses.replace(self, notes=(*self.notes, *notes))

    def refuse(
        self, bad: Bool[np.ndarray, "n"], column: str, why: str | Callable[[Any], str]
    ) -> None:
        """Raise for the rows where `bad`: the first five, in the order of the file, and a count."""
        places = np.flatnonzero(bad)
        if len(places) == 0:
            return
        places = places[np.argsort(self.rows[places], kind="stable")]
        told = [self._told(k, column, why) for k in places[:_SHOWN]]
        if len({reason for _, reason in told}) == 1:  # say it once
            each = ": each " if len(told) > 1 else " "
            words = "; ".join(what for what, _ in told) + each + told[0][1]
        else:
            words = "; ".join(f"{what} {reason}" for what, reason in told)
        more = f" ... and {len(places) - _SHOWN} more rows." if len(places) > _SHOWN else ""
        source = f"{self.source}: " if self.source else ""
        raise PanelError(f"{source}column {column!r}: " + words + "." + more)

    def _told(self, k: int, column: str, why: str | Callable[[Any], str]) -> tuple[str, str]:
        """The row and its value, and what is wrong with it."""
        value, agent, time = (
            self.data[name].distinct[self.data[name].code[k]]
            for name in (column, self.columns.agent, self.columns.time)
        )
        reason = why if isinstance(why, str) else why(value)
        what = column if is_missing(value) else f"{column} {shown(value)}"
        row = (
            f"{self.place} {self.rows[k]} (agent {shown(agent)}, {self.columns.time} {shown(time)})"
        )
        return f"{row}: {what}", reason


def shown(value: Any) -> str:
    """A value in a message: as Python writes it, and never longer than a line."""
    text = repr(value[:_LONGEST] if isinstance(value, str) else value)
    too_long = len(text) > _LONGEST + 12 or (isinstance(value, str) and len(value) > _LONGEST)
    return f"{text[:_LONGEST]}..." if too_long else text
