"""`pomdpfit bench`: the benchmarks of a source checkout."""

import json as encoding
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from pomdpfit._errors import PomdpfitError
from pomdpfit.cli._common import Code, Interrupted
from pomdpfit.cli._options import Debug, Json


def bench(
    themes: Annotated[
        list[str] | None, typer.Argument(metavar="THEME", help="Themes; all if none.")
    ] = None,
    page: Annotated[bool, typer.Option("--page", help="Write the page again, no more.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="Tiny problems, as a trial.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> Code | None:
    """Measure speed against other packages; needs a source checkout (`python -m benchmarks`)."""
    root = _checkout([Path.cwd(), Path(__file__).resolve().parents[3]])
    flags = ["--page"] * page + ["--tiny"] * tiny
    command = [sys.executable, "-m", "benchmarks", *(themes or []), *flags]
    paths = [str(root / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        # What it prints is for people: with --json it must not be on the standard output.
        ended = subprocess.run(
            command, cwd=root, env=environment, check=False, stdout=sys.stderr if json else None
        )
    except KeyboardInterrupt:
        raise Interrupted("themes that were finished are in benchmarks/results.json.") from None
    if ended.returncode == Code.USAGE:
        return Code.USAGE
    if ended.returncode != 0:
        raise RuntimeError(f"the benchmarks ended with code {ended.returncode}")
    if json:
        results = encoding.loads((root / "benchmarks" / "results.json").read_text())
        typer.echo(encoding.dumps(results, indent=2, sort_keys=True))
    return None


def _checkout(places: list[Path]) -> Path:
    """The first of these folders that is a source checkout."""
    for place in places:
        ours = place / "src" / "pomdpfit" / "__init__.py"
        if ours.is_file() and (place / "benchmarks" / "__main__.py").is_file():
            return place
    raise PomdpfitError(
        "the benchmarks come with the source, not with the installed package: clone the "
        f"repository and run this in its folder. There is none in {places[0]}."
    )
