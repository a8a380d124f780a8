"""Calls of a model's methods, which are the user's own code: their errors with the mend."""

import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.errors

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest

_FOLDERS: set[str] = set()  # of modules that were imported because the user named them
_WHY = "theta is traced there: JAX follows what is done to it, which must therefore be JAX's own."


@contextmanager
def own_code(method: str, theta: Mapping[str, Any]) -> Iterator[None]:
    """Around a call of this method at theta: what JAX says of its insides becomes advice."""
    try:
        yield
    except jax.errors.TracerArrayConversionError as error:
        raise ModelError(_numpy(method)) from error
    except jax.errors.TracerBoolConversionError as error:
        raise ModelError(
            f"{method}() decides by a value of theta (if, and, or, min, max). {_WHY} Use "
            "jnp.where(condition, this, that), jnp.minimum or jnp.maximum."
        ) from error
    except jax.errors.ConcretizationTypeError as error:
        raise ModelError(
            f"{method}() makes a plain number of a value of theta (float(), int(), math). {_WHY} "
            f"Use jax.numpy (import jax.numpy as jnp) in {method}()."
        ) from error
    except ValueError as error:
        # What numpy makes of an assignment to an entry of its own array.
        if isinstance(error.__cause__, jax.errors.ConcretizationTypeError):
            raise ModelError(_numpy(method)) from error
        raise
    except KeyError as error:
        name = error.args[0] if error.args else None
        if not isinstance(name, str) or name in theta:
            raise
        raise ModelError(
            f"{method}() looks up {name!r}, but there is no such parameter; those of parameters() "
            f"are {', '.join(theta)}.{nearest(name, theta)}"
        ) from error


def add_own_folder(folder: Path) -> None:
    """Remember that Python files in this folder are the user's own."""
    _FOLDERS.add(str(folder))


def own_place(error: BaseException | None) -> str:
    """File, line and function of the user's own code in which an error arose; "" if in none."""
    while error is not None:
        calls = [
            (frame.f_code.co_filename, line, frame.f_code.co_name)
            for frame, line in traceback.walk_tb(error.__traceback__)
        ]
        if isinstance(error, SyntaxError) and error.filename:
            calls.append((error.filename, error.lineno or 0, "<module>"))
        own = [call for call in calls if os.path.dirname(os.path.realpath(call[0])) in _FOLDERS]
        if own:
            file, line, function = own[-1]
            inside = "" if function.startswith("<") else f", in {function}"
            return f"{_from_here(file)}, line {line}{inside}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return ""


def _from_here(file: str) -> str:
    """The path from the current folder, where the file is below it."""
    path, here = Path(file).resolve(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _numpy(method: str) -> str:
    return (
        f"{method}() hands a value of theta to numpy. {_WHY} Use jax.numpy (import jax.numpy as "
        f"jnp) in {method}(), and jnp.stack or table.at[...].set(...) to fill an array."
    )


def returned(method: str, value: Any, kind: type | None, mend: str) -> Any:
    """What a method returned, refused with the mend where it is nothing or of another type."""
    if value is None or (kind is not None and not isinstance(value, kind)):
        what = "nothing" if value is None else f"an object of type {type(value).__name__}"
        raise ModelError(f"{method}() returns {what}: {mend}")
    return value
