"""Progress of long work: a callable that hears (what, done, of how many)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]
RESUMED = "resumed: "  # how what is told begins where work goes on from a checkpoint

COMPILING = "compiling (once for a model and a panel's shape; half a minute or more for large ones)"


def silent(what: str, done: int, total: int) -> None:
    """The default: say nothing."""


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
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Not on the standard output, which may be read by a machine.
    with Bar(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, int] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)  # type: ignore[arg-type]

        yield tell
