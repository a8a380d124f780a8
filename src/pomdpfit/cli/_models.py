"""MODEL on the command line: a file, or the user's own code as module:object."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pomdpfit.cli._common import Usage
from pomdpfit.model_files import Specification
from pomdpfit.model_files import read_model as read_toml_model
from pomdpfit.model_files._own import is_own_name, own_model


def _read_toml(path: Path) -> Specification:
    """A model file, with the module that it may name."""
    return read_toml_model(path, own_code=True)


def _read_pomdp(path: Path) -> Specification:
    """A model in Cassandra's format, with the first belief of its start line."""
    from pomdpfit.formats import read_pomdp

    model = read_pomdp(path)
    return Specification(model, prior=model.prior(), path=path)


# How files are read, by their endings.
READERS: dict[str, Callable[[Path], Specification]] = {
    ".toml": _read_toml,
    ".pomdp": _read_pomdp,
}


def read_model(text: str) -> Specification:
    """The model that a word on the command line stands for.

    What a module prints while it is imported goes to the standard error: the standard output may
    be one JSON document.
    """
    reader = READERS.get(Path(text).suffix.lower())
    if reader is None and not is_own_name(text):
        raise Usage(
            f"MODEL must be a file ({', '.join(READERS)}) or module:object, such as pumps:Pump for "
            f"the class Pump in pumps.py, not {text!r}. A ready model is named in a file of one "
            'line, such as model = "Tiger".'
        )
    with contextlib.redirect_stdout(sys.stderr):
        if reader is not None:
            return reader(Path(text))
        return Specification(own_model(text, Path.cwd(), functions=True))


def model_alone(text: str | None) -> Any:
    """The model alone, for a saved fit; None where none is named."""
    return None if text is None else read_model(text).model
