"""Parquet and Stata files as tables: values come with their types, as the file has them."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from pomdpfit._errors import PanelError, PomdpfitError
from pomdpfit.data._columns import Columns
from pomdpfit.data._table import Table

_VALUES = 2**23  # that a Parquet file may always hold
_RATIO = 25  # and beyond that, how many for each of its bytes


def pyarrow_parquet(path: str | Path) -> Any:
    """The module that reads and writes Parquet files."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise PanelError(
            f"{path}: Parquet files need pyarrow; install it with pip install 'pomdpfit[parquet]'."
        ) from error
    return pyarrow.parquet


def open_parquet(path: str | Path) -> Any:
    """A Parquet file that is closed by `with`; its pages are checked where they have checksums."""
    return pyarrow_parquet(path).ParquetFile(path, page_checksum_verification=True)


def read_parquet(path: Path, columns: Columns, model: Any = None) -> Table:
    """The columns that are read; needs pyarrow."""
    with readable(path, "Parquet"), open_parquet(path) as file:
        columns.check(file.schema_arrow.names, str(path))
        _refuse_exploding(path, file.metadata.num_rows * len(columns.names))
        # Damaged text is noticed when it becomes Python's, so that belongs here too.
        return Table.of_frame(file.read(columns=columns.names), columns, str(path), model)


def text_columns(path: Path) -> set[str]:
    """The columns of a Parquet file that hold text, by the types that the file declares."""
    import pyarrow as pa

    is_text = lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind)
    with readable(path, "Parquet"):
        schema = pyarrow_parquet(path).read_schema(path)
    plain = {f.name: getattr(f.type, "value_type", f.type) for f in schema}  # of a dictionary
    return {name for name, kind in plain.items() if is_text(kind)}


def _refuse_exploding(path: Path, values: int) -> None:
    """Refuse more values than a file of this size holds: equal ones pack to nothing at all."""
    if values > max(_VALUES, _RATIO * path.stat().st_size):
        raise PanelError(
            f"{path} unpacks to {values:,} values, more than {_RATIO} for each of its bytes; if "
            "that is right, read it with pandas or polars and use pf.Panel.from_frame."
        )


def read_stata(path: Path, columns: Columns, model: Any = None) -> Table:
    """The columns that are read.

    Numbers stay numbers, also where the file has value labels for them; the value labels are read
    where the caller lists labels that are text.
    """

    def read(labelled: bool) -> pd.DataFrame:
        with readable(path, "Stata"):
            # A damaged length makes pandas ask for gigabytes; bytes in memory give what there is.
            content = io.BytesIO(path.read_bytes())
            return pd.read_stata(content, convert_categoricals=labelled, preserve_dtypes=True)

    frame = read(False)
    columns.check(list(frame.columns), str(path))
    by_name = [
        name
        for name, labels in columns.labels.items()
        if any(isinstance(label, str) for label in labels or ())
    ]
    if by_name:
        named = read(True)
        frame = frame.assign(**{name: named[name].astype(object) for name in by_name})
    # Stata writes no text as an empty text.
    frame = frame[columns.names].replace({"": None})
    return Table.of_frame(frame, columns, str(path), model)


@contextlib.contextmanager
def readable(
    path: str | Path, kind: str, known: tuple[type[Exception], ...] = (PomdpfitError,)
) -> Iterator[None]:
    """Around the reading of a file: readers of damaged files raise all sorts of errors."""
    try:
        yield
    except known:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise PanelError(f"{path} cannot be read as a {kind} file: {first}.") from error
