"""`pomdpfit show`: the summary of a saved fit."""

from pathlib import Path
from typing import Annotated

import typer

from pomdpfit.cli._common import prepare, print_json
from pomdpfit.cli._options import Debug, Json, OwnModel


def show(
    fit: Annotated[Path, typer.Argument(metavar="FIT", help="A fit that was saved.")],
    model: OwnModel = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the summary of a saved fit; no code in the file is run."""
    from pomdpfit.cli._documents import estimate_document
    from pomdpfit.cli._saved import load_fit

    prepare()
    estimate = load_fit(fit, model)
    if json:
        print_json(estimate_document(estimate))
    else:
        typer.echo(str(estimate.summary()))
