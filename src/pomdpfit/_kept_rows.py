"""Rows of finished work as files: sealed JSON, checked before it is believed."""

from collections.abc import Callable
from pathlib import Path

from pomdpfit._checkpoint import damaged
from pomdpfit._sealed import UNREADABLE, read_sealed, sealed
from pomdpfit._write import write_atomically

_MOST_BYTES = 2**30


def write_rows(path: Path, rows: list[dict]) -> None:
    """Keep the rows, whole or not at all."""
    write_atomically(path, sealed({"rows": rows}))


def read_rows(path: Path, whole: Callable[[list], bool], what: str) -> list[dict] | None:
    """The rows in a file, None where there is none; refused unless they are `whole`.

    what  that they should hold: "the replicates from 10 on"
    """
    if not path.exists():
        return None
    try:
        rows = read_sealed(path, _MOST_BYTES)["rows"]
        if not (isinstance(rows, list) and rows and whole(rows)):
            raise ValueError(f"it does not hold {what}.")
    except UNREADABLE as error:
        raise damaged(path, error) from error
    return rows


def are_numbers(values: object, count: int) -> bool:
    """Whether these are so many floating-point numbers, as JSON gives them."""
    if not isinstance(values, list) or len(values) != count:
        return False
    return all(isinstance(value, float) for value in values)
