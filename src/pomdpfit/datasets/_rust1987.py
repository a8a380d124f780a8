"""Rust's (1987) bus data: monthly mileage and engine replacements of the Madison bus company."""

import dataclasses
import os
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from pomdpfit._errors import DatasetError
from pomdpfit._panel import Panel
from pomdpfit.datasets import _econirl
from pomdpfit.datasets._bus_record import BusRecord
from pomdpfit.datasets._conventions import RUST, Conventions
from pomdpfit.datasets._download import downloaded
from pomdpfit.datasets._engine_panel import (
    HIGHEST_MILEAGE,
    highest_increment,
    make_panel,
    mileage_bin,
)
from pomdpfit.datasets._raw_files import RAW_FILES, read_group

FOLDER = "POMDPFIT_RUST1987"
_ODOMETER = "dated by the odometer at the work, as Rust does"
_CALENDAR = "dated by calendar month, which is not Rust's dating: his digits do not come out"
_INSTEAD = (
    "These are econirl's readings instead, which date replacements by calendar month: Rust's "
    "digits do not come out of them."
)


@dataclasses.dataclass(frozen=True, eq=False)
class Rust1987:
    """A tidy frame, the panel made from it, and where they came from.

    `frame` has a row for each bus and month: bus, group, month (counted from 1), date, odometer,
    engine, mileage since the engine was new, z, replaced.
    """

    frame: pd.DataFrame = dataclasses.field(repr=False)
    panel: Panel
    bins: int
    groups: tuple[int, ...]
    source: str
    dating: str
    conventions: Conventions
    records: tuple[BusRecord, ...] = dataclasses.field(repr=False)

    @property
    def width(self) -> float:
        """Miles in a bin."""
        return HIGHEST_MILEAGE / self.bins

    @property
    def increments(self) -> int:
        """How many increments (0, 1, ...) a model of this panel needs."""
        return 1 + highest_increment(self.panel)

    @property
    def reset(self) -> str:
        """The option of the engine models that goes with the conventions."""
        return self.conventions.reset

    def under(self, conventions: Conventions) -> "Rust1987":
        """The same readings as a panel under other conventions."""
        return _assemble(
            self.records, self.bins, self.groups, self.source, self.dating, conventions
        )


def rust1987(
    groups: int | Iterable[int] = 4,
    bins: int = 175,
    source: str | Path | None = None,
    conventions: Conventions = RUST,
) -> Rust1987:
    """Rust's readings as a frame and a panel: `pf.datasets.rust1987(groups=[3, 4], bins=90)`.

    groups       1 to 8 are Rust's; 9 is the file that he left out
    bins         of mileage up to 450,000 miles: 90 (Table IX) or 175 (Table X), or any other number
    source       a folder with his .asc files; "download" (once, into the user's cache); "econirl"
                 (groups 1 to 4 as that package carries them). By default the folder that the
                 environment variable POMDPFIT_RUST1987 names, else a download, else econirl
    conventions  what is scored and how: `datasets.RUST` gives his digits, `datasets.CHANG` are
                 those of the paper, `datasets.Conventions(...)` any other
    """
    chosen = _checked_groups(groups)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 2:
        raise DatasetError(f"bins must be a whole number of at least 2, but it is {bins!r}.")
    if not isinstance(conventions, Conventions):
        raise DatasetError(
            "conventions must be an object such as datasets.RUST or datasets.Conventions(...), "
            f"but it is {conventions!r}."
        )
    if not (source is None or isinstance(source, str | Path)):
        raise DatasetError(f"source must be a folder or a word, but it is {source!r}.")
    records, told, dating = _find(chosen, source)
    return _assemble(tuple(records), int(bins), chosen, told, dating, conventions)


def _checked_groups(groups: int | Iterable[int]) -> tuple[int, ...]:
    chosen = tuple(groups) if isinstance(groups, Iterable) else (groups,)
    whole = all(isinstance(g, int | np.integer) and not isinstance(g, bool) for g in chosen)
    if not (whole and chosen and set(chosen) <= set(RAW_FILES) and len(set(chosen)) == len(chosen)):
        raise DatasetError(
            f"groups must be different numbers from 1 to {max(RAW_FILES)}, but they are {chosen}."
        )
    return tuple(int(g) for g in chosen)


def _find(groups: tuple[int, ...], source: str | Path | None) -> tuple[list[BusRecord], str, str]:
    """The records, their source and their dating."""
    if source is None and os.environ.get(FOLDER):
        source = Path(os.environ[FOLDER])
    if source is None:
        reasons = []
        for attempt in ("download", "econirl"):
            try:
                found = _find(groups, attempt)
            except DatasetError as error:
                reasons.append(str(error))
                continue
            if attempt == "econirl":
                warnings.warn(
                    f"Rust's raw files are not at hand ({reasons[0]}) {_INSTEAD}", stacklevel=3
                )
            return found
        raise DatasetError(
            f"Rust's data are nowhere to be found. {FOLDER} names no folder with his .asc files; "
            + " And ".join(reasons)
        )
    if source == "econirl":
        return _econirl.read_groups(groups), "readings carried by econirl", _CALENDAR
    if source == "download":
        folder, told = downloaded(groups), "Rust's raw files, downloaded"
    else:
        folder, told = Path(source), "Rust's raw files"
        if not folder.is_dir():
            raise DatasetError(
                f"there is no folder {folder}. source must be a folder with Rust's .asc files, "
                f'"download" or "econirl" (and {FOLDER}, where it is set, a folder).'
            )
    records = [record for group in groups for record in read_group(folder, group)]
    return records, told, _ODOMETER


def _assemble(
    records: tuple[BusRecord, ...],
    bins: int,
    groups: tuple[int, ...],
    source: str,
    dating: str,
    conventions: Conventions,
) -> Rust1987:
    named = ", ".join(map(str, groups))
    notes = (
        f"Rust (1987), group{'s' if len(groups) > 1 else ''} {named}, {bins} bins: {source}; "
        f"replacements {dating}",
        str(conventions),
    )
    panel = dataclasses.replace(make_panel(records, bins, conventions), notes=notes)
    if len(groups) > 1:
        group = {record.bus: record.group for record in records}
        bus = lambda agent: agent[0] if isinstance(agent, tuple) else agent
        panel = panel.with_groups([group[bus(agent)] for agent in panel.agents], groups)
    frame = pd.concat([_frame(record, bins) for record in records], ignore_index=True)
    return Rust1987(frame, panel, bins, groups, source, dating, conventions, records)


def _frame(record: BusRecord, bins: int) -> pd.DataFrame:
    T = len(record.odometer)
    start = record.first_month
    date = (
        pd.period_range(start, periods=T, freq="M")
        if start
        else pd.PeriodIndex([pd.NaT] * T, freq="M")
    )
    return pd.DataFrame(
        {
            "bus": record.bus,
            "group": record.group,
            "month": np.arange(1, T + 1),
            "date": date,
            "odometer": record.odometer,
            "engine": record.engine,
            "mileage": record.mileage,
            "z": mileage_bin(record.mileage, bins),
            "replaced": record.replaced,
        }
    )
