"""Rust's raw .asc files: which there are, how they are laid out, and whether a copy is sound.

Each file is one column of numbers: for every bus in turn eleven numbers that describe it, then one
odometer reading a month. Copies in circulation differ in white space, so the checksum is that of
the numbers, one a line.
"""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np

from pomdpfit._errors import DatasetError
from pomdpfit._types import Float
from pomdpfit.datasets._bus_record import BusRecord, Replacement

HEADER = 11  # numbers that describe a bus
_BUS, _ODOMETERS, _FIRST_MONTH, _FIRST_YEAR = 0, (5, 8), 9, 10


@dataclasses.dataclass(frozen=True)
class RawFile:
    """One group of buses of the same make."""

    name: str
    months: int
    buses: int
    make: str
    sha256: str


# Groups 1 to 8 are Rust's; the ninth he left out.
RAW_FILES = {
    1: RawFile(
        "g870.asc",
        25,
        15,
        "Grumman 870 (1983)",
        "81d3abb5d384b058908f7a121bd7e487301b5a3595bcfd92ec1e9bfc4a6f3ffc",
    ),
    2: RawFile(
        "rt50.asc",
        49,
        4,
        "Chance RT-50 (1981)",
        "85bbbb516be9e42584f47308edaa3426e5342ee103b4d466b43a646cfc39a103",
    ),
    3: RawFile(
        "t8h203.asc",
        70,
        48,
        "GMC T8H203 (1979)",
        "4822dbff907431f8aed173cdabb51a2d2a904aa1061c32bada1b81903a38019e",
    ),
    4: RawFile(
        "a530875.asc",
        117,
        37,
        "GMC A5308 (1975)",
        "dd31c09d0238b1f13844d57fad42af9aa9bf268c34f043e340469c412c692080",
    ),
    5: RawFile(
        "a530874.asc",
        126,
        12,
        "GMC A5308 (1974)",
        "2c970ded0a7639c197445b1466cdcc2277abb9fc91fdc9ca8d8014f25ca9b8ec",
    ),
    6: RawFile(
        "a452374.asc",
        126,
        10,
        "GMC A4523 (1974)",
        "436e41421b74e42ba47cdf327e0be41a18c260cef845175ac9758622b840a849",
    ),
    7: RawFile(
        "a530872.asc",
        126,
        18,
        "GMC A5308 (1972)",
        "fa81d50a02954d4319fd406c5425ea15f040e9b71d3e878d951eedc78f4f2f44",
    ),
    8: RawFile(
        "a452372.asc",
        126,
        18,
        "GMC A4523 (1972)",
        "540ffd24ae6db5c2deb7908d479b08ba4a9f12657d8a27814310c88d0702cc9f",
    ),
    9: RawFile(
        "d309.asc",
        99,
        4,
        "Davidson 309 (1977)",
        "ce39b86ebcd253a07f35d36a38a0b14085315a1e3df9c9d960436fa5721489ed",
    ),
}


def read_group(folder: Path, group: int) -> list[BusRecord]:
    """The buses of one group, from a file whose numbers have been checked."""
    numbers = checked_numbers(folder / RAW_FILES[group].name, group)
    return [_record(row, group) for row in numbers.reshape(RAW_FILES[group].buses, -1)]


def checked_numbers(path: Path, group: int) -> Float[np.ndarray, "n"]:
    """All numbers of a raw file; refuses what is not Rust's file to the last number."""
    known = RAW_FILES[group]
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        raise DatasetError(
            f"there is no {known.name} in {path.parent}: group {group} ({known.make}) cannot be "
            "read. Put Rust's nine .asc files there, or name another source."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read as text: {error}.") from error
    try:
        numbers = np.array([float(word) for word in text.split()])
    except ValueError as error:
        raise DatasetError(f"{path} must hold numbers alone, one a line: {error}.") from error
    found, expected = checksum(numbers), (HEADER + known.months) * known.buses
    if found != known.sha256:
        size = (
            "as many as it should"
            if len(numbers) == expected
            else f"where {expected} belong ({known.buses} buses of {HEADER + known.months})"
        )
        raise DatasetError(
            f"{path} is not Rust's file: it holds {len(numbers)} numbers, {size}, and the SHA-256 "
            f"of its numbers is {found}, not {known.sha256}. Fetch it again, or delete it."
        )
    return numbers


def checksum(numbers: Float[np.ndarray, "n"]) -> str:
    """SHA-256 of the numbers, one a line: the same for all spacings and line ends."""
    return hashlib.sha256("\n".join(f"{n:.15g}" for n in numbers).encode()).hexdigest()


def _record(row: Float[np.ndarray, "n"], group: int) -> BusRecord:
    """Rust's dating: replaced in the last month whose reading is below the odometer of the work."""
    odometer = row[HEADER:]
    replacements = [
        Replacement(row=int(np.searchsorted(odometer, row[k])) - 1, odometer=float(row[k]))
        for k in _ODOMETERS
        if row[k] > 0
    ]
    return BusRecord(
        bus=int(row[_BUS]),
        group=group,
        first_month=f"19{int(row[_FIRST_YEAR]):02d}-{int(row[_FIRST_MONTH]):02d}",
        odometer=odometer,
        replacements=tuple(replacements),
    )
