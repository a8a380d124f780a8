"""`pomdpfit report`: a saved fit as one page."""

from pathlib import Path
from typing import Annotated

import typer

from pomdpfit.cli._common import prepare, print_json, require_folder
from pomdpfit.cli._options import Debug, Json, OwnModel


def report(
    fit: Annotated[Path, typer.Argument(metavar="FIT", help="A fit that was saved.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    other: Annotated[
        list[Path] | None,
        typer.Option(metavar="FIT", help="A fit to the same data to compare with; repeatable."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    rank: Annotated[
        bool, typer.Option("--rank", help="Ask what no data such as these could tell: slower.")
    ] = False,
    model: OwnModel = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a self-contained HTML page: estimates, maxima, beliefs, policy, fit, doubts."""
    require_folder(out)
    from pomdpfit.cli._compare import names_of
    from pomdpfit.cli._saved import load_fit_or_warn
    from pomdpfit.storage import load

    prepare()
    estimate = load_fit_or_warn(fit, model)
    further = other or []
    others = {n: load(path) for n, path in zip(names_of(further), further, strict=True)}
    page = estimate.report(out, title=title, others=others, rank=rank)
    if json:
        print_json({"out": page})
    else:
        typer.echo(f"the report: {page}")
