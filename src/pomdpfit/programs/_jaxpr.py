"""A traced function in text, with all its numbers.

JAX prints its programs for people: without the constants, and with functions by their names. Here
constants are written to the last bit, and functions of unknown make are refused.
"""

import enum
import inspect
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.extend import core

from pomdpfit.programs._errors import UnspelledError

# Where rules for derivatives may come from: what versions, or our own source, stand for.
_KNOWN = tuple(
    f"{Path(place).parent}{os.sep}"
    for place in (jax.__file__, eqx.__file__, str(Path(__file__).parent))
    if place is not None
)


def jaxpr_text(closed: core.ClosedJaxpr) -> str:
    """The text, or UnspelledError."""
    constants = [_number(value) for value in closed.consts]
    return f"{constants} {_body(closed.jaxpr)}"


def _body(jaxpr: core.Jaxpr) -> str:
    names: dict[Any, str] = {}

    def name(variable: Any) -> str:
        if isinstance(variable, core.Literal):
            return _number(variable.val)
        return names.setdefault(variable, f"v{len(names)}:{variable.aval.str_short()}")

    lines = [repr([name(v) for v in (*jaxpr.constvars, *jaxpr.invars)])]
    for eqn in jaxpr.eqns:
        read, made = ([name(v) for v in group] for group in (eqn.invars, eqn.outvars))
        lines.append(f"{made} {eqn.primitive.name} {_parameters(eqn)} {read}")
    return "\n".join([*lines, repr([name(v) for v in jaxpr.outvars])])


def _parameters(eqn: core.JaxprEqn) -> str:
    params = dict(eqn.params)
    if eqn.primitive.name.startswith("custom_"):
        _require_known(params)
        params = {n: value for n, value in params.items() if not callable(value)}
        params.pop("jvp_jaxpr_fun", None)
    return repr({n: _parameter(value) for n, value in sorted(params.items())})


def _require_known(params: dict[str, Any]) -> None:
    """A rule of the user's own for derivatives may change while the function stays."""
    inner = params.get("call_jaxpr", params.get("fun_jaxpr"))
    about = getattr(getattr(inner, "jaxpr", inner), "debug_info", None)
    place = getattr(about, "func_filename", None) or ""
    if not place.startswith(_KNOWN):
        raise UnspelledError(f"a rule for derivatives of {place}")


def _parameter(value: Any) -> str:
    if isinstance(value, core.ClosedJaxpr):
        return jaxpr_text(value)
    if isinstance(value, core.Jaxpr):
        return _body(value)
    if isinstance(value, tuple | list):
        return repr([_parameter(part) for part in value])
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return _number(value)
    text = str(value) if isinstance(value, enum.Enum) else repr(value)
    if "<" in text or inspect.isroutine(value):  # known by where it lies, not by what it is
        raise UnspelledError(text)
    return text


def _number(value: Any) -> str:
    array = np.asarray(value)
    return f"{array.dtype}{array.shape} {array.tobytes().hex()}"
