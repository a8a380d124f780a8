"""One file of a data set: what was found in it, and its agents as panels."""

import dataclasses
import hashlib
import os
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pomdpfit._errors import PanelError, PomdpfitError
from pomdpfit._panel import Panel
from pomdpfit._types import Float
from pomdpfit.data._binary_tables import open_parquet, read_parquet, readable
from pomdpfit.data._columns import Columns
from pomdpfit.streaming._chunks import panel_of
from pomdpfit.streaming._clean_rows import (
    CleanRows,
    NotClean,
    clean_rows,
    require_order,
    whole_agents,
)

_BATCH = 2**18  # rows that are decoded at a time
_MOST_UNCLEAN = 5_000_000  # rows that are read at once where a file cannot be streamed


@dataclasses.dataclass(frozen=True)
class Partition:
    """What a pass through a file has found."""

    path: str
    size: int
    modified: int
    digest: str
    clean: bool
    agents: int
    rows: int
    longest: int
    choices: int
    transitions: int
    first: Hashable  # the smallest and the largest id
    last: Hashable
    contexts: Float[np.ndarray, "C c"] = dataclasses.field(repr=False, compare=False)
    notes: tuple[str, ...] = ()
    scored: int | None = None  # agents with scored rows; not counted by the first release


def partition_panels(
    path: str,
    columns: Columns,
    entry: int | Mapping[Hashable, int],
    rows: int,
    *,
    clean: bool,
    multiple: int = 1,
) -> Iterator[Panel]:
    """The agents of a file, whole, in panels of about so many rows, and a multiple of agents.

    NotClean where a file that should be clean is not.
    """
    if not clean:
        yield _read_at_once(path, columns, entry)
        return
    for block in whole_agents(_clean_batches(path, columns, rows), rows, multiple):
        require_order(block)
        yield panel_of(block, columns, entry)


def _clean_batches(path: str, columns: Columns, rows: int) -> Iterator[CleanRows]:
    """Rows as the file has them, some at a time."""
    with readable(path, "Parquet", (PomdpfitError, NotClean)), open_parquet(path) as file:
        columns.check(file.schema_arrow.names, path)
        for batch in file.iter_batches(min(_BATCH, rows), columns=columns.names):
            yield clean_rows(batch, columns)


def _read_at_once(path: str, columns: Columns, entry: int | Mapping[Hashable, int]) -> Panel:
    """By the reader of single files, which sorts or refuses."""
    with readable(path, "Parquet"), open_parquet(path) as file:
        count = file.metadata.num_rows
    if count > _MOST_UNCLEAN:
        raise PanelError(
            f"{path} has {count:,} rows that do not stand agent by agent and period by period (or "
            "hold dates, missing values or numbers that are not whole), too many to be put right "
            "in memory. Sort them by agent and time and write times and codes as whole numbers, or "
            f"write files of at most {_MOST_UNCLEAN:,} rows."
        )
    return Panel._from_table(read_parquet(Path(path), columns), (), entry)


def survey(
    columns: Columns, entry: int | Mapping[Hashable, int], rows: int, path: str
) -> Partition:
    """One pass through a file, as clean if it is."""
    try:
        return _survey(path, columns, entry, rows, clean=True)
    except NotClean:
        return _survey(path, columns, entry, rows, clean=False)


def _survey(
    path: str, columns: Columns, entry: int | Mapping[Hashable, int], rows: int, *, clean: bool
) -> Partition:
    with readable(path, "Parquet"):
        there, digest = os.stat(path), _digest(path)
    seen: set[Hashable] = set()
    counts = np.zeros(5, dtype=int)
    longest, contexts = 0, np.zeros((0, 0))
    notes: tuple[str, ...] = ()
    for panel in partition_panels(path, columns, entry, rows, clean=clean):
        before = len(seen)
        seen.update(panel.agents)
        if len(seen) < before + panel.agent_count:
            raise NotClean  # rows of one agent stand apart
        present = int(panel.present.sum())
        scored = (panel.nobs, panel.scored_transitions, panel.scored_agents)
        counts += [panel.agent_count, present, *scored]
        longest, notes = max(longest, panel.z.shape[1]), panel.notes
        contexts = distinct_contexts([contexts, _rows_of(panel)])
    if not seen:
        raise PanelError(f"{path} is empty: it has no rows.")
    agents, present, choices, transitions, scored_agents = map(int, counts)
    return Partition(
        *(path, there.st_size, there.st_mtime_ns, digest, clean),
        *(agents, present, longest, choices, transitions, *_ends(seen)),
        contexts,
        tuple(f"{Path(path).name}: {note}" for note in notes),
        scored_agents,
    )


def require_unchanged(partition: Partition) -> None:
    """Refuse a file that is not the one that was scanned."""
    try:
        now = os.stat(partition.path)
    except OSError as error:
        raise PanelError(f"{partition.path} cannot be read any more: {error}.") from error
    if (now.st_size, now.st_mtime_ns) != (partition.size, partition.modified):
        raise PanelError(
            f"{partition.path} has changed since the data set was scanned: scan it again."
        )


def distinct_contexts(tables: list[np.ndarray]) -> Float[np.ndarray, "C c"]:
    """The distinct rows of tables of covariates."""
    filled = [table for table in tables if table.size]
    return np.unique(np.concatenate(filled), axis=0) if filled else np.zeros((1, 0))


def _rows_of(panel: Panel) -> np.ndarray:
    values = [array[panel.present] for array in panel.covariates.values()]
    return np.stack(values, axis=-1) if values else np.zeros((1, 0))


def _ends(ids: set[Hashable]) -> tuple[Any, Any]:
    try:
        return min(ids), max(ids)  # type: ignore[type-var]
    except TypeError as error:
        raise PanelError(f"agents have ids of several types: {error}.") from error


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
