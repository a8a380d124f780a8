"""A file becomes a panel, or a refusal that says where and why."""

import dataclasses
import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from pomdpfit._errors import PanelError
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit.data._binary_tables import read_parquet, read_stata
from pomdpfit.data._check_panel import notes_on
from pomdpfit.data._columns import Columns
from pomdpfit.data._repairs import Repair
from pomdpfit.data._table import Table
from pomdpfit.data._text_table import read_text
from pomdpfit.data._text_values import Missing

_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_PARQUET, _STATA = (".parquet", ".pq"), (".dta",)


def read_panel(
    path: str | os.PathLike[str],
    *,
    agent: str,
    time: str,
    observation: str,
    action: str,
    observations: Sequence[Hashable] | None = None,
    actions: Sequence[Hashable] | None = None,
    freq: str | None = None,
    entry: int | Mapping[Hashable, int] = 0,
    group: str | None = None,
    groups: Sequence[Hashable] | None = None,
    covariates: Sequence[str] = (),
    repair: Repair | Sequence[Repair] = (),
    missing: Missing = ("",),
    encoding: str = "utf-8",
    delimiter: str = ",",
    model: Model | None = None,
) -> Panel:
    """A text (.csv, .csv.gz, ...), Parquet or Stata file, one row for each agent and period.

    Columns are named as in `Panel.from_frame`. In text files nothing is guessed: ids stay text
    ("007", "NA"), and a cell has no value if it is empty or one of `missing`, which is for all
    columns but ids and times, or by column: {"reading": ["9"]}. Nothing is clamped, filled or
    dropped, but for what `repair` asks for: `pf.DropRows`, `pf.DropAgents`, `pf.SplitAtGaps`,
    `pf.TopCode`. What was done, and what looks odd, is in `panel.notes`. With a `model`, columns
    that hold its words for observations or actions are read by these, where none are listed.
    """
    labels = (observations, actions, freq, group, groups)
    columns = Columns(agent, time, observation, action, *labels, tuple(covariates))
    table = _table(Path(path), columns, encoding, delimiter, missing, model)
    panel = Panel._from_table(table, repair, entry)
    odd = notes_on(panel)["says"]
    return dataclasses.replace(panel, notes=(*panel.notes, *odd))


def _table(
    path: Path,
    columns: Columns,
    encoding: str,
    delimiter: str,
    missing: Missing,
    model: Model | None,
) -> Table:
    """The file as a table, by the ending of its name."""
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "is not there"
        raise PanelError(f"{path} {what}.")
    name = path.name.lower()
    if name.endswith(_TEXT):
        return read_text(path, columns, encoding, delimiter, missing, model)
    if name.endswith(_PARQUET):
        return read_parquet(path, columns, model)
    if name.endswith(_STATA):
        return read_stata(path, columns, model)
    raise PanelError(
        f"{path}: the ending of the name must be one of {', '.join(_TEXT + _PARQUET + _STATA)}; "
        "read other files with pandas or polars and use pf.Panel.from_frame."
    )
