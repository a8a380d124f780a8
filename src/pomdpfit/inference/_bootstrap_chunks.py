"""Finished chunks of a bootstrap as files."""

from collections.abc import Sequence
from pathlib import Path

from pomdpfit._kept_rows import are_numbers, read_rows, write_rows


def write_chunk(folder: Path, k: int, rows: list[dict]) -> None:
    """Keep the rows of chunk k, whole or not at all."""
    write_rows(folder / _name(k), rows)


def _name(k: int) -> str:
    return f"chunk-{k:05d}.json"


def read_chunk(folder: Path | None, k: int, part: Sequence[int], width: int) -> list[dict] | None:
    """A finished chunk, or None; one of a run with fewer replicates is done again."""
    if folder is None:
        return None
    whole = lambda rows: _whole(rows, part[0], width)
    rows = read_rows(folder / _name(k), whole, f"the replicates from {part[0]} on")
    return rows[: len(part)] if rows is not None and len(rows) >= len(part) else None


def _whole(rows: list, first: int, width: int) -> bool:
    """Whether rows are what `_replicate` returns, one after the other."""
    for b, row in enumerate(rows, first):
        if not (isinstance(row, dict) and row.get("replicate") == b):
            return False
        if not isinstance(row.get("reason"), str):
            return False
        if row["reason"] == "" and not are_numbers(row.get("values"), width):
            return False
    return True
