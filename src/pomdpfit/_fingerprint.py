"""Fingerprints of data, model and means: what must be the same before things are put together."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from pomdpfit._panel import Panel


def panel_fingerprint(panel: Panel) -> dict[str, str]:
    """A hash of each thing that a likelihood reads from a panel, by name."""
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
        return f"{type(value).__module__}.{type(value).__qualname__} {fields}"
    if isinstance(value, np.ndarray | jax.Array):
        return f"array {np.asarray(value).dtype} {_hash(np.asarray(value))}"
    return repr(value)


def theta_fingerprint(theta: Mapping[str, np.ndarray]) -> str:
    """A hash of parameter values."""
    return _hash(b"".join(n.encode() + np.asarray(v).tobytes() for n, v in theta.items()))


def difference(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Names under which two fingerprints differ."""
    return [n for n in dict.fromkeys([*left, *right]) if left.get(n) != right.get(n)]


def _hash(part: np.ndarray | bytes) -> str:
    if isinstance(part, np.ndarray):
        part = repr(part.shape).encode() + np.ascontiguousarray(part).tobytes()
    return hashlib.sha256(part).hexdigest()[:16]
