"""Finished chunks of replicates as files: sealed JSON, checked before it is believed."""

from collections.abc import Sequence
from pathlib import Path

from pomdpfit._checkpoint import damaged
from pomdpfit._sealed import UNREADABLE, read_sealed, sealed
from pomdpfit._write import write_atomically

_MOST_BYTES = 2**30


def write_chunk(folder: Path, k: int, rows: list[dict]) -> None:
    """Keep the rows of chunk k, whole or not at all."""
    write_atomically(folder / _name(k), sealed({"rows": rows}))


def _name(k: int) -> str:
    return f"chunk-{k:05d}.json"


def read_chunk(folder: Path | None, k: int, part: Sequence[int], width: int) -> list[dict] | None:
    """A finished chunk, or None; one of a run with fewer replicates is done again."""
    if folder is None or not (folder / _name(k)).exists():
        return None
    path = folder / _name(k)
    try:
        rows = read_sealed(path, _MOST_BYTES)["rows"]
        if not (isinstance(rows, list) and rows and _whole(rows, part[0], width)):
            raise ValueError(f"it does not hold the replicates from {part[0]} on.")
    except UNREADABLE as error:
        raise damaged(path, error) from error
    return rows[: len(part)] if len(rows) >= len(part) else None


def _whole(rows: list, first: int, width: int) -> bool:
    """Whether rows are what `_replicate` returns, one after the other."""
    for b, row in enumerate(rows, first):
        if not (isinstance(row, dict) and row.get("replicate") == b):
            return False
        if not isinstance(row.get("reason"), str):
            return False
        if row["reason"]:
            continue
        values = row.get("values")
        if not (isinstance(values, list) and len(values) == width):
            return False
        if not all(isinstance(value, float) for value in values):
            return False
    return True
