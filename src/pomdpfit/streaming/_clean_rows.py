"""Rows of a Parquet file as arrays, where they are as clean as files written by programs are.

Clean rows stand agent by agent and period by period, with whole numbers for times and codes (or
labels that are listed), nothing missing but an agent's last action. They need no more than a few
passes of numpy. All other rows are read by the reader of single files, which sorts, or refuses with
the row, the agent and the mend.
"""

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from pomdpfit._types import Float, Int
from pomdpfit.data._columns import Columns

NO_ACTION = -1


class NotClean(Exception):
    """These rows need the reader of single files."""


@dataclasses.dataclass(frozen=True, eq=False)
class CleanRows:
    """Columns of rows that stand agent by agent."""

    agent: np.ndarray
    time: Int[np.ndarray, "n"]
    z: Int[np.ndarray, "n"]
    a: Int[np.ndarray, "n"]
    covariates: Float[np.ndarray, "n c"]  # those named in the columns, and the group's number last

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """All of them."""
        return self.agent, self.time, self.z, self.a, self.covariates

    def take(self, rows: slice) -> "CleanRows":
        """Some of the rows."""
        return CleanRows(*(column[rows] for column in self.columns))

    @property
    def starts(self) -> Int[np.ndarray, "N"]:
        """The first row of each agent."""
        return np.flatnonzero(np.concatenate([[True], self.agent[1:] != self.agent[:-1]]))


def joined(parts: Sequence[CleanRows]) -> CleanRows:
    """One after the other."""
    columns = zip(*(part.columns for part in parts), strict=True)
    return CleanRows(*(np.concatenate(each) for each in columns))


def clean_rows(batch: Any, columns: Columns) -> CleanRows:
    """The columns of an Arrow batch, or NotClean."""
    column = lambda name: batch.column(batch.schema.get_field_index(name))
    agent = _present(column(columns.agent))
    z = _codes(column(columns.observation), columns.observations)
    a = _codes(column(columns.action), columns.actions, missing=True)
    further = [_numbers(column(name)) for name in columns.covariates]
    if columns.group is not None:
        further.append(_codes(column(columns.group), columns.groups).astype(float))
    covariates = np.stack(further, axis=1) if further else np.zeros((len(z), 0))
    time = _codes(column(columns.time), None, negative=True)
    return CleanRows(_ids(agent), time, z, a, covariates)


def whole_agents(batches: Iterator[CleanRows], rows: int, multiple: int = 1) -> Iterator[CleanRows]:
    """Blocks of about so many rows that split no agent.

    They have a multiple of so many agents each, but for the last one.
    """
    held: list[CleanRows] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += len(batch.z)
        if count < rows:
            continue
        block = joined(held)
        starts = block.starts  # the last agent may go on in the next batch
        whole = (len(starts) - 1) // multiple * multiple
        if whole:
            yield block.take(slice(starts[whole]))
            block = block.take(slice(starts[whole], None))
        held, count = [block], len(block.z)
    if count:
        yield joined(held)


def require_order(block: CleanRows) -> None:
    """NotClean unless each agent's periods follow one another and only a last action is missing."""
    last = np.ones(len(block.z), dtype=bool)
    last[:-1] = block.agent[1:] != block.agent[:-1]
    if (np.diff(block.time) != 1)[~last[:-1]].any() or (block.a[~last] == NO_ACTION).any():
        raise NotClean


def _present(column: Any) -> Any:
    if column.null_count:
        raise NotClean
    return column


def _ids(column: Any) -> np.ndarray:
    """Ids as numbers, or as objects that compare as their text does."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=object)
    raise NotClean


def _codes(
    column: Any,
    labels: Sequence[Hashable] | None,
    *,
    missing: bool = False,
    negative: bool = False,
) -> Int[np.ndarray, "n"]:
    """Whole numbers from 0, or places in the list of labels; NO_ACTION where one is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count and not missing:
        raise NotClean
    if pa.types.is_dictionary(column.type):  # what pandas makes of a categorical column
        column = column.dictionary_decode()
    if labels is not None:
        try:
            listed = pa.array(list(labels), type=column.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise NotClean from error
        absent = column.is_null()
        column = pc.index_in(column, value_set=listed)
        if column.null_count > (pc.sum(absent).as_py() or 0):
            raise NotClean
    if not pa.types.is_integer(column.type):
        raise NotClean
    filled = column.fill_null(NO_ACTION) if column.null_count else column
    codes = filled.to_numpy(zero_copy_only=False).astype(np.int64)
    known = codes if not column.null_count else codes[column.is_valid().to_numpy(False)]
    if not negative and (known < 0).any():
        raise NotClean
    return codes


def _numbers(column: Any) -> Float[np.ndarray, "n"]:
    import pyarrow as pa

    kind = _present(column).type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise NotClean
    numbers = column.to_numpy(zero_copy_only=False).astype(float)
    if not np.isfinite(numbers).all():
        raise NotClean
    return numbers
