"""A model of the user's own, named as module:object. Importing the module runs its code."""

import contextlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pomdpfit._errors import ModelError, PomdpfitError
from pomdpfit._model import Model
from pomdpfit._nearest import nearest
from pomdpfit._own_code import add_own_folder, own_place
from pomdpfit._shown import shown
from pomdpfit.baselines import MDP
from pomdpfit.model_files._checks import number, refuse_unknown

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_NAME = re.compile(f"({_DOTTED}):({_DOTTED})")
_LONGEST = 200  # characters of a name
_TYPES = {int: "a whole number", str: "a text", bool: "true or false"}
# Top-level names that were imported here. One of them may be dropped again, so that two studies
# can each have a model.py.
_IMPORTED: set[str] = set()


def is_own_name(text: str) -> bool:
    """Whether a text is module:object, both of them dotted names; nothing is imported."""
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None


def own_model(
    name: str,
    folder: Path,
    options: Mapping[str, Any] | None = None,
    *,
    functions: bool = False,
) -> Any:
    """The model that module:object names; the module is looked for in this folder first.

    The object is a model, or a class of models, which is called with the options. With `functions`
    it may also be a function without arguments that returns a model.
    """
    module, _, path = name.partition(":")
    found: Any = _imported(name, module, folder)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ModelError(f"{name}: {module} has no {part!r}.{nearest(part, dir(found))}")
        found = getattr(found, part)
    if isinstance(found, type) and issubclass(found, Model | MDP):
        return _instance(name, found, options or {})
    if functions and callable(found) and not isinstance(found, type | Model | MDP):
        with _reported(f"{name}()", "It must be a function without arguments."):
            found = found()
    if not isinstance(found, Model | MDP):
        function = ", or a function without arguments that returns one" if functions else ""
        kind = (
            "a class that is none" if isinstance(found, type) else f"of type {type(found).__name__}"
        )
        raise ModelError(f"{name} must be a pf.Model or its class{function}; it is {kind}.")
    if options:
        raise ModelError(
            f"[options] are for a class, but {name} is a model that is made already: leave them "
            "out, or name its class."
        )
    return found


def _instance(name: str, cls: type, options: Mapping[str, Any]) -> Any:
    """A model of this class; lists among the options become tuples, which JAX can hash."""
    known = inspect.signature(cls).parameters
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    if not anything:
        refuse_unknown(options, known, "[options]")
    given = {}
    for key, value in options.items():
        kind = known[key].annotation if key in known else None
        given[key] = _option(f"[options] {key}", value, kind)
    required = [
        key
        for key, p in known.items()
        if p.default is inspect.Parameter.empty
        and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    lacking = [key for key in required if key not in given]
    if lacking:
        raise ModelError(
            f"{name} needs {', '.join(lacking)}: give a value in the table [options] of a model "
            "file, or a default in the class."
        )
    with _reported(f"{name}()"):
        return cls(**given)


def _option(place: str, value: Any, kind: Any) -> Any:
    """A value of the type that the constructor declares, where that is a plain one."""
    if kind is float:
        return number(value, place)
    if isinstance(kind, type) and kind in _TYPES and type(value) is not kind:
        raise ModelError(f"{place} must be {_TYPES[kind]}, but it is {shown(value)}.")
    return _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# ---- importing ---------------------------------------------------------------------------------


def _imported(name: str, module: str, folder: Path) -> ModuleType:
    """The module, from this folder if it is there, else from Python's path."""
    folder, top = folder.resolve(), module.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise ModelError(f"{name}: {top} is a module of Python itself; give yours another name.")
    beside = (folder / f"{top}.py").is_file() or (folder / top).is_dir()
    if beside:
        _make_room(name, top, folder)
    with contextlib.suppress(ValueError):
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))  # and it stays there, for worker processes and later imports
    add_own_folder(folder)
    importlib.invalidate_caches()
    try:
        with _reported(name):
            found = importlib.import_module(module)
    except ModelError as error:
        _explain_missing(error.__cause__, module, folder)
        raise
    _IMPORTED.add(top)
    if found.__file__:
        add_own_folder(Path(found.__file__).resolve().parent)
    return found


def _make_room(name: str, top: str, folder: Path) -> None:
    """Drop a module of this name from another study, and refuse where it is another package's."""
    loaded = sys.modules.get(top)
    if loaded is None or _place(loaded).is_relative_to(folder):
        return
    if top not in _IMPORTED:
        raise ModelError(
            f"{name}: {top} in {folder} has the name of a module that is loaded already, from "
            f"{_place(loaded)}; give yours another name."
        )
    for other in [key for key in sys.modules if key.partition(".")[0] == top]:
        del sys.modules[other]


def _place(module: ModuleType) -> Path:
    """The file of a module, or the folder of a package without one."""
    return Path(module.__file__ or next(iter(getattr(module, "__path__", [""])), "")).resolve()


def _explain_missing(error: BaseException | None, module: str, folder: Path) -> None:
    """Say which module is missing, where one is: the one that was named, or one that it needs."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return
    if f"{module}.".startswith(f"{error.name}."):
        raise ModelError(
            f"there is no module {module!r} in {folder} or on Python's path. Name it without .py."
        ) from error
    place = own_place(error)
    raise ModelError(
        f"{f'{place}: ' if place else ''}{module} needs the module {error.name!r}: install it."
    ) from error


@contextlib.contextmanager
def _reported(what: str, advice: str = "") -> Iterator[None]:
    """Around the user's own code: its errors come with file and line."""
    try:
        yield
    except PomdpfitError:
        raise
    except (Exception, SystemExit) as error:
        where = own_place(error)
        says = f"{where or f'{what} failed'}: {type(error).__name__}: {_first_line(error)}"
        raise ModelError(says if where else f"{says} {advice}".rstrip()) from error


def _first_line(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{' '.join(text.split()).rstrip('.')}."
