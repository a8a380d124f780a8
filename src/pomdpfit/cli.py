"""The command line: `pomdpfit reproduce`."""

import json as encoding
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

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


def _read_groups(texts: list[str]) -> list[tuple[int, ...]]:
    try:
        return [tuple(int(word) for word in text.split(",")) for text in texts]
    except ValueError:
        raise typer.BadParameter(
            f"groups are numbers with commas between them, such as 5,6; not {texts}."
        ) from None


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    full: Annotated[
        bool, typer.Option("--full", help="Full panels, many starts, 400 bootstrap replicates.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")] = 0,
    source: Annotated[
        str | None,
        typer.Option(help="Of Rust's data: a folder with his .asc files, download, or econirl."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="One of the parts; repeatable.")] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(help="Further bus groups for Rust's tables, such as 5,6; repeatable."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print results.json at the end.")] = False,
) -> None:
    """Regenerate the paper's tables and figures and Rust's, beside what was published."""
    from pomdpfit._compilation import cache_compilations
    from pomdpfit._progress import progress_bar
    from pomdpfit.replication import FULL, QUICK, TINY  # slow to import: JAX and matplotlib
    from pomdpfit.replication import reproduce as job

    cache_compilations()
    console = Console(stderr=True)
    samples = _read_groups(groups or [])
    plan = TINY if tiny else FULL if full else QUICK
    try:
        with progress_bar() as bar:
            page = job(
                out,
                plan=plan,
                seed=seed,
                source=source,
                only=only or (),
                samples=samples,
                n_jobs=jobs,
                progress=bar,
            )
    except PomdpfitError as error:
        console.print(f"[red]error:[/red] {escape(str(error))}")
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        console.print(f"stopped; what was finished is in {escape(str(out))}")
        raise typer.Exit(130) from None
    if json:
        typer.echo((out / "results.json").read_text())
        return
    _print_findings(out)
    typer.echo(f"the report: {page}")


def _print_findings(out: Path) -> None:
    """What to take home, as in the report."""
    console = Console()
    for finding in encoding.loads((out / "results.json").read_text())["findings"]:
        console.print("- " + escape(finding).replace("**", ""))
