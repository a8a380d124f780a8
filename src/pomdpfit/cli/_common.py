"""What the commands share: exit codes, errors as one line, progress, JSON."""

import contextlib
import enum
import functools
import json as encoding
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from pomdpfit._errors import PanelError, PanelErrors, PomdpfitError
from pomdpfit._interrupt import dropped_interrupts
from pomdpfit.cli._in_options import with_options


class Code(enum.IntEnum):
    """What a command's exit code says."""

    FINE = 0
    REFUSED = 1
    USAGE = 2
    NOT_CONVERGED = 3
    BUG = 70
    INTERRUPTED = 130


class Usage(PomdpfitError):
    """The command was not understood: an option is missing or malformed."""


class Interrupted(Exception):
    """Ctrl-C, with words on what is left and how to go on."""


def conducted(command: Callable[..., Code | None]) -> Callable[..., None]:
    """A command whose errors are one line with the mend, and whose exit codes mean something."""

    @functools.wraps(command)
    def run(*, json: bool, debug: bool, **options: Any) -> None:
        try:
            with _one_line_warnings(), dropped_interrupts():
                code = command(json=json, debug=debug, **options)
        except Usage as error:
            code = _tell(error, str(error), Code.USAGE, json, debug)
        except (PomdpfitError, OSError) as error:
            code = _tell(error, _words(error), Code.REFUSED, json, debug)
        except MemoryError as error:
            words = "there is not enough memory: make the model or the grid smaller."
            code = _tell(error, words, Code.REFUSED, json, debug)
        except (KeyboardInterrupt, Interrupted) as error:
            words = str(error) or "there is nothing to go on from."
            code = _tell(error, words, Code.INTERRUPTED, json, debug)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            place = _own_place(error)
            says = f"{place}: {type(error).__name__}: {error}" if place else _bug(error)
            code = _tell(error, says, Code.REFUSED if place else Code.BUG, json, debug)
        raise typer.Exit(int(code or Code.FINE))

    return run


def _words(error: BaseException) -> str:
    """The message; that of the system with its file."""
    if isinstance(error, OSError) and not isinstance(error, PomdpfitError) and error.filename:
        return f"{error.filename}: {error.strerror or error}."
    place = _own_place(error)
    return f"{error} See {place}." if place and place not in str(error) else str(error)


def _own_place(error: BaseException) -> str:
    """Where in the user's own model an error arose; "" if it did not, or none was imported."""
    own_code = sys.modules.get("pomdpfit._own_code")
    return "" if own_code is None else own_code.own_place(error)


def _bug(error: Exception) -> str:
    return (
        f"unexpected {type(error).__name__}: {error}. Unless it comes from a model of your own, "
        "this is a bug in pomdpfit: run the same command with --debug and report the traceback."
    )


def _tell(error: BaseException, words: str, code: Code, json: bool, debug: bool) -> Code:
    """One line on the standard error, or one for each refused column of a table.

    With --json a document too, with --debug the traceback.
    """
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    label = "stopped" if code is Code.INTERRUPTED else "error"
    lines = [" ".join(line.split()) for line in getattr(error, "each", (words,))]
    if isinstance(error, PanelError):  # whose mends are arguments of Python's functions
        lines = [with_options(line) for line in lines]
    for line in lines:
        say(f"[red]{label}:[/red] {escape(line)}")
    if json:
        kind = "PanelError" if isinstance(error, PanelErrors) else type(error).__name__
        print_json({"error": {"kind": kind, "message": "\n".join(lines), "code": int(code)}})
    return code


def say(text: str) -> None:
    """A line (with rich's markup) for a person, on the standard error."""
    Console(stderr=True).print(text, soft_wrap=True, highlight=False)


@contextlib.contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Warnings as one line each."""

    def show(message: Any, *further: Any, **named: Any) -> None:
        say(f"[yellow]warning:[/yellow] {escape(' '.join(str(message).split()))}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def print_json(document: Mapping[str, object]) -> None:
    """One strict JSON document on the standard output."""
    from pomdpfit.report._json import as_json

    typer.echo(as_json(document), nl=False)


def named_value(text: str, option: str) -> tuple[str, Any]:
    """NAME=VALUE, where names of entries may hold an equals sign and a value is JSON."""
    name, equals, value = text.rpartition("=")
    if not equals:
        raise Usage(f"{option} {text} must be NAME=VALUE with a number, or lists of numbers.")
    try:
        return name.strip(), encoding.loads(value)
    except ValueError:
        raise Usage(
            f"{option} {text}: {value!r} is not a number, nor lists of numbers such as [0.2,0.8]."
        ) from None


def once_each(pairs: Iterable[tuple[str, Any]], option: str) -> dict[str, Any]:
    """Names and values of an option that is repeatable, but not for the same name."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Usage(f"{option} gives {name} twice: leave one out.")
        found[name] = value
    return found


def require_folder(path: Path, option: str = "--out") -> None:
    """Refuse a file whose folder is not there, before hours of work and not after."""
    if path.is_dir():
        raise Usage(f"{option} {path} is a folder: name a file in it.")
    if not path.parent.is_dir():
        raise Usage(f"{option} {path}: there is no folder {path.parent}. Make it first.")


_PICTURES = (".png", ".svg", ".pdf")


def require_picture(path: Path) -> None:
    """Refuse what cannot be drawn to, before anything is solved."""
    require_folder(path, "--plot")
    if path.suffix not in _PICTURES:
        raise Usage(f"--plot {path} must end in one of {', '.join(_PICTURES)}.")


def prepare() -> None:
    """Compiled programs are kept on disk, for the next command."""
    from pomdpfit.programs import cache_compilations

    cache_compilations()
