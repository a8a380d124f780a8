"""python -m benchmarks [THEME ...] [--page] [--tiny]: the table of ratios, as JSON and as a page.

Themes not named keep the figures of an earlier run; each has the date and machine of its own.
"""

import argparse
import importlib
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.machine import facts
from benchmarks.page import DOCS, TITLES, write_page
from benchmarks.row import Row, figure
from benchmarks.size import FULL, TINY, Size
from pomdpfit._precision import require_float64
from pomdpfit.programs import forget_programs

RESULTS = Path(__file__).parent / "results.json"
_COLOURS = {None: "", True: "[green]met[/green]", False: "[red]not met[/red]"}


def main(words: list[str] | None = None, results: Path = RESULTS, docs: Path = DOCS) -> None:
    """Measure, print, and write."""
    require_float64()  # before anybody asks JAX for a device, as in a script that begins with a fit
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("themes", nargs="*", metavar="THEME", help=", ".join(TITLES))
    parser.add_argument("--page", action="store_true", help="write the page again, measure nothing")
    parser.add_argument("--device", type=Path, help="figures of `benchmarks.gpu`, for the page")
    parser.add_argument("--tiny", action="store_true", help="tiny problems, to try the machinery")
    chosen = parser.parse_args(words)
    here = [theme for theme in TITLES if theme != "device"]
    unknown = sorted(set(chosen.themes) - set(here))
    if unknown:
        parser.error(f"there is no theme {unknown[0]!r}; the themes are {', '.join(here)}.")
    kept = json.loads(results.read_text()) if results.exists() else {}
    console = Console()
    if not chosen.page:
        for theme in chosen.themes or here:
            kept[theme] = measure(theme, TINY if chosen.tiny else FULL, console)
            results.write_text(json.dumps(kept, indent=1) + "\n")
    if chosen.device:
        kept["device"] = json.loads(chosen.device.read_text())
        results.write_text(json.dumps(kept, indent=1) + "\n")
    console.print(f"written: {write_page(kept, docs).name}, {results.name}")


def measure(theme: str, size: Size, console: Console) -> dict[str, Any]:
    """The rows of a theme, printed and ready for JSON."""
    began = time.perf_counter()
    rows: list[Row] = importlib.import_module(f"benchmarks.{theme}").rows(size)
    forget_programs()  # compiled code of a whole run would take too many memory maps
    console.print(as_table(TITLES[theme], rows))
    took = {"took": f"{time.perf_counter() - began:.0f} s"}
    return {"facts": {**facts(), **took}, "rows": [row.as_json() for row in rows]}


def as_table(title: str, rows: list[Row]) -> Table:
    """For the terminal."""
    table = Table(title=title, title_justify="left")
    for name in ("what", "measured", "unit", "target", "", "note"):
        table.add_column(name, justify="right" if name == "measured" else "left")
    for row in rows:
        table.add_row(
            escape(row.name),
            figure(row.measured),
            row.unit,
            row.asked,
            _COLOURS[row.met],
            escape(row.note),
        )
    return table


if __name__ == "__main__":
    main()
