"""Progress of long work: a callable that hears (what, done, of how many).

One that has a keyword `failed` hears by it, too, how many of the replications of a bootstrap or a
Monte Carlo have failed so far. What is told is counted where the call was made, from what has come
back: wherever the work is done.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int], None]
RESUMED = "resumed: "  # how what is told begins where work goes on from a checkpoint

COMPILING = "compiling (once for a model and a panel's shape; half a minute or more for large ones)"


def silent(what: str, done: int, total: int) -> None:
    """The default: say nothing."""


def telling_failures(tell: Progress) -> Callable[[str, int, int, int], None]:
    """`tell`, which also hears how many have failed, by the keyword `failed`, if it has one."""
    try:
        known = list(inspect.signature(tell).parameters.values())
    except (TypeError, ValueError):  # of some builtins
        known = []
    hears = any(p.name == "failed" or p.kind is p.VAR_KEYWORD for p in known)

    def say(what: str, done: int, total: int, failed: int) -> None:
        if hears:
            tell(what, done, total, failed=failed)  # type: ignore[call-arg]
        else:
            tell(what, done, total)

    return say


def told_of_compilation(tell: Progress) -> Progress:
    """`tell`, which hears first that programs are compiled: the first thing done ends that."""
    compiling = True
    tell(COMPILING, 0, 1)

    def heard(what: str, done: int, total: int) -> None:
        nonlocal compiling
        if compiling and done > 0:
            compiling = False
            tell(COMPILING, 1, 1)
        tell(what, done, total)

    return heard


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on the terminal: `with pf.progress_bar() as bar: pf.fit(..., progress=bar)`."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]} left[red]{task.fields[failed]}[/red]"),
        TimeElapsedColumn(),
        TextColumn("time left"),
        TimeRemainingColumn(),
    )
    # Not on the standard output, which may be read by a machine.
    with Bar(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, int] = {}

        def tell(what: str, done: int, total: int, failed: int = 0) -> None:
            if what.startswith(RESUMED):  # a line, not a bar that is full from the beginning
                bar.console.print(what, markup=False, highlight=False)
                return
            lost = f", {failed} failed" if failed else ""
            told: dict[str, Any] = {"left": max(total - done, 0), "failed": lost}
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total, **told)
            bar.update(tasks[what], completed=done, **told)  # type: ignore[arg-type]

        yield tell
