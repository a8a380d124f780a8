"""What one needs to get the same numbers again: the call, the data, the versions."""

import dataclasses
import hashlib
import inspect
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

import jax
import numpy as np
import pandas as pd

from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import fingerprint, panel_fingerprint
from pomdpfit._version import __version__
from pomdpfit.report._blocks import Block, Bullets, Section, Table, Text
from pomdpfit.report.estimate._piece import Piece

_PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy", "pandas", "matplotlib", "jinja2")
_LONGEST = 2000  # characters of one argument in the call that is printed


def reproducibility_piece(estimate: Estimate, written: str) -> Piece:
    """The call, what it was given, with what it ran; `written` is the only clock in the page."""
    data = panel_fingerprint(estimate.panel)
    whole = hashlib.sha256(repr(sorted(data.items())).encode()).hexdigest()[:16]
    rows = {
        "seed": str(estimate.seed),
        "data": f"{estimate.panel!r}",
        "fingerprint of the data": whole,
        "fingerprint of the model": _model_fingerprint(estimate),
        "fingerprint of the estimate": fingerprint(estimate.theta),
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
    lead = (
        "The same call on the same data with the same versions gives the same estimate. In it "
        "`pf` is pomdpfit, `panel` the panel, `est` this estimate (pf.load of its file), and a "
        "name without pf. a class of your own."
    )
    if not estimate.arguments:
        lead += " Where its search started was not stored: add start= where it was given."
    return Piece(Section("Reproducibility", lead, tuple(blocks)))


def _model_fingerprint(estimate: Estimate) -> str:
    return "not at hand" if estimate.model is None else fingerprint(estimate.model)


def call_of(estimate: Estimate) -> str:
    """The call of `pf.fit` that gives the estimate again, to be pasted; `panel` is its panel.

    What is too long for a line is read off `est`, which is the estimate itself.
    """
    setting, given = estimate.setting, estimate.arguments or _arguments_of(estimate)
    parts = [
        "model" if setting.model is None else code_or_name(setting.model, "est.model"),
        "panel",
        code_or_name(setting.estimator, "est.setting.estimator"),
    ]
    for name in ("prior", "grid", "solver"):
        value = getattr(setting, name)
        if value is not None:
            parts.append(f"{name}={code_or_name(value, f'est.setting.{name}')}")
    for name, value in given.items():
        if name == "seed" or not (value is None or value is False or value in ({}, [])):
            parts.append(f"{name}={code_or_name(value, f'est.arguments[{name!r}]')}")
    return f"pf.fit({', '.join(parts)})".replace("`", "\\x60")  # which would end the code


def _arguments_of(estimate: Estimate) -> dict[str, Any]:
    """The arguments as far as an estimate without them knows: the search's start is not there."""
    entries = estimate.space.to_series(estimate.theta)
    whole = lambda name: name in estimate.space.parameters
    value = lambda name: estimate.theta[name].tolist() if whole(name) else float(entries[name])
    fixed = {name: value(name) for name in estimate.fixed}
    single = [f"{name} = {v!r}" for name, v in fixed.items() if not whole(name)]
    return {
        "starts": len(estimate.starts),
        "fixed": fixed,
        "free": list(estimate.freed),
        "constraints": [text for text in estimate.restrictions if text not in single],
        "seed": estimate.seed,
    }


def code_or_name(value: Any, name: str) -> str:
    """The code that makes a value; the name under which it is found where there is none or much."""
    try:
        code = code_of(value)
    except LookupError:
        return name
    return code if len(code) <= _LONGEST else name


def code_of(value: Any) -> str:
    """A value as Python makes it: an object by its constructor, with what is not the default."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{code_of(n)}: {code_of(v)}' for n, v in value.items())}}}"
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        inner = ", ".join(map(code_of, value))
        one = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"({inner}{one})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return " ".join(repr(value).split())
    given = [
        (name, getattr(value, kept))
        for name, kept, default in _options(type(value))
        if fingerprint(getattr(value, kept)) != fingerprint(default)
    ]
    return f"{_public_name(type(value))}({', '.join(f'{n}={code_of(v)}' for n, v in given)})"


def _options(cls: type) -> Iterator[tuple[str, str, Any]]:
    """Each argument of the constructor: its name, the field that keeps it, its default."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name, argument in inspect.signature(cls).parameters.items():
        kept = next((k for k in (name, f"default_{name}") if k in fields), f"{name}_table")
        if not hasattr(cls, kept) and kept not in fields:
            raise LookupError(f"{cls.__name__} does not keep its argument {name}")
        make = fields[kept].default_factory if kept in fields else dataclasses.MISSING
        yield name, kept, argument.default if make is dataclasses.MISSING else make()


def _public_name(cls: type) -> str:
    """Under which the package has a class; a class of the user's own has its own name."""
    import pomdpfit as pf

    for place, module in (("pf", pf), ("pf.models", pf.models), ("pf.baselines", pf.baselines)):
        if getattr(module, cls.__name__, None) is cls:
            return f"{place}.{cls.__name__}"
    return cls.__name__
