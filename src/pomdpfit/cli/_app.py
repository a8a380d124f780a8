"""`pomdpfit`: its commands in the order in which they are used."""

import os
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperArgument, TyperCommand, TyperOption

from pomdpfit._version import __version__
from pomdpfit.cli._bench import bench
from pomdpfit.cli._check import check
from pomdpfit.cli._common import conducted
from pomdpfit.cli._compare import compare
from pomdpfit.cli._counterfactual import counterfactual
from pomdpfit.cli._design import design
from pomdpfit.cli._fit import fit
from pomdpfit.cli._init import init
from pomdpfit.cli._report import report
from pomdpfit.cli._reproduce import reproduce
from pomdpfit.cli._show import show
from pomdpfit.cli._simulate import simulate
from pomdpfit.cli._study import reads_studies

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
    *(init, check, simulate, design, fit, show, report, compare, counterfactual, reproduce, bench),
)
_WITH_STUDIES = (check, simulate, design, fit)


class _Command(TyperCommand):
    """A command whose help shows brackets as they stand, not as rich's markup."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.help = escape(self.help or "")
        for parameter in self.params:
            if isinstance(parameter, TyperArgument | TyperOption) and parameter.help:
                parameter.help = escape(parameter.help)


for _command in _COMMANDS:
    _whole = reads_studies(_command) if _command in _WITH_STUDIES else _command
    app.command(cls=_Command, epilog=_CODES)(conducted(_whole))


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
