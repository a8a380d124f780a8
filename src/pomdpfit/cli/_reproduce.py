"""`pomdpfit reproduce`: the paper's tables and figures, beside what was published."""

import json as encoding
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from pomdpfit.cli._common import Interrupted, Usage, prepare
from pomdpfit.cli._options import Debug, Json, Seed


def _read_groups(texts: list[str]) -> list[tuple[int, ...]]:
    try:
        return [tuple(int(word) for word in text.split(",")) for text in texts]
    except ValueError:
        raise Usage(
            f"groups are numbers with commas between them, such as 5,6; not {texts}."
        ) from None


def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    full: Annotated[
        bool, typer.Option("--full", help="Full panels, many starts, 400 bootstrap replicates.")
    ] = False,
    seed: Seed = 0,
    source: Annotated[
        str | None,
        typer.Option(help="Of Rust's data: a folder with his .asc files, download, or econirl."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="One of the parts; repeatable.")] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also the other bus groups, which take as long as the rest."),
    ] = False,
    groups: Annotated[
        list[str] | None,
        typer.Option(help="Further bus groups for Rust's tables, such as 5,6; repeatable."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True)] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Regenerate the paper's tables and figures and Rust's, beside what was published."""
    samples = _read_groups(groups or [])
    if only and everything:
        raise Usage("--only and --all contradict each other: give one of them.")
    from pomdpfit.replication import FULL, PARTS, QUICK, TINY  # slow to import
    from pomdpfit.replication import reproduce as job

    prepare()
    plan = TINY if tiny else FULL if full else QUICK
    try:
        page = job(
            out,
            plan=plan,
            seed=seed,
            source=source,
            only=only or (tuple(PARTS) if everything else ()),
            samples=samples,
            n_jobs=jobs,
        )
    except KeyboardInterrupt:
        raise Interrupted(f"what was finished is in {out}.") from None
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
