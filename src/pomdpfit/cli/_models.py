"""MODEL on the command line: a file of data, or the user's own code as module:object."""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit.cli._common import Usage
from pomdpfit.model_files import Specification
from pomdpfit.model_files import read_model as read_toml_model


def _read_pomdp(path: Path) -> Specification:
    """A model in Cassandra's format, with the first belief of its start line."""
    from pomdpfit.formats import read_pomdp

    model = read_pomdp(path)
    return Specification(model, prior=model.prior(), path=path)


# How files are read, by their endings.
READERS: dict[str, Callable[[Path], Specification]] = {
    ".toml": read_toml_model,
    ".pomdp": _read_pomdp,
}


def read_model(text: str) -> Specification:
    """The model that a word on the command line stands for."""
    reader = READERS.get(Path(text).suffix.lower())
    if reader is not None:
        return reader(Path(text))
    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise Usage(
            f"MODEL must be a file ({', '.join(READERS)}) or module:object, not {text!r}. A ready "
            f'model is named in a file of one line, such as model = "Tiger".'
        )
    return Specification(_own_model(text, module, name))


def own_model(text: str | None) -> Any:
    """The model alone, for a saved fit; None where none is named."""
    return None if text is None else read_model(text).model


def _own_model(text: str, module: str, name: str) -> Any:
    """A model, or what a function without arguments returns, from the user's own module."""
    from pomdpfit._model import Model
    from pomdpfit.baselines import MDP

    found: Any = _imported(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ModelError(f"{text}: {module} has no {part!r}.{nearest(part, vars(found))}")
        found = getattr(found, part)
    if not isinstance(found, Model | MDP) and callable(found):
        try:
            found = found()
        except Exception as error:
            raise ModelError(
                f"{text}() failed with {type(error).__name__}: {error}. It must be a model, or a "
                "function without arguments that returns one; --debug shows where it failed."
            ) from error
    if not isinstance(found, Model | MDP):
        raise ModelError(
            f"{text} must be a pf.Model, or a function without arguments that returns one, but it "
            f"is of type {type(found).__name__}."
        )
    return found


def _imported(module: str) -> ModuleType:
    """The module, also where it lies in the folder at hand."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise ModelError(f"{module} needs the module {error.name!r}: install it.") from error
        raise ModelError(
            f"there is no module {module!r} in {here} or on Python's path. Name it without .py."
        ) from error
    except Exception as error:
        raise ModelError(
            f"importing {module} failed with {type(error).__name__}: {error}. --debug shows where."
        ) from error
