"""Panels from files, for every command that reads data."""

import csv
import dataclasses
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pomdpfit._errors import ModelError
from pomdpfit.cli._common import Usage

if TYPE_CHECKING:
    from pomdpfit._panel import Panel
    from pomdpfit.data._repairs import Repair

_LONGEST_HEADER = 1 << 16


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which column holds what, as the options name them."""

    agent: str | None
    time: str | None
    observation: str | None
    action: str | None
    observations: str | Sequence[str] | None = None
    actions: str | Sequence[str] | None = None
    freq: str | None = None
    group: str | None = None
    covariates: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Means:
    """How a file is written and what is repaired in it, as the options say."""

    repair: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    delimiter: str = ","
    encoding: str = "utf-8"


def read_data(
    path: Path | None, columns: Columns, model: Any = None, means: Means | None = None
) -> "Panel":
    """The panel in a file, with what the model reads beside z; nothing is guessed or filled.

    Labels that are not listed are the model's, where the file holds these.
    """
    from pomdpfit.data._read_panel import read_panel

    if path is None:
        raise Usage(
            "there are no data: name a file (DATA), or let the model file name it, as in "
            '[data] file = "panel.csv".'
        )
    means = Means() if means is None else means
    delimiter, repairs = read_delimiter(means.delimiter), _read_repairs(means.repair)
    groups = None if model is None else _require_named(columns, model)

    needed: dict[str, Any] = {
        n: getattr(columns, n) for n in ("agent", "time", "observation", "action")
    }
    missing = [f"--{name} COL" for name, column in needed.items() if column is None]
    if missing and path.is_file():
        there = _has(path, delimiter, means.encoding)
        raise Usage(f"{there}: say which column is which with {' '.join(missing)}.")
    labels: dict[str, Any] = {
        name: _labels(getattr(columns, name)) for name in ("observations", "actions")
    }
    values = [needed["observation"], needed["action"], *columns.covariates]
    further: dict[str, Any] = {"freq": columns.freq, "group": columns.group, "groups": groups}
    further |= {**needed, **labels, "covariates": columns.covariates, "model": model}
    if path.is_dir():
        return _scanned(path, means, further)
    return read_panel(
        path,
        **further,
        repair=repairs,
        missing=_read_missing(means.missing, values),
        delimiter=delimiter,
        encoding=means.encoding,
    )


def _scanned(path: Path, means: Means, options: dict[str, Any]) -> "Panel":
    """A folder is a data set, which is streamed."""
    from pomdpfit._panel import Panel

    if means != Means():
        raise Usage(
            f"{path} is a folder, whose Parquet files are read as they are: --repair, --missing, "
            "--delimiter and --encoding are for single files."
        )
    missing = [name for name in ("agent", "time", "observation", "action") if not options[name]]
    if missing:
        wanted = " ".join(f"--{name} COL" for name in missing)
        raise Usage(f"{path}: say which column is which with {wanted}.")
    return cast(Panel, Panel.scan_parquet(path, **options))


def _require_named(columns: Columns, model: Any) -> "tuple[Hashable, ...] | None":
    """The model's groups; refused unless columns are named for what the model reads, and no others.

    A column that the model does not read would change nothing, which nobody means to ask for.
    """
    groups = getattr(model, "group_labels", lambda: None)()
    if groups is not None and columns.group is None:
        names = ", ".join(map(str, groups))
        raise Usage(f"the model has groups ({names}): name their column with --group COL.")
    if groups is None and columns.group is not None:
        raise Usage(
            f"--group {columns.group}: the model has no groups. A model file says in [groups] "
            "which there are, and which parameters each has for itself."
        )
    read = [name for name in model.space().covariates if name != "group"]
    for name in read:
        if name not in columns.covariates:
            raise Usage(f"the model reads the covariate {name}: give --covariate {name}.")
    for name in columns.covariates:
        if name not in read:
            there = f"it reads {', '.join(read)}" if read else "it reads none"
            raise Usage(f"--covariate {name}: the model reads no such covariate; {there}.")
    return groups


def _has(path: Path, delimiter: str, encoding: str) -> str:
    """What the file has, as far as its first line tells."""
    if path.suffix.lower() not in {".csv", ".txt"}:
        return str(path)
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        with path.open(encoding=encoding, errors="replace", newline="") as file:
            first = next(csv.reader([file.readline(_LONGEST_HEADER)], delimiter=delimiter), [])
    except (LookupError, TypeError, ValueError):  # no such encoding, or no such delimiter
        return str(path)
    return f"{path} has the columns {', '.join(first)}"


def _labels(given: str | Sequence[str] | None) -> list[str] | None:
    """Labels with commas between them, as on the command line, or a list, as in a file."""
    if given is None or not isinstance(given, str):
        return None if given is None else list(given)
    return [label.strip() for label in given.split(",")]


def read_delimiter(given: str) -> str:
    """One character; a tab may be written \\t or tab."""
    return "\t" if given in {"\\t", "tab"} else given


def _read_repairs(given: Sequence[str]) -> "list[Repair]":
    """The repairs asked for, in order."""
    from pomdpfit.model_files._study import read_repairs

    try:
        return read_repairs(given, "--repair")
    except ModelError as error:
        raise Usage(str(error)) from None


def _read_missing(given: Sequence[str], columns: Sequence[str]) -> dict[str, list[str]]:
    """Words for no value by column: COLUMN=TEXT for one of them, TEXT for all of `columns`."""
    missing: dict[str, list[str]] = {}
    for text in given:
        name, equals, word = text.partition("=")
        alone = bool(equals) and name in columns
        for column in [name] if alone else columns:
            missing.setdefault(column, []).append(word if alone else text)
    return missing
