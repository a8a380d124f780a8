"""One pass through a data set: every row is checked, and what all files have in common is found."""

import dataclasses
import itertools
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pomdpfit._errors import PanelError
from pomdpfit._parallel import run_parallel
from pomdpfit._progress import Progress, callback
from pomdpfit.data._binary_tables import text_columns
from pomdpfit.data._columns import Columns
from pomdpfit.data._model_words import words_of
from pomdpfit.streaming._partition import Partition, partition_panels, survey
from pomdpfit.streaming._scan import CHUNK_ROWS, PanelScan


def scan_parquet(
    path: str | os.PathLike[str],
    columns: Columns,
    entry: int | Mapping[Hashable, int],
    n_jobs: int | None,
    progress: Progress | bool | None,
    model: Any = None,
) -> PanelScan:
    """The data set in a folder (or file), with its files in the order of their names."""
    if columns.group is not None and columns.groups is None:
        raise PanelError(
            "list the groups of a data set in the model's order, groups=[...]: no single file "
            "need have all of them."
        )
    files = _files(Path(path))
    columns = _with_model_words(columns, files[0], model)
    tell = callback(progress)
    tell("scan", 0, len(files))
    found: list[Partition] = []
    shared = columns, entry, CHUNK_ROWS
    for partition in run_parallel(survey, shared, [(str(file),) for file in files], n_jobs):
        found.append(partition)
        tell("scan", len(found), len(files))
    scan = PanelScan(str(path), columns, tuple(found), entry)
    _refuse_agents_in_two_files(scan)
    return scan


def _with_model_words(columns: Columns, file: Path, model: Any) -> Columns:
    """The columns with the model's labels for those that hold text in this file."""
    words = words_of(columns, model)
    if not words:
        return columns
    textual = text_columns(file)
    found: dict[str, Any] = {
        f"{k}s": labels for k, labels in words.items() if getattr(columns, k) in textual
    }
    return dataclasses.replace(columns, **found)


def _files(path: Path) -> Sequence[Path]:
    """All Parquet files below a folder; those whose names begin with a dot or _ are not data."""
    if path.is_file():
        return [path.resolve()]
    if not path.is_dir():
        raise PanelError(f"{path} is not there.")
    hidden = lambda file: any(part[0] in "._" for part in file.relative_to(path).parts)
    named = [*path.rglob("*.parquet"), *path.rglob("*.pq")]
    files = sorted(file.resolve() for file in named if not hidden(file))
    if not files:
        raise PanelError(f"{path} holds no file whose name ends in .parquet or .pq.")
    return files


def _refuse_agents_in_two_files(scan: PanelScan) -> None:
    """An agent's rows must be in one file: beliefs go from each row to the next."""
    parts = scan.partitions
    if len({type(part.first) for part in parts}) > 1:
        kinds = sorted({type(part.first).__name__ for part in parts})
        raise PanelError(f"agents have ids of several types in {scan.path}: {', '.join(kinds)}.")
    by_id = sorted(parts, key=lambda part: part.first)  # type: ignore[arg-type,return-value]
    apart = all(left.last < right.first for left, right in itertools.pairwise(by_id))  # type: ignore[operator]
    if apart:
        return
    where: dict[int, str] = {}
    for part in parts:
        for agent in _ids(scan, part):
            other = where.setdefault(hash(agent), part.path)
            if other != part.path:
                raise PanelError(
                    f"agent {agent!r} has rows in {other} and in {part.path}: all rows of an agent "
                    "must be in one file."
                )


def _ids(scan: PanelScan, part: Partition) -> Iterable[Hashable]:
    panels = partition_panels(part.path, scan.columns, scan.entry, CHUNK_ROWS, clean=part.clean)
    return (agent for panel in panels for agent in panel.agents)
