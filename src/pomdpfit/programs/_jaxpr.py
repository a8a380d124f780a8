"""A traced function in text, with all its numbers.

JAX prints its programs for people: without the constants, and with functions by their names. Here
constants are written to the last bit, and functions refused. A rule of the user's own for forward
derivatives is not told: it is part of what differentiating makes, which is to be told as well.
"""

import enum
import hashlib
import inspect
from typing import Any

import jax
import numpy as np
from jax.extend import core

from pomdpfit.programs._errors import UnspelledError

_SHORT = 200  # letters


def jaxpr_text(closed: core.ClosedJaxpr) -> str:
    """The text, or UnspelledError; long ones by their hash, since they stand in one another."""
    constants = [_number(value) for value in closed.consts]
    return shortened(f"{constants} {_body(closed.jaxpr)}")


def shortened(text: str) -> str:
    """The text itself, or a hash of it."""
    return text if len(text) <= _SHORT else hashlib.sha256(text.encode()).hexdigest()


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
    if eqn.primitive.name == "custom_jvp_call":
        params.pop("jvp_jaxpr_fun", None)
    elif eqn.primitive.name.startswith("custom_vjp") or eqn.primitive.name == "custom_lin":
        raise UnspelledError("a rule for reverse derivatives")
    return repr({n: _parameter(value) for n, value in sorted(params.items())})


def _parameter(value: Any) -> str:
    if isinstance(value, core.ClosedJaxpr):
        return jaxpr_text(value)
    if isinstance(value, core.Jaxpr):
        return shortened(_body(value))
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
    return shortened(f"{array.dtype}{array.shape} {array.tobytes().hex()}")
