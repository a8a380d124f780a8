"""The model that a file names, with its options, and the tables of the tabular one."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit._shown import shown
from pomdpfit.baselines import BusEngine
from pomdpfit.model_files._checks import array, number, refuse_unknown, table
from pomdpfit.model_files._own import is_own_name, own_model
from pomdpfit.models import EngineReplacement, EquipmentInspection, Tabular, Tiger
from pomdpfit.models._sizes import MOST_BINS, within_memory

READY: dict[str, type] = {
    cls.__name__: cls for cls in (EngineReplacement, EquipmentInspection, Tabular, Tiger, BusEngine)
}
_KINDS = {int: "a whole number", float: "a number", str: "a text"}


def named_model(
    content: dict[str, Any], folder: Path | None = None
) -> tuple[Any, dict[str, np.ndarray]]:
    """The model that a file names, with its options; and theta, where it has [tables].

    A module:object is imported only where the folder of the file is given.
    """
    name = _name(content)
    if "tables" in content and name != "Tabular":
        raise ModelError(
            f'[tables] is for model = "Tabular", not {shown(name)}: start values go in [theta].'
        )
    options = table(content, "options")
    if name not in READY:
        if folder is None:
            raise ModelError(
                f"model = {shown(name)} is code of your own, which pf.read_model does not run "
                "unless it is told to: pass own_code=True if you trust that module."
            )
        return own_model(name, folder, options), {}
    cls = READY[name]
    options = _options(cls, options)
    if "tables" not in content:
        return within_memory(cls(**options)), {}
    return _from_tables(table(content, "tables"), options)


def _name(content: dict[str, Any]) -> str:
    """The name of a ready model, or module:object."""
    names = ", ".join(READY)
    if "model" not in content:
        raise ModelError(
            f"the key model is missing: it names a ready model, one of {names}, or one of your "
            'own, such as model = "pumps:Pump".'
        )
    name = content["model"]
    if not isinstance(name, str):
        raise ModelError(f'model must be a name, such as model = "Tiger", but it is {shown(name)}.')
    if name not in READY and not is_own_name(name):
        if ":" in name:
            raise ModelError(
                f"model = {shown(name)} is not module:object, two dotted names with a colon "
                'between them, such as model = "pumps:Pump" for the class Pump in pumps.py.'
            )
        raise ModelError(
            f"model = {shown(name)} is none of {names}, nor module:object.{nearest(name, READY)}"
        )
    return name


def _options(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    """Options of the right types, as the model's constructor names them."""
    known = inspect.signature(cls).parameters
    refuse_unknown(given, known, "[options]")
    return {key: _option(key, value, known[key].annotation) for key, value in given.items()}


def _option(key: str, value: Any, kind: type) -> Any:
    if kind is float:
        return number(value, f"[options] {key}")
    if type(value) is not kind:
        raise ModelError(f"[options] {key} must be {_KINDS[kind]}, but it is {shown(value)}.")
    if isinstance(value, int) and abs(value) > MOST_BINS:
        raise ModelError(f"[options] {key} is {shown(value)}, too many: at most {MOST_BINS:,}.")
    return value


def _from_tables(
    tables: dict[str, Any], options: dict[str, Any]
) -> tuple[Tabular, dict[str, np.ndarray]]:
    """A tabular model and its theta from kernel[z, s, a, z', s'] and reward[z, s, a]."""
    refuse_unknown(tables, ("kernel", "reward"), "[tables]")
    missing = [key for key in ("kernel", "reward") if key not in tables]
    if missing:
        raise ModelError(f"[tables] lacks {missing[0]}: it needs both kernel and reward.")
    kernel = array(tables["kernel"], "[tables] kernel")
    if kernel.ndim != 5:
        raise ModelError(
            "[tables] kernel must be lists nested five deep, kernel[z][s][a][z'][s'], but its "
            f"shape is {kernel.shape}."
        )
    sizes = dict(zip(("observations", "states", "actions"), kernel.shape[:3], strict=True))
    for name, size in sizes.items():
        if options.get(name, size) != size:
            raise ModelError(
                f"[options] {name} is {options[name]}, but [tables] kernel has {size}: leave the "
                "option out."
            )
    model = within_memory(Tabular(**{**options, **sizes}))
    theta = model.theta_of(kernel, array(tables["reward"], "[tables] reward"))
    return model, {name: leaf for name, leaf in theta.items() if name != "discount"}
