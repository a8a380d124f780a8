"""Words on the command line as objects: the prior, the grid, the estimator, what is held."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit.cli._common import Usage, named_value, once_each, say
from pomdpfit.model_files import Specification
from pomdpfit.model_files._read import read_free, read_toml
from pomdpfit.model_files._specification import as_arrays, states_of
from pomdpfit.model_files._study import read_estimator, read_grid
from pomdpfit.model_files._values import (
    PRIORS,
    read_fixed,
    read_leaves,
    read_prior,
    refuse_other_fixed,
)
from pomdpfit.models import PomdpFile

_READERS = {"estimator": read_estimator, "grid": read_grid}


def chosen(**words: str | None) -> dict[str, Any]:
    """The objects that --estimator and --grid stand for; None where nothing is said."""
    return {name: _read(name, word) for name, word in words.items()}


def _read(name: str, word: str | None) -> Any:
    try:
        return None if word is None else _READERS[name](word, f"--{name}")
    except ModelError as error:
        raise Usage(str(error)) from None


def with_prior(spec: Specification, text: str | None) -> Specification:
    """The specification with the prior of --prior, which takes the place of the file's."""
    if text is not None:
        kind, _, values = text.partition(":")
        prior = read_prior(_prior_table(kind, values, text), spec.model)
        spec = _without_strangers(dataclasses.replace(spec, prior=prior), text)
    states = states_of(spec.model)
    if spec.prior is None and states > 1:
        even = ",".join(["1"] + ["0"] * (states - 1))
        raise Usage(
            f"a model with {states} hidden states needs a prior: --prior known:{even} where the "
            "first belief is known, --prior common where it is a parameter, or [prior] in the "
            "model file."
        )
    return spec


def _without_strangers(spec: Specification, text: str) -> Specification:
    """Without values of the file for parameters that only its own prior has, which is said."""
    space = spec.space
    known = {*space.parameters, *space.names}
    strange = [name for name in dict.fromkeys([*spec.start, *spec.fixed]) if name not in known]
    if not strange:
        return spec
    say(
        f"[yellow]note:[/yellow] {escape(', '.join(strange))} of {escape(str(spec.path))} is not "
        f"used: --prior {escape(text)} has no such parameter."
    )
    known_alone = lambda given: {name: value for name, value in given.items() if name in known}
    return dataclasses.replace(spec, start=known_alone(spec.start), fixed=known_alone(spec.fixed))


def _prior_table(kind: str, values: str, text: str) -> dict[str, Any]:
    """--prior as the table that a model file would have."""
    if kind not in PRIORS:
        belief = text.strip("[]() ").replace(" ", "")
        if _are_numbers(belief):
            raise Usage(f"--prior {text} lacks the kind of prior: write --prior known:{belief}.")
        raise Usage(
            f"--prior {text} must start with one of {', '.join(PRIORS)}.{nearest(kind, PRIORS)}"
        )
    if not values:
        return {"kind": kind}
    try:
        if kind == "known":
            return {"kind": kind, "belief": [float(word) for word in values.split(",")]}
        if kind == "stationary":
            return {"kind": kind, "nodes": int(values)}
    except ValueError:
        raise Usage(f"--prior {text} must have numbers after the colon.") from None
    raise Usage(f"--prior {text}: {kind} takes nothing after a colon.")


def _are_numbers(text: str) -> bool:
    """Whether a text lists numbers, with commas between them."""
    try:
        return bool([float(word) for word in text.split(",")])
    except ValueError:
        return False


def with_held(
    spec: Specification, fix: Sequence[str], free: Sequence[str], constraints: Sequence[str]
) -> Specification:
    """The specification with --fix, --free and --constraint added to what the file says."""
    space, theta = spec.space, as_arrays({**spec.space.example(), **spec.start})
    names = space.names + list(space.parameters)
    given = once_each((_held(text, names) for text in fix), "--fix")
    fixed = {**spec.fixed, **read_fixed(given, space, theta, "--fix")}
    space.require_once(fixed, f"[fixed] of {spec.path} with --fix")
    if isinstance(spec.model, PomdpFile):
        free = spec.model.leaves_named(free)
    released = read_free(tuple(dict.fromkeys((*spec.free, *free))), fixed, space)
    return dataclasses.replace(
        spec, fixed=fixed, free=released, constraints=(*spec.constraints, *constraints)
    )


def _held(text: str, names: Sequence[str]) -> tuple[str, Any]:
    """NAME=VALUE, or NAME alone for its start value; names of entries may hold an equals sign."""
    if text in names or "=" not in text:  # where there is no such parameter, that will be said
        return text, True
    return named_value(text, "--fix")


def with_theta(spec: Specification, path: Path | None) -> Specification:
    """The specification with start values from a TOML or JSON file: its table theta, or all."""
    if path is None:
        return spec
    content = read_toml(path) if path.suffix.lower() == ".toml" else _read_json(path)
    found = content.get("theta", content) if isinstance(content, dict) else content
    if not isinstance(found, dict):
        raise ModelError(f"{path} must hold names and values of parameters, not {found!r:.80}.")
    start = read_leaves(found, spec.space, str(path))
    refuse_other_fixed(found, start, spec.fixed, spec.space, str(path))
    return dataclasses.replace(spec, start={**spec.start, **start})


def _read_json(path: Path) -> Any:
    def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ModelError(f"{path} gives {twice} twice: leave one out.")
        return found

    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=named_once)
    except ValueError as error:
        raise ModelError(f"{path} is neither .toml nor JSON: {error}.") from error
