"""Fingerprints of data, model and means: what must be the same before things are put together."""

import dataclasses
import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._setting import Setting
from pomdpfit._types import ArrayLike
from pomdpfit._version import __version__
from pomdpfit.baselines import MDP
from pomdpfit.streaming import PanelScan


def panel_fingerprint(panel: Panel) -> dict[str, str]:
    """A hash of each thing that a likelihood reads from a panel, by name."""
    if isinstance(panel, PanelScan):
        return {
            "files": _hash(repr([part.digest for part in panel.partitions]).encode()),
            "columns": _hash(repr(panel.columns).encode()),
            "entry epochs": _hash(repr(panel.entry).encode()),
        }
    here = panel.present
    parts = {
        "agents": repr(panel.agents).encode(),
        "rows": here,
        "entry epochs": panel.entry,
        "observations": panel.z[here],
        "actions": panel.a[panel.acted],
        "scored transitions": panel.score_observation,
        "scored choices": panel.score_choice,
        "excluded transitions": panel.informs,
    }
    parts |= {f"covariate {n}": values[here] for n, values in sorted(panel.covariates.items())}
    return {name: _hash(part) for name, part in parts.items()}


def model_fingerprint(model: Any) -> str:
    """A hash of a model's class and of every field's value."""
    return _hash(_spelled(model).encode())


def _spelled(value: Any) -> str:
    """A value in full: fields of a dataclass by name, arrays to the last bit."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _spelled(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return f"{type(value).__module__}.{type(value).__qualname__} {fields}{_own_code(value)}"
    if isinstance(value, np.ndarray | jax.Array):
        return f"array {np.asarray(value).dtype} {_hash(np.asarray(value))}"
    return repr(value)


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
        "model": model_fingerprint(setting.model),
        "prior": model_fingerprint(setting.prior),
        "grid": repr(setting.grid),
        "solver": model_fingerprint(setting.solver),
        "estimator": model_fingerprint(setting.estimator),
        "version": __version__,
    }


def theta_fingerprint(theta: Mapping[str, ArrayLike]) -> str:
    """A hash of parameter values."""
    return _hash(b"".join(n.encode() + np.asarray(v).tobytes() for n, v in theta.items()))


def difference(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Names under which two fingerprints differ."""
    return [n for n in dict.fromkeys([*left, *right]) if left.get(n) != right.get(n)]


def _hash(part: np.ndarray | bytes) -> str:
    if isinstance(part, np.ndarray):
        part = repr(part.shape).encode() + np.ascontiguousarray(part).tobytes()
    return hashlib.sha256(part).hexdigest()[:16]
