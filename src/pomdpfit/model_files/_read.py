"""read_model(): a TOML file, checked to the last key, as a specification."""

import contextlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pomdpfit._errors import ModelError, PomdpfitError
from pomdpfit._fixed import refuse_fixed_and_free
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._restrictions import parse_restrictions
from pomdpfit._shown import cut
from pomdpfit.model_files._checks import UnknownKeyError, line_of, refuse_unknown, table, texts
from pomdpfit.model_files._groups import with_groups
from pomdpfit.model_files._ready import named_model
from pomdpfit.model_files._specification import Specification, as_arrays, full_space
from pomdpfit.model_files._study import STUDY_KEYS, study_options
from pomdpfit.model_files._values import read_fixed, read_leaves, read_prior, refuse_other_fixed

_MODEL_KEYS = (
    *("model", "options", "tables", "groups"),
    *("theta", "fixed", "free", "constraints", "prior"),
)
# tomllib takes the square of the number of parts of a key, minutes for some ten thousands.
_MOST_PARTS = 32
_PART = r"""(?>[A-Za-z0-9_-]+|"(?>[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LONG_KEY = re.compile(
    rf"(?<![A-Za-z0-9_\"'.\\-]){_PART}(?>[ \t]*\.[ \t]*{_PART}){{{_MOST_PARTS}}}"
)


@in_float64
def read_model(path: str | Path, *, own_code: bool = False) -> Specification:
    """The model that a TOML file names, with its options, start, fixed values and prior.

    `model` names a ready model, or with `own_code` one of your own as "module:object", a
    `pf.Model` or its class. [options] are those of the constructor, [tables] the kernel and reward
    of a tabular one, [groups] parameters by group of agents, [theta] start values, [fixed] what is
    held, `free` what is let go, `constraints` linear equations, [prior] the first belief. Keys for
    the commands ([data], `estimator`, ...) are checked and not used. What is not known, or not of
    the right kind, raises `ModelError` with file, key, value and mend.

    path        a file in TOML
    own_code    import the module that the file names, first from the folder of the file, which
                then stays on Python's path: this runs the module's code. By default no code is
                run, whatever the file holds
    """
    path = Path(path)
    text = _text_of(path)
    with _in_file(path, text):
        return _specification(_parsed(text, path), path, own_code)


def read_study(path: Path) -> dict[str, Any]:
    """Options of the commands that a model file gives, by their names; no model is made."""
    text = _text_of(path)
    content = _parsed(text, path)
    with _in_file(path, text):
        refuse_unknown(content, (*_MODEL_KEYS, *STUDY_KEYS), "the file")
        return study_options(content, path.parent)


@contextlib.contextmanager
def _in_file(path: Path, text: str) -> Iterator[None]:
    """Around what a file says: errors begin with its name, and the line where it is known."""
    try:
        yield
    except UnknownKeyError as error:
        raise ModelError(f"{path}{line_of(error.key, text)}: {error}") from error
    except PomdpfitError as error:
        raise ModelError(f"{path}: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    return _parsed(_text_of(path), path)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not a text in UTF-8: {error}.") from error


def _parsed(text: str, path: Path) -> dict[str, Any]:
    if _LONG_KEY.search(text):
        raise ModelError(f"{path} has a key of more than {_MOST_PARTS} parts with dots between.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # Python's own, for thousands of digits, too
        raise ModelError(
            f"{path} is not TOML: {cut(str(error))}. Texts need quotes, and a table starts with "
            "[its name]."
        ) from error


def _specification(content: dict[str, Any], path: Path, own_code: bool = False) -> Specification:
    refuse_unknown(content, (*_MODEL_KEYS, *STUDY_KEYS), "the file")
    study_options(content, path.parent)
    named = named_model(content, path.parent if own_code else None)
    model, tables = with_groups(content, *named)
    prior = read_prior(content["prior"], model) if "prior" in content else None
    space = full_space(model, prior)
    given = read_leaves(table(content, "theta"), space, "[theta]")
    clash = sorted(set(given) & set(tables))
    if clash:
        raise ModelError(f"{clash[0]} stands in [tables] and in [theta]: leave one out.")
    start = {**tables, **given}
    space.check({**space.example(), **start})
    theta = as_arrays({**space.example(), **start})
    fixed = read_fixed(content.get("fixed", {}), space, theta)
    refuse_other_fixed(table(content, "theta"), start, fixed, space, "[theta]")
    return Specification(
        model=model,
        start=start,
        fixed=fixed,
        free=read_free(texts(content, "free"), fixed, space),
        constraints=_constraints(texts(content, "constraints"), space),
        prior=prior,
        path=path,
    )


def read_free(names: tuple[str, ...], fixed: Any, space: ParameterSpace) -> tuple[str, ...]:
    """Parameters to let go, which cannot be held too."""
    space.free(*names)
    refuse_fixed_and_free(fixed, names)
    return names


def _constraints(lines: tuple[str, ...], space: ParameterSpace) -> tuple[str, ...]:
    if lines:
        parse_restrictions(lines, space.names)
    return lines
