"""Objects as {"Class": {"option": ...}}, for a closed list of classes: no other code is reached."""

import inspect
import numbers
from typing import Any

from pomdpfit._constraints import AbstractConstraint, Interval, Positive, Real, Simplex
from pomdpfit._errors import EstimationError
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
from pomdpfit._shown import shown
from pomdpfit.baselines import MDP, BusEngine
from pomdpfit.data._columns import Columns
from pomdpfit.estimators._base import BHHH, AbstractEstimator, AbstractOptimiser
from pomdpfit.estimators._joint import Joint
from pomdpfit.estimators._soft_policy_gradient import SoftPolicyGradient
from pomdpfit.estimators._two_stage import TwoStage
from pomdpfit.inference._information import Information
from pomdpfit.models import (
    EngineReplacement,
    EquipmentInspection,
    Grouped,
    PomdpFile,
    Tabular,
    Tiger,
)
from pomdpfit.models._sizes import within_memory
from pomdpfit.packing._values import Reader, Writer
from pomdpfit.solvers import AbstractSolver, Newton, RelativeValueIteration
from pomdpfit.streaming._partition import Partition
from pomdpfit.streaming._scan import PanelScan

_MODELS = (EngineReplacement, EquipmentInspection, Tiger, Tabular, PomdpFile, BusEngine)
# Options that a model keeps under longer names, theirs being taken by methods.
_KEPT_AS = {"discount": "default_discount", "reward": "reward_table"}
_CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(Estimate, Setting, Information, Panel, Parameter, ParameterSpace),
        *(PanelScan, Partition, Columns),
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
    "panel": Panel | PanelScan,
    "columns": Columns,
    "partitions": tuple,
    "model": Model | MDP,
    "prior": AbstractPrior,
    "grid": AbstractScheme,
    "solver": AbstractSolver,
    "estimator": AbstractEstimator,
    "optimiser": AbstractOptimiser,
    "constraint": AbstractConstraint,
    "discount": numbers.Real,
    "scale": numbers.Real,
}
_OPTION_TYPES = {int: numbers.Integral, float: numbers.Real, str: str}


def ready(model: Any) -> Any:
    """The model if it is one of the package's own, else None."""
    inner = model.model if type(model) is Grouped else model
    return model if type(inner) in _MODELS else None


def _options(cls: type) -> list[str]:
    return list(inspect.signature(cls).parameters)


def pack_object(value: Any, writer: Writer) -> dict:
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
        attribute = _KEPT_AS.get(name, name) if cls in _MODELS else name
        try:
            packed[name] = writer.encode(getattr(value, attribute))
        except EstimationError as error:
            raise EstimationError(f"{name}: {error}") from error
    return {cls.__name__: packed}


def unpack_object(name: str, content: Any, reader: Reader) -> Any:
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
            raise ValueError(f"the {option} of {name} cannot be {shown(value)}.")
    # A PomdpFile checks its own tables, which are in the file: they are as large as it is.
    if cls not in _MODELS or cls is PomdpFile:
        return cls(**options)
    _check_options(cls, options)
    return within_memory(cls(**options))


def _check_options(cls: type, options: dict[str, Any]) -> None:
    """Refuse options of a model that its constructor would keep, to fail when it is used."""
    known = inspect.signature(cls).parameters
    for option, value in options.items():
        kind = _OPTION_TYPES[known[option].annotation]
        if isinstance(value, bool) or not isinstance(value, kind):
            raise ValueError(f"the {option} of {cls.__name__} cannot be {shown(value)}.")
