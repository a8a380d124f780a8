"""Finished chunks of a bootstrap as files: JSON, checked before it is believed."""

import json
from collections.abc import Sequence
from pathlib import Path

from pomdpfit._errors import EstimationError
from pomdpfit._write import write_atomically

_MOST_BYTES = 2**30


def write_chunk(folder: Path, k: int, rows: list[dict]) -> None:
    """Keep the rows of chunk k, whole or not at all."""
    write_atomically(folder / _name(k), json.dumps(rows, sort_keys=True).encode())


def _name(k: int) -> str:
    return f"chunk-{k:05d}.json"


def read_chunk(folder: Path | None, k: int, part: Sequence[int], width: int) -> list[dict] | None:
    """A finished chunk, or None; one of a run with fewer replicates is done again."""
    if folder is None or not (folder / _name(k)).exists():
        return None
    path = folder / _name(k)
    if path.stat().st_size > _MOST_BYTES:
        raise EstimationError(f"{path} is damaged: it is too large. Delete it.")
    try:
        rows = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise EstimationError(f"{path} is damaged: {error}. Delete it.") from error
    if not (isinstance(rows, list) and rows and _whole(rows, part[0], width)):
        raise EstimationError(
            f"{path} is damaged: it does not hold the replicates from {part[0]} on. Delete it."
        )
    return rows[: len(part)] if len(rows) >= len(part) else None


def _whole(rows: list, first: int, width: int) -> bool:
    """Whether rows are what `_replicate` returns, one after the other."""
    for b, row in enumerate(rows, first):
        if not (isinstance(row, dict) and row.get("replicate") == b):
            return False
        if not isinstance(row.get("reason"), str):
            return False
        values = row.get("values")
        if row["reason"] == "" and not (isinstance(values, list) and len(values) == width):
            return False
    return True
