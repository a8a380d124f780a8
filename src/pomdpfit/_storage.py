"""Estimates as files: a zip of one JSON and npy arrays, from which no code is ever run.

Classes are named in the JSON, but looked up in the closed list below: an unknown name is refused.
"""

import dataclasses
import inspect
import io
import json
import numbers
import re
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from pomdpfit._constraints import AbstractConstraint, Interval, Positive, Real, Simplex
from pomdpfit._errors import EstimationError, Result
from pomdpfit._estimate import Estimate
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._priors import (
    AbstractPrior,
    AgentPriors,
    CommonPrior,
    KnownPrior,
    StationaryPrior,
)
from pomdpfit._schemes import AbstractScheme, Linear, Smooth
from pomdpfit._setting import Setting
from pomdpfit._storage_values import (
    Reader,
    Writer,
    check_panel,
    npy_array,
    npy_bytes,
    require_shape,
)
from pomdpfit._version import __version__
from pomdpfit._write import write_atomically
from pomdpfit.baselines import MDP, BusEngine
from pomdpfit.estimators._base import BHHH, AbstractEstimator, AbstractOptimiser
from pomdpfit.estimators._joint import Joint
from pomdpfit.estimators._soft_policy_gradient import SoftPolicyGradient
from pomdpfit.estimators._two_stage import TwoStage
from pomdpfit.inference._information import Information
from pomdpfit.models import EngineReplacement, EquipmentInspection, Grouped, Tiger
from pomdpfit.solvers import AbstractSolver, Newton, RelativeValueIteration

_FORMAT, _VERSION = "pomdpfit-estimate", 1
_JSON = "estimate.json"
_MEMBER = re.compile(r"estimate\.json|\d{4,8}\.npy")
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MOST_BYTES = 2**31  # of everything, unpacked
_MOST_JSON = 2**28
_MOST_BINS = 10**6  # of a model: beyond that its parameters alone would fill the memory

_MODELS = (EngineReplacement, EquipmentInspection, Tiger, BusEngine)
_CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(Estimate, Setting, Information, Panel, Parameter, ParameterSpace),
        *(Real, Positive, Interval, Simplex),
        *(KnownPrior, CommonPrior, AgentPriors, StationaryPrior),
        *(Linear, Smooth, Newton, RelativeValueIteration),
        *(TwoStage, Joint, SoftPolicyGradient, BHHH),
        *(*_MODELS, Grouped),
    )
}
# What may stand in a field; None too where the class is Setting.
_SLOTS: dict[str, Any] = {
    "setting": Setting,
    "information": Information,
    "space": ParameterSpace,
    "panel": Panel,
    "model": Model | MDP,
    "prior": AbstractPrior,
    "grid": AbstractScheme,
    "solver": AbstractSolver,
    "estimator": AbstractEstimator,
    "optimiser": AbstractOptimiser,
    "constraint": AbstractConstraint,
}
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("restrictions", "boundary", "derived", "fixed", "freed", "traces"), tuple),
    **dict.fromkeys(("steps", "dimension", "incidental", "seed"), numbers.Integral),
    **dict.fromkeys(("gain", "seconds"), numbers.Real),
    **dict.fromkeys(("reason", "version"), str),
    **dict.fromkeys(("modes", "starts"), pd.DataFrame),
    "agent_priors": pd.DataFrame | None,
    "result": Result,
    "theta": dict,
}
# All that reading a file which is not what it should be can raise.
_MALFORMED = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError),
    *(TypeError, ValueError, struct.error, zipfile.BadZipFile, zlib.error),
)


def save(estimate: Estimate, path: str | Path) -> None:
    """Write everything but the model's code to `path`, whole or not at all.

    The same estimate gives the same bytes. A model of your own is not stored: hand it to `load`.
    """
    setting = dataclasses.replace(estimate.setting, model=_ready(estimate.setting.model))
    writer = Writer(_pack_object)
    try:
        content = writer.encode(dataclasses.replace(estimate, setting=setting))
    except EstimationError as error:
        raise EstimationError(f"the estimate cannot be saved: {error}") from error
    header = {"format": _FORMAT, "format_version": _VERSION, "version": __version__}
    text = json.dumps({**header, "estimate": content}, sort_keys=True, allow_nan=False)
    files = {_JSON: text.encode()}
    files |= {name: npy_bytes(array) for name, array in writer.arrays.items()}
    if len(text) > _MOST_JSON or sum(map(len, files.values())) > _MOST_BYTES:
        raise EstimationError(
            f"the estimate is too large to be saved: load would refuse more than {_MOST_BYTES:,} "
            f"bytes, of which {_MOST_JSON:,} in {_JSON}."
        )
    write_atomically(Path(path), _zipped(files))


def load(path: str | Path, model: Any = None) -> Estimate:
    """The estimate that `save` wrote, to the last bit; no code in the file is run.

    Parameters, covariances, tables, panel and means come back as they were, and ready models too.
    A model of your own must be handed over for what needs it (predictions, simulation, other
    data): the rest does without. A model that is handed over must have the stored parameters. A
    file that is damaged, of another kind or of a later format raises `EstimationError`.
    """
    path = Path(path)
    with path.open("rb") as stream:
        try:
            estimate = _read(stream)
        except _MALFORMED as error:
            raise EstimationError(f"{path} cannot be loaded as an estimate: {error}") from error
    model = estimate.setting.model if model is None else model
    if model is not None:
        _require_same_parameters(path, model, estimate)
    return dataclasses.replace(estimate, setting=dataclasses.replace(estimate.setting, model=model))


# ---- the zip -----------------------------------------------------------------------------------


def _zipped(files: dict[str, bytes]) -> bytes:
    """A zip without a clock, a user or a system in it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.compress_type, member.create_system = zipfile.ZIP_DEFLATED, 3
            member.external_attr = 0o644 << 16
            archive.writestr(member, content)
    return stream.getvalue()


def _read(stream: IO[bytes]) -> Estimate:
    with zipfile.ZipFile(stream) as archive:
        members = _members(archive)
        content = _content(_unzipped(archive, members.pop(_JSON)))

        def fetch(name: str) -> np.ndarray:
            if name not in members:
                raise ValueError(f"the array {name!r} is missing, or is used twice.")
            return npy_array(_unzipped(archive, members.pop(name)))

        estimate = Reader(fetch, _unpack_object).decode(content)
    if not isinstance(estimate, Estimate):
        raise ValueError(f"{_JSON} holds no Estimate, but {type(estimate).__name__}.")
    _check(estimate)
    return estimate


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """What the zip's directory lists, refused by name and size before anything is unpacked."""
    members = {member.filename: member for member in archive.infolist()}
    strange = [name for name in members if not _MEMBER.fullmatch(name)]
    if strange:
        raise ValueError(f"it holds {strange[0]!r}, which is no part of an estimate.")
    if len(members) < len(archive.infolist()):
        raise ValueError("it holds two files of the same name.")
    if _JSON not in members:
        raise ValueError(f"it has no {_JSON}.")
    size = sum(member.file_size for member in members.values())
    if size > _MOST_BYTES or members[_JSON].file_size > _MOST_JSON:
        raise ValueError(f"it would unpack to {size:,} bytes, more than an estimate may have.")
    if any(member.compress_type not in _PACKINGS for member in members.values()):
        raise ValueError("it is packed in another way than deflate.")
    return members


def _unzipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """As many bytes as the directory lists: read() without a number could unpack far more."""
    with archive.open(member) as file:
        content = file.read(member.file_size)
    if len(content) != member.file_size:
        raise ValueError(f"{member.filename} is cut short.")
    return content


def _content(text: bytes) -> Any:
    """The estimate inside the JSON, if format and version are known."""
    header = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(f"{_JSON} does not say that its format is {_FORMAT!r}.")
    version = header.get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError(f"{_JSON} has no format_version, but {version!r}.")
    if version > _VERSION:
        raise ValueError(
            f"it has format {version}, written by pomdpfit {header.get('version')}; this version, "
            f"{__version__}, reads up to {_VERSION}. Upgrade pomdpfit."
        )
    unknown = sorted(set(header) - {"format", "format_version", "version", "estimate"})
    if unknown:
        raise ValueError(f"{_JSON} has an unknown field {unknown[0]!r}.")
    return header["estimate"]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{_JSON} holds {name}, which is not JSON.")


# ---- objects -----------------------------------------------------------------------------------


def _ready(model: Any) -> Any:
    """The model if it is one of the package's own, else None."""
    inner = model.model if type(model) is Grouped else model
    return model if type(inner) in _MODELS else None


def _options(cls: type) -> list[str]:
    return list(inspect.signature(cls).parameters)


def _pack_object(value: Any, writer: Writer) -> dict:
    """{"Class": {"option": ...}} for a class on the list (no subclass: that is other code)."""
    cls = type(value)
    if cls not in _CLASSES.values():
        raise EstimationError(
            f"there is no stored form for {value!r:.80} of {cls}. Ids, times and labels may be "
            "numbers, strings, dates or tuples of these; constraints, priors, grids, solvers and "
            "estimators must be the package's own."
        )
    packed = {}
    for name in _options(cls):
        # Ready models keep the discount's example value under a longer name.
        attribute = "default_discount" if cls in _MODELS and name == "discount" else name
        try:
            packed[name] = writer.encode(getattr(value, attribute))
        except EstimationError as error:
            raise EstimationError(f"{name}: {error}") from error
    return {cls.__name__: packed}


def _unpack_object(name: str, content: Any, reader: Reader) -> Any:
    if name not in _CLASSES:
        raise ValueError(f"it names {name!r}, which is nothing that an estimate is made of.")
    cls = _CLASSES[name]
    unknown = sorted(set(content) - set(_options(cls)))
    if unknown:
        raise ValueError(f"it gives {name} an unknown field {unknown[0]!r}.")
    options = {option: reader.decode(written) for option, written in content.items()}
    for option, value in options.items():
        allowed = _SLOTS.get(option, object)
        if not (isinstance(value, allowed) or (cls is Setting and value is None)):
            raise ValueError(f"the {option} of {name} cannot be {value!r:.80}.")
        if cls in _MODELS and isinstance(value, int) and value > _MOST_BINS:
            raise ValueError(f"the {option} of {name} is {value}, too many for a model.")
    return cls(**options)


# ---- what must go together ---------------------------------------------------------------------


def _check(estimate: Estimate) -> None:
    """Refuse parts of the wrong type, and arrays that do not fit one another."""
    for name, kind in _TYPES.items():
        if not isinstance(getattr(estimate, name), kind):
            raise ValueError(f"{name} cannot be {getattr(estimate, name)!r:.80}.")
    check_panel(estimate.panel)
    space, information = estimate.space, estimate.information
    if list(estimate.theta) != list(space.parameters):
        raise ValueError("theta and space have different parameters.")
    for name, parameter in space.parameters.items():
        require_shape(f"theta's {name}", estimate.theta[name], parameter.shape, "f")
    stray = {*information.entries, *estimate.boundary, *estimate.derived} - set(space.names)
    if stray or not set(information.names) <= set(information.entries):
        raise ValueError(f"there are names of unknown entries: {sorted(stray)}.")
    N, n, p = len(estimate.panel.agents), len(information.entries), len(information.names)
    require_shape("terms", estimate.terms, (N, 2), "f")
    require_shape("the jacobian", information.jacobian, (n, p), "f")
    require_shape("scores", information.scores, (N, 2, p), "f")
    require_shape("the hessian", information.hessian, (p, p), "f")
    if information.first is not None:
        require_shape("first", information.first, (p,), "b")


def _require_same_parameters(path: Path, model: Any, estimate: Estimate) -> None:
    """Refuse a model whose parameters differ from the stored ones in name, shape or labels."""
    if not isinstance(model, Model | MDP):
        raise EstimationError(
            f"the model must be a pf.Model or a baselines.MDP, not {model!r:.80}."
        )
    stored, found = dict(estimate.space.parameters), dict(model.space().parameters)
    prior = estimate.setting.prior
    states = getattr(model, "state_labels", lambda: None)()
    if prior is not None and states is not None:
        found |= prior.space(states).parameters
    elif prior is not None:
        found |= {n: stored[n] for n in prior.space(("",)).parameters if n in stored}
    for name in dict.fromkeys([*stored, *found]):
        if name not in stored or name not in found:
            where = "model" if name in found else "file"
            raise EstimationError(
                f"{path} was made with another model: only the {where} has a parameter {name!r}."
            )
        file_has, model_has = stored[name].entry_names(name), found[name].entry_names(name)
        if file_has.shape != model_has.shape or (file_has != model_has).any():
            raise EstimationError(
                f"{path} was made with another model: there {name!r} has the entries "
                f"{', '.join(file_has.flat)}, but in the model {', '.join(model_has.flat)}."
            )
