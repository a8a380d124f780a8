"""`pomdpfit`: its commands in the order in which they are used."""

import os
from typing import Annotated

import typer

from pomdpfit._version import __version__
from pomdpfit.cli._bench import bench
from pomdpfit.cli._check import check
from pomdpfit.cli._common import conducted
from pomdpfit.cli._compare import compare
from pomdpfit.cli._counterfactual import counterfactual
from pomdpfit.cli._design import design
from pomdpfit.cli._fit import fit
from pomdpfit.cli._report import report
from pomdpfit.cli._reproduce import reproduce
from pomdpfit.cli._show import show
from pomdpfit.cli._simulate import simulate

_CODES = (
    "Exit codes: 0 all is well; 1 the input was refused; 2 the command was not understood; 3 the "
    "fit did not converge (it is saved all the same); 70 a bug; 130 interrupted."
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Structural estimation of partially observable Markov decision processes.",
    epilog=_CODES,
    pretty_exceptions_enable=False,
)
_COMMANDS = (
    *(check, simulate, design, fit, show, report, compare, counterfactual, reproduce, bench),
)
for _command in _COMMANDS:
    app.command(epilog=_CODES)(conducted(_command))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    """Structural estimation of partially observable Markov decision processes."""
    # XLA alarms people with "Very slow compile?" where it is merely a large model. Read by JAX when
    # it is imported, which no command has done yet; errors are raised all the same.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
