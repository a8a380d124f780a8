"""The command line: `pomdpfit reproduce`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pomdpfit._errors import PomdpfitError
from pomdpfit._version import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Structural estimation of partially observable Markov decision processes.",
    pretty_exceptions_enable=False,
)


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


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    agents: Annotated[int, typer.Option(min=1, help="Simulated buses.")] = 3000,
    periods: Annotated[int, typer.Option(min=1, help="Months for each bus.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Simulate the paper's bus model, evaluate and certify its likelihood, and draw it."""
    from pomdpfit._reproduce import reproduce as job  # slow to import: JAX and matplotlib

    console = Console(stderr=True)
    try:
        with console.status("starting") as status:

            def stage(what: str) -> None:
                status.update(what)
                console.print(f"[dim]{what}[/dim]")

            result = job(out, agents=agents, periods=periods, seed=seed, stage=stage)
    except PomdpfitError as error:
        console.print(f"[red]error:[/red] {error}")
        raise typer.Exit(1) from error
    if json:
        typer.echo(result.to_json())
        return
    table = Table("quantity", "value", title="The paper's bus model, simulated at Table I's truth")
    table.add_row("buses x months, seed", f"{agents} x {periods}, {seed}")
    table.add_row("engines replaced", f"{result.replacements:,}")
    table.add_row("residual of the soft Bellman equation", f"{result.residual:.1e}")
    table.add_row("log-likelihood at the truth", f"{result.total:,.4f}")
    table.add_row(
        "   of it observations, choices", f"{result.observation:,.4f}, {result.choice:,.4f}"
    )
    table.add_row("   proven interval", f"[{result.low:,.4f}, {result.high:,.4f}]")
    table.add_row("   estimates inside the bounds", "yes" if result.inside else "NO")
    table.add_row("V known to within", f"{result.value_width:.2g}")
    table.add_row("Q(keep) - Q(replace) known to within", f"{result.difference_width:.2g}")
    Console().print(table)
    typer.echo(f"picture and figures: {out / 'bus.png'}, {out / 'bus.json'}")
