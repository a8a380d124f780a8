"""A report's folder: the page, and beside it every table, every figure and all results."""

import os
from collections.abc import Mapping
from pathlib import Path

from pomdpfit._errors import ReportError, WriteError
from pomdpfit._write import write_atomically
from pomdpfit.report._blocks import Report, Table
from pomdpfit.report._columns import shows_index
from pomdpfit.report._html import render
from pomdpfit.report._json import as_json
from pomdpfit.report._latex import as_latex
from pomdpfit.report._svg import draw

_PROLOG = '<?xml version="1.0" encoding="utf-8"?>\n'


def write_report(report: Report, folder: Path, results: Mapping[str, object]) -> Path:
    """The path of the page that was written, its tables, figures and results beside it.

    Files of the same names are replaced, others in the folder are left alone. The same report and
    results give the same bytes.
    """
    drawings = {figure.name: draw(figure) for figure in report.figures()}
    contents = {f"tables/{table.name}.csv": as_csv(table) for table in report.tables()}
    contents |= {f"tables/{table.name}.tex": as_latex(table) for table in report.tables()}
    contents |= {f"figures/{name}.svg": f"{_PROLOG}{svg}\n" for name, svg in drawings.items()}
    contents["results.json"] = as_json(results)
    contents["report.html"] = render(report, drawings)  # last, for it points to the others
    for name, content in contents.items():  # all is made before anything is written
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Half a surrogate pair, as in names of files, has no UTF-8; JSON reads it from \udc80.
        write_atomically(path, content.encode("utf-8", errors="backslashreplace"))
    return Path(folder) / "report.html"


def write_page(report: Report, path: Path) -> Path:
    """The report as one file with nothing beside it, whole or not at all."""
    refuse_bad_place(path)
    content = render(report, alone=True).encode("utf-8", errors="backslashreplace")
    try:
        write_atomically(path, content)
    except WriteError as error:
        raise ReportError(str(error)) from error
    return path


def refuse_bad_place(path: Path) -> None:
    """Raise where no file can be written, before anything is computed for it."""
    if not os.path.isdir(path.parent):  # pathlib's fails on names that are too long
        raise ReportError(
            f"{path} cannot be written: there is no folder {path.parent}. Make it first, or name "
            "another."
        )
    if os.path.isdir(path):
        raise ReportError(f"{path} cannot be written: it is a folder. Name a file in it.")


def as_csv(table: Table) -> str:
    """The table with every digit, its index as leading columns where that is shown."""
    return table.frame.to_csv(index=shows_index(table.frame), lineterminator="\n")
