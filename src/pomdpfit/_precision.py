"""64-bit floats: switched on in one place, on the first use of a public function.

At a discount of 0.9999 a float32 value function is off by 0.4; nothing here works without float64.
"""

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

from pomdpfit._errors import PrecisionError
from pomdpfit._whole_loops import ask_for_whole_loops

_P = ParamSpec("_P")
_R = TypeVar("_R")
_switched_on = False


def require_float64() -> None:
    """Enable 64-bit floats in JAX, or say plainly that the user has turned them off.

    Whoever comes first comes before JAX, mostly: the time for what it reads once.
    """
    ask_for_whole_loops()
    global _switched_on  # noqa: PLW0603  (one flag for one process-wide JAX setting)
    if jax.config.read("jax_enable_x64"):
        _switched_on = True
        return
    asked_off = os.environ.get("JAX_ENABLE_X64", "").lower() in {
        "0",
        "f",
        "n",
        "false",
        "off",
        "no",
    }
    if asked_off or _switched_on:
        where = "the environment variable JAX_ENABLE_X64" if asked_off else "jax.config"
        raise PrecisionError(
            f"pomdpfit needs 64-bit floats, but {where} turns them off. Remove that setting, or "
            "call jax.config.update('jax_enable_x64', True) before you use pomdpfit."
        )
    jax.config.update("jax_enable_x64", True)
    _switched_on = True


def in_float64(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a public function require 64-bit floats before it does anything else."""

    @functools.wraps(function)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        require_float64()
        return function(*args, **kwargs)

    return wrapped
