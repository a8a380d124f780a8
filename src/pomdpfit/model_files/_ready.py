"""The ready models by name, their options, and the tables of the tabular one."""

import inspect
from typing import Any

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit._shown import shown
from pomdpfit.baselines import BusEngine
from pomdpfit.model_files._checks import array, number, refuse_unknown, table
from pomdpfit.models import EngineReplacement, EquipmentInspection, Tabular, Tiger
from pomdpfit.models._sizes import MOST_BINS, within_memory

READY: dict[str, type] = {
    cls.__name__: cls for cls in (EngineReplacement, EquipmentInspection, Tabular, Tiger, BusEngine)
}
_KINDS = {int: "a whole number", float: "a number", str: "a text"}


def ready_model(content: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """The model that a file names, with its options; and theta, where it has [tables]."""
    cls = _class(content)
    options = _options(cls, table(content, "options"))
    if "tables" not in content:
        return within_memory(cls(**options)), {}
    if cls is not Tabular:
        raise ModelError(
            f'[tables] is for model = "Tabular", not {cls.__name__}: start values go in [theta].'
        )
    return _from_tables(table(content, "tables"), options)


def _class(content: dict[str, Any]) -> type:
    names = ", ".join(READY)
    if "model" not in content:
        raise ModelError(f"the key model is missing: it names a ready model, one of {names}.")
    name = content["model"]
    if not isinstance(name, str):
        raise ModelError(f'model must be a name, such as model = "Tiger", but it is {shown(name)}.')
    if ":" in name:
        raise ModelError(
            f"model = {shown(name)}: a module:object is given on the command line alone, not "
            f"in a file, since files run no code. Here stands a ready model, one of {names}."
        )
    if name not in READY:
        raise ModelError(f"model = {shown(name)} is none of {names}.{nearest(name, READY)}")
    return READY[name]


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
