"""What a model file says beside the model: its data, and how the commands estimate it from them."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit._schemes import AbstractScheme, Linear, Smooth
from pomdpfit._shown import shown
from pomdpfit.data._repairs import DropAgents, DropRows, Repair, SplitAtGaps, TopCode
from pomdpfit.estimators import Joint, SoftPolicyGradient, TwoStage
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.model_files._checks import refuse_unknown, table

ESTIMATORS: dict[str, Callable[[], AbstractEstimator]] = {
    "two-stage": TwoStage,
    "joint": Joint,
    "policy-gradient": SoftPolicyGradient,
}
_SCHEMES: dict[str, type[AbstractScheme]] = {"linear": Linear, "smooth": Smooth}
_REPAIRS: dict[str, Repair] = {
    "split-at-gaps": SplitAtGaps(),
    "drop-rows": DropRows(),
    "drop-agents": DropAgents(),
}
_TOP_CODE = re.compile(r"top-code=([0-9]{1,18})")

# The keys of [data], which are the options of `pomdpfit check` but for `file`.
_TEXTS = ("agent", "time", "observation", "action", "freq", "group", "delimiter", "encoding")
_LABELS = ("observations", "actions")
_LISTS = ("covariate", "repair", "missing")
DATA_KEYS = ("file", *_TEXTS, *_LABELS, *_LISTS)
STUDY_KEYS = ("estimator", "grid", "starts", "seed", "out", "data")


def study_options(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Options of the commands, by their names, as far as the file gives them.

    Files are named from the folder of the model file. `file` of [data] is the argument `data`.
    """
    found: dict[str, Any] = {}
    for key, read in (("estimator", read_estimator), ("grid", read_grid)):
        if key in content:
            read(_text(content[key], key), key)
            found[key] = content[key]
    for key, least in (("starts", 1), ("seed", 0)):
        if key in content:
            found[key] = _whole(content[key], key, least)
    if "out" in content:
        found["out"] = folder / _text(content["out"], "out")
    return found | _data_options(table(dict(content), "data"), folder)


def _data_options(given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    refuse_unknown(given, DATA_KEYS, "[data]")
    place = {key: f"[data] {key}" for key in given}
    found: dict[str, Any] = {key: _text(given[key], place[key]) for key in _TEXTS if key in given}
    for key in _LABELS:
        if key in given:
            found[key] = _labels(given[key], place[key])
    for key in _LISTS:
        if key in given:
            texts = [given[key]] if isinstance(given[key], str) else given[key]
            if not isinstance(texts, list):
                raise ModelError(f"{place[key]} must be a list of texts, not {shown(texts)}.")
            found[key] = [_text(text, place[key]) for text in texts]
    read_repairs(found.get("repair", ()), "[data] repair")
    if "file" in given:
        found["data"] = folder / _text(given["file"], place["file"])
    return found


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ModelError(f"{place} must be a text, not {shown(value)}.")
    return value


def _whole(value: Any, place: str, least: int) -> int:
    if type(value) is not int or not least <= value < 2**63:
        raise ModelError(f"{place} must be a whole number of at least {least}, not {shown(value)}.")
    return value


def _labels(value: Any, place: str) -> list[str]:
    """Labels as they stand in the data, in the order of their codes."""
    right = isinstance(value, list) and value and all(type(label) in (str, int) for label in value)
    if not right:
        raise ModelError(
            f'{place} must list the labels in order, such as ["low", "high"], not {shown(value)}.'
        )
    return [str(label) for label in value]


# ---- words for estimators, grids and repairs ---------------------------------------------------


def read_estimator(text: str, place: str) -> AbstractEstimator:
    """An estimator by its name."""
    if text not in ESTIMATORS:
        raise ModelError(
            f"{place} {shown(text)} must be one of {', '.join(ESTIMATORS)}."
            f"{nearest(text.lower(), ESTIMATORS)}"
        )
    return ESTIMATORS[text]()


def read_grid(text: str, place: str) -> AbstractScheme:
    """smooth:101 or linear:51."""
    name, _, nodes = text.partition(":")
    if name not in _SCHEMES or not (nodes.isascii() and nodes.isdecimal()) or len(nodes) > 9:
        raise ModelError(
            f"{place} {shown(text)} must be one of linear:NODES and smooth:NODES, such as "
            f"smooth:101.{'' if name in _SCHEMES else nearest(name, _SCHEMES)}"
        )
    return _SCHEMES[name](int(nodes))


def read_repairs(given: Sequence[str], place: str) -> list[Repair]:
    """The repairs asked for, in order."""
    return [_repair(text, place) for text in given]


def _repair(text: str, place: str) -> Repair:
    if text in _REPAIRS:
        return _REPAIRS[text]
    if top := _TOP_CODE.fullmatch(text):
        return TopCode(int(top[1]))
    raise ModelError(
        f"{place} {shown(text)} must be one of {', '.join(_REPAIRS)}, top-code=N."
        f"{nearest(text, _REPAIRS)}"
    )
