"""The readings that the PyPI package econirl carries, read as data: the package is not imported.

They are Rust's odometer readings for groups 1 to 4, without the odometer and date of replacements.
A replacement is marked in its calendar month, mostly one to three months after the month that
Rust's own dating gives, and mileage can only be counted from that month's reading.
"""

import hashlib
from importlib import metadata

import numpy as np
import pandas as pd

from pomdpfit._errors import DatasetError
from pomdpfit.datasets._bus_record import BusRecord, Replacement

GROUPS = (1, 2, 3, 4)
_FILE = "econirl/datasets/rust_bus_original.csv"
_COLUMNS = ["group", "bus_id", "period", "mileage", "replaced"]
_SHA256 = "aaa63068ba4cc0e6fc0ee405447a53af2323e186e5af0d94ee7cfd7de16a1e60"


def read_groups(groups: tuple[int, ...]) -> list[BusRecord]:
    """The buses of these groups, numbered as econirl numbers them."""
    missing = [g for g in groups if g not in GROUPS]
    if missing:
        raise DatasetError(f"econirl carries groups 1 to 4, not group {missing[0]}.")
    frame = _checked_frame()
    rows = frame[frame["group"].isin(groups)]
    return [_record(part) for _, part in rows.groupby("bus_id", sort=True)]


def _checked_frame() -> pd.DataFrame:
    try:
        path = metadata.distribution("econirl").locate_file(_FILE)
    except metadata.PackageNotFoundError:
        raise DatasetError(
            "the package econirl, which carries the readings of groups 1 to 4, is not installed: "
            "pip install --no-deps econirl (its data file is all that is read)."
        ) from None
    try:
        frame = pd.read_csv(str(path))[_COLUMNS]
    except (OSError, KeyError, ValueError) as error:
        raise DatasetError(f"econirl's {_FILE} cannot be read: {error}.") from error
    text = frame.to_csv(index=False, lineterminator="\n")
    found = hashlib.sha256(text.encode()).hexdigest()
    if found != _SHA256:
        version = metadata.version("econirl")
        raise DatasetError(
            f"econirl {version} carries other readings than are known here: the SHA-256 of "
            f"{', '.join(_COLUMNS)} is {found}, not {_SHA256}. Version 0.1.1 has the known ones."
        )
    return frame


def _record(part: pd.DataFrame) -> BusRecord:
    part = part.sort_values("period")
    odometer = np.round(1000 * part["mileage"].to_numpy())
    rows = np.flatnonzero(part["replaced"].to_numpy())
    return BusRecord(
        bus=int(part["bus_id"].iloc[0]),
        group=int(part["group"].iloc[0]),
        first_month=None,
        odometer=odometer,
        replacements=tuple(Replacement(int(t), float(odometer[t])) for t in rows),
    )
