"""Panels as files of a data set, in the form that is quickest to read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._write import write_atomically
from pomdpfit.data._binary_tables import pyarrow_parquet

_ROW_GROUP = 2**19  # rows, which a reader decodes together


def require_empty(folder: Path) -> None:
    """Make the folder; refuse one that holds anything: files of two data sets must not mix."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise PanelError(f"{folder} is not empty: write the data set to a folder of its own.")


def write_rows(path: Path, columns: Mapping[str, Any]) -> None:
    """One file, whole or not at all; whole numbers are stored in the smallest type they fit."""
    import pyarrow as pa

    parquet = pyarrow_parquet(path)
    table = pa.table({name: _packed(values) for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    how = {"row_group_size": _ROW_GROUP, "compression": "zstd", "write_page_checksum": True}
    parquet.write_table(table, sink, **how)
    write_atomically(path, sink.getvalue())


def _packed(values: Any) -> Any:
    """The column, in as few bytes as its whole numbers need."""
    import pyarrow as pa

    if isinstance(values, np.ma.MaskedArray):
        return pa.array(_small(values.data), mask=np.ma.getmaskarray(values))
    array = np.asarray(values)
    return pa.array(_small(array) if array.dtype.kind in "iu" else array)


def _small(values: np.ndarray) -> np.ndarray:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    fits = lambda kind: np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    return values.astype(next(k for k in (np.int8, np.int16, np.int32, np.int64) if fits(k)))
