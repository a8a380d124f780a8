"""Fingerprints of data, model and means: what must be the same before things are put together.

Things are the same if their values are: a list and an array of the same numbers, 1 and 1.0, agents
whose names were read as text or as numbers.
"""

import dataclasses
import hashlib
import inspect
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._priors import AbstractPrior, KnownPrior
from pomdpfit._setting import Setting
from pomdpfit._version import __version__
from pomdpfit.baselines import MDP
from pomdpfit.streaming import PanelScan


def panel_fingerprint(panel: Panel) -> dict[str, str]:
    """A hash of each thing that a likelihood reads from a panel, by name."""
    if isinstance(panel, PanelScan):
        return {
            "files": fingerprint([part.digest for part in panel.partitions]),
            "columns": fingerprint(panel.columns),
            "entry epochs": fingerprint(panel.entry),
        }
    here = panel.present
    parts = {
        "agents": [_agent_name(agent) for agent in panel.agents],
        "rows": here,
        "entry epochs": panel.entry,
        "observations": panel.z[here],
        "actions": panel.a[panel.acted],
        "scored transitions": panel.score_observation,
        "scored choices": panel.score_choice,
        "excluded transitions": panel.informs,
    }
    parts |= {f"covariate {n}": values[here] for n, values in sorted(panel.covariates.items())}
    return {name: fingerprint(part) for name, part in parts.items()}


def _agent_name(agent: Hashable) -> str:
    """As a text file would have it: 7, 7.0 and "7" are one agent."""
    if isinstance(agent, tuple):  # a part of one that was split
        return f"({', '.join(map(_agent_name, agent))})"
    whole = isinstance(agent, float | np.floating) and float(agent).is_integer()
    return str(int(agent) if whole else agent)  # type: ignore[call-overload]


def prior_fingerprint(prior: AbstractPrior | None, panel: Panel) -> str:
    """A hash of what a prior says of the agents of a panel, however it was written."""
    if isinstance(prior, KnownPrior) and not isinstance(panel, PanelScan):
        rows = prior.rows(panel.agents)
        if rows.shape[-1] == 1:  # one hidden state: there is but one belief
            return fingerprint(None)
        return fingerprint(rows[:1] if (rows == rows[:1]).all() else rows)
    return fingerprint(prior)


def fingerprint(value: Any) -> str:
    """A hash of a value; of an object its class and the values of its fields."""
    return _hash(_spelled(value))


def _spelled(value: Any) -> str:
    """A value in full: fields of a dataclass by name, numbers to the last bit."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _spelled(getattr(value, f.name)) for f in dataclasses.fields(value)}
        code = _own_code(value)
        module = "" if code else f"{type(value).__module__}."  # the same code by any other name
        return f"{module}{type(value).__qualname__} {fields}{code}"
    if isinstance(value, Mapping):
        return f"mapping {sorted((str(n), _spelled(v)) for n, v in value.items())}"
    if isinstance(value, set | frozenset):
        return f"set {sorted(map(_spelled, value))}"
    value = value.item() if isinstance(value, np.generic) else value
    numbers = None if isinstance(value, bool | str | None) else _as_numbers(value)
    if numbers is not None:
        return f"numbers {numbers.shape} {_hash(numbers.tobytes())}"
    if isinstance(value, list | tuple | np.ndarray):
        return f"list {[_spelled(part) for part in value]}"
    return repr(value)


def _as_numbers(value: Any) -> np.ndarray | None:
    """A number, or an array or list of numbers, as floats; None for what is none or too large."""
    try:
        found = np.asarray(value)
    except ValueError:  # rows of different lengths
        return None
    if found.dtype.kind not in "biuf":
        return None
    floats = found.astype(np.float64) + 0.0  # no negative zeros
    exact = found.dtype.kind == "f" or (floats.astype(found.dtype) == found).all()
    return np.ascontiguousarray(floats) if exact else None


def _own_code(value: Any) -> str:
    """The text of classes that are not the package's: a user may have changed what they do."""
    texts = []
    for cls in type(value).__mro__:
        if issubclass(cls, Model | MDP) and not cls.__module__.startswith("pomdpfit."):
            try:
                texts.append(inspect.getsource(cls))
            except (OSError, TypeError):  # typed in by hand: there is no text to be had
                continue
    return "".join(texts)


def setting_fingerprint(setting: Setting) -> dict[str, Any]:
    """All that a fit depends on beside its parameters and its start, by name."""
    return {
        **{f"panel: {n}": h for n, h in panel_fingerprint(setting.panel).items()},
        "model": fingerprint(setting.model),
        "prior": prior_fingerprint(setting.prior, setting.panel),
        "grid": fingerprint(setting.grid),
        "solver": fingerprint(setting.solver),
        "estimator": fingerprint(setting.estimator),
        "version": __version__,
    }


def difference(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Names under which two fingerprints differ."""
    return [n for n in dict.fromkeys([*left, *right]) if left.get(n) != right.get(n)]


def _hash(part: str | bytes) -> str:
    data = part.encode() if isinstance(part, str) else part
    return hashlib.sha256(data).hexdigest()[:16]
