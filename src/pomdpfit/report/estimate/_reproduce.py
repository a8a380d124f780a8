"""What one needs to get the same numbers again: the call, the data, the versions."""

import dataclasses
import hashlib
import platform
from importlib import metadata
from typing import Any

import pandas as pd

from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import model_fingerprint, panel_fingerprint, theta_fingerprint
from pomdpfit._model import Model
from pomdpfit._version import __version__
from pomdpfit.report._blocks import Block, Bullets, Section, Table, Text
from pomdpfit.report.estimate._piece import Piece

_PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy", "pandas", "matplotlib", "jinja2")


def reproducibility_piece(estimate: Estimate, written: str) -> Piece:
    """The call, what it was given, with what it ran; `written` is the only clock in the page."""
    data = panel_fingerprint(estimate.panel)
    whole = hashlib.sha256(repr(sorted(data.items())).encode()).hexdigest()[:16]
    rows = {
        "seed": str(estimate.seed),
        "data": f"{estimate.panel!r}",
        "fingerprint of the data": whole,
        "fingerprint of the model": _model_fingerprint(estimate),
        "fingerprint of the estimate": theta_fingerprint(estimate.theta),
        "fitted with": f"pomdpfit {estimate.version or 'unknown'}, in {estimate.seconds:.1f} s",
        "report by": f"pomdpfit {__version__}, Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES),
        "written": written,
    }
    table = pd.DataFrame({"value": rows}).rename_axis("")
    parts = pd.DataFrame({"fingerprint": data}).rename_axis("part")
    blocks: list[Block] = [
        Text((f"`{call_of(estimate)}`",)),
        Table("origin", table, "Where these numbers come from."),
        Table("data", parts, "Fingerprints of the data, part by part (SHA-256, 16 digits)."),
    ]
    if estimate.panel.notes:
        blocks.append(Bullets(tuple(map(str, estimate.panel.notes))))
    lead = "The same call on the same data with the same versions gives the same estimate."
    return Piece(Section("Reproducibility", lead, tuple(blocks)))


def _model_fingerprint(estimate: Estimate) -> str:
    return "not at hand" if estimate.model is None else model_fingerprint(estimate.model)


def call_of(estimate: Estimate) -> str:
    """The call of `pf.fit` in words, from what the estimate knows of it."""
    setting = estimate.setting
    values = estimate.space.to_series(estimate.theta)
    entries = lambda name: (
        estimate.space.parameters[name].entry_names(name).flat
        if name in estimate.space.parameters
        else [name]
    )
    fixed = ", ".join(f"{e}={values[e]:.6g}" for name in estimate.fixed for e in entries(name))
    options = {
        "prior": setting.prior,
        "grid": setting.grid,
        "solver": setting.solver,
        "free": list(estimate.freed) or None,
        "constraints": list(estimate.restrictions) or None,
        "starts": len(estimate.starts),
        "seed": estimate.seed,
    }
    shown = [f"{name}={_one_line(v)}" for name, v in options.items() if v is not None]
    shown += [f"fixed=({fixed})"] if fixed else []
    head = [model_call(setting.model), "panel", _one_line(setting.estimator)]
    return f"pf.fit({', '.join(head + shown)})".replace("`", "'")


def model_call(model: Any) -> str:
    """A ready model as it was made: what differs from the defaults, under the arguments' names."""
    if not isinstance(model, Model) or not dataclasses.is_dataclass(model):
        return _one_line(model)
    given = {
        field.name.removeprefix("default_"): getattr(model, field.name)
        for field in dataclasses.fields(model)
        if not _is_default(getattr(model, field.name), field.default)
    }
    shown = ", ".join(f"{name}={_one_line(value)}" for name, value in given.items())
    return f"{type(model).__name__}({shown})"


def _is_default(value: Any, default: Any) -> bool:
    """By value: texts of a model that was loaded are equal to the defaults, but not the same."""
    plain = isinstance(value, str | int | float | None)
    return value is default or (plain and type(value) is type(default) and value == default)


def _one_line(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 300 else f"{text[:297]}..."
