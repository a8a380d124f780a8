"""Progress of long work: a bar on a terminal or in a notebook, elsewhere a line each ten seconds.

A callback receives (what, done, total). Keywords are passed to callbacks that accept them:
`failed`, how many replicates have failed so far, and `detail`, the last step of a search.
"""

import contextlib
import functools
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from html import escape
from typing import Any, ParamSpec, TypeVar

import jax

from pomdpfit._interrupt import dropped_interrupts
from pomdpfit._precision import require_float64

_P = ParamSpec("_P")
_R = TypeVar("_R")
Progress = Callable[[str, int, int], None]

RESUMED = "resumed: "  # messages that begin so are lines, not counts
_COMPILING = "compiling (once for a model and a panel's shape)"

_PATIENCE = 5.0  # seconds before the first line where there is no terminal
_INTERVAL = 10.0  # seconds between lines
_SHORT = 1.0  # seconds of work for which a terminal or a notebook shows nothing
_showing: ContextVar[bool] = ContextVar("_showing", default=False)


def silent(what: str, done: int, total: int) -> None:
    """Do nothing."""


def callback(progress: Progress | bool | None) -> Progress:
    """The callback behind `progress=`; what is no callback is silent."""
    return silent if progress is None or isinstance(progress, bool) else progress


def with_keywords(progress: Progress) -> Callable[..., None]:
    """`progress`, called with those of the keywords `failed` and `detail` that it accepts.

    A call with a detail is a step within one of the things counted: others do not receive it.
    """
    try:
        known = list(inspect.signature(progress).parameters.values())
    except (TypeError, ValueError):  # of some builtins
        known = []
    names = {p.name for p in known}
    accepted = {"failed", "detail"} & names
    if any(p.kind is p.VAR_KEYWORD for p in known):
        accepted = {"failed", "detail"}

    def report(what: str, done: int, total: int, **keywords: Any) -> None:
        if "detail" in keywords and "detail" not in accepted:
            return
        progress(what, done, total, **{k: v for k, v in keywords.items() if k in accepted})

    return report


def long_running(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorator of public functions with `progress=`: 64-bit floats, progress, interruptions.

    progress  None or True: shown, on the standard error; False: silent; or a callback. Functions
              that are called by another one with progress show nothing of their own.

    A KeyboardInterrupt is raised again as one sentence that says how to continue.
    """

    @functools.wraps(function)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        require_float64()
        if _showing.get():
            return function(*args, **kwargs)
        progress: Any = kwargs.pop("progress", None)
        began, token = time.monotonic(), _showing.set(True)
        try:
            with dropped_interrupts(), _shown(progress, function.__name__) as report:
                return function(*args, **kwargs, progress=report)  # type: ignore[arg-type]
        except KeyboardInterrupt:
            message = _interrupted(function, kwargs, time.monotonic() - began)
        finally:
            _showing.reset(token)
        raise KeyboardInterrupt(message)  # without the traceback of what was interrupted

    return wrapped


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within it nothing is shown unless a callback is given: for worker processes."""
    token = _showing.set(True)
    try:
        yield
    finally:
        _showing.reset(token)


def _interrupted(function: Callable, options: Any, seconds: float) -> str:
    """What was interrupted, and how to continue."""
    said = f"{function.__name__} was interrupted after {seconds:.0f} s"
    if "checkpoint" not in inspect.signature(function).parameters:
        return f"{said}."
    folder = options.get("checkpoint")
    if folder is None:
        return f"{said}. Pass checkpoint='a_folder/' to be able to continue such a call later."
    return f"{said}. What is finished is in {folder}: the same call continues from there."


@contextlib.contextmanager
def _shown(progress: Progress | bool | None, name: str) -> Iterator[Progress]:
    """The callback that was given, or a display that suits where the process runs."""
    if progress is False:
        yield silent
    elif progress is None or progress is True:
        with display(name) as report:
            yield report
    else:
        yield progress


@contextlib.contextmanager
def display(name: str) -> Iterator[Progress]:
    """A bar on a terminal or in a notebook, lines on the standard error elsewhere."""
    shown: contextlib.AbstractContextManager[Progress]
    if _in_notebook():
        shown = _Status(name).refreshed(_Notebook().show, _SHORT, 0.5)
    elif sys.stderr is not None and sys.stderr.isatty():
        shown = progress_bar(transient=True, delay=_SHORT)
    else:
        shown = _Status(name).refreshed(_print_line, _PATIENCE, _INTERVAL)
    with shown as report, _compilation_reported(report):
        yield report


@contextlib.contextmanager
def _compilation_reported(report: Progress) -> Iterator[None]:
    """Report how many programs JAX has lowered, and how many of them are compiled."""
    lowered = compiled = 0

    def hear(event: str, duration_secs: float, **_: str | int) -> None:
        nonlocal lowered, compiled
        lowered += event == "/jax/core/compile/jaxpr_to_mlir_module_duration"
        compiled += event == "/jax/core/compile/backend_compile_duration"
        if event.startswith("/jax/core/compile/"):
            report(_COMPILING, min(compiled, lowered), lowered)

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _print_line(text: str, share: float | None = None) -> None:
    with contextlib.suppress(OSError, ValueError):  # a full disk or a closed pipe ends no work
        print(text, file=sys.stderr, flush=True)


class _Status:
    """What was reported last, as text."""

    def __init__(self, name: str) -> None:
        self.name, self.began = name, time.monotonic()
        self.what, self.done, self.total, self.failed, self.detail = "starting", 0, 0, 0, ""
        self.compiling_since: float | None = None

    def __call__(self, what: str, done: int, total: int, failed: int = 0, detail: str = "") -> None:
        """Receive progress."""
        if what.startswith(RESUMED):
            _print_line(f"{self.name}: {what}")
        elif what != _COMPILING:
            self.what, self.done, self.total = what, done, total
            self.failed, self.detail = failed, detail
        elif done == total:
            self.compiling_since = None
        elif self.compiling_since is None:
            self.compiling_since = time.monotonic()

    def line(self) -> str:
        """The clock, what is done, and the last step of it."""
        now = time.monotonic()
        parts = [f"{self.name}: {now - self.began:.0f} s", self.what]
        if self.total:
            parts.append(f"{self.done} of {self.total} done")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.compiling_since is not None:
            parts.append(f"{_COMPILING}: {now - self.compiling_since:.0f} s")
        if self.detail:
            parts.append(self.detail)
        return ", ".join(parts)

    @contextlib.contextmanager
    def refreshed(
        self, show: Callable[..., None], first: float, interval: float
    ) -> Iterator["_Status"]:
        """Show the status after `first` seconds and each `interval` seconds from then on."""
        ended, shown, outcome = threading.Event(), False, "stopped"

        def repeat() -> None:
            nonlocal shown
            wait = first
            while not ended.wait(wait):
                shown, wait = True, interval
                show(self.line(), self.done / max(self.total, 1))

        thread = threading.Thread(target=repeat, daemon=True, name="progress")
        thread.start()
        try:
            yield self
            outcome = "finished"
        finally:
            ended.set()
            thread.join()
            if shown:
                show(f"{self.name}: {time.monotonic() - self.began:.0f} s, {outcome}", None)


class _Notebook:
    """One output of a notebook's cell, written anew each time and removed at the end."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, text: str, share: float | None) -> None:
        """Display or update the bar; without a share of what is done, remove it."""
        from IPython.display import HTML
        from IPython.display import display as show_in_cell

        bar = f"<progress value='{share:.3f}'></progress>" if share else "<progress></progress>"
        page = HTML("" if share is None else f"{bar} <code>{escape(text)}</code>")
        if self.handle is None:
            self.handle = show_in_cell(page, display_id=True)
        else:
            self.handle.update(page)


@contextlib.contextmanager
def progress_bar(*, transient: bool = False, delay: float = 0.0) -> Iterator[Progress]:
    """A bar on the terminal: `with pf.progress_bar() as bar: pf.fit(..., progress=bar)`.

    transient  whether the bar is removed at the end
    delay      seconds of work before it is shown
    """
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
        BarColumn(20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]} left[red]{task.fields[failed]}[/red]"),
        TimeElapsedColumn(),
        TextColumn("time left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
    )
    # Not on the standard output, which may be read by a machine.
    bar = Bar(*columns, console=Console(stderr=True), transient=transient)
    tasks: dict[str, Any] = {}

    def report(what: str, done: int, total: int, failed: int = 0, detail: str = "") -> None:
        if what.startswith(RESUMED):  # a line, not a bar that is full from the beginning
            bar.console.print(what, markup=False, highlight=False)
            return
        counts: dict[str, Any] = {
            "left": max(total - done, 0),
            "failed": f", {failed} failed" if failed else "",
            "detail": detail,
        }
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total, **counts)
        bar.update(tasks[what], completed=done, total=total, **counts)

    started = threading.Timer(delay, bar.start) if delay else None
    if started is None:
        bar.start()
    else:
        started.daemon = True
        started.start()
    try:
        yield report
    finally:
        if started is not None:
            started.cancel()
            started.join()
        bar.stop()
