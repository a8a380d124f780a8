"""Compiled programs, with what is known of the compiler.

XLA has two ways to write code for a CPU. Its newer one (fusion emitters) takes up to twice as long
to compile, and what it makes of our gathers and scans is no faster: so it is switched off, program
by program, where jaxlib knows the option. Programs that scatter are faster with it: those are
compiled as ever, by `eqx.filter_jit`. Figures are in docs/speed.md.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

_P = ParamSpec("_P")
_R = TypeVar("_R")

_QUICK = {"xla_cpu_use_fusion_emitters": False}


def program(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`eqx.filter_jit` that compiles quickly on a CPU; not to be called inside another program."""
    compiled = functools.cache(lambda: eqx.filter_jit(function, **_options()))

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return compiled()(*args, **kwargs)

    return run


@functools.cache
def _options() -> dict[str, Any]:
    """Asked for at the first call: what is imported starts no device."""
    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(lambda: 0, compiler_options=_QUICK).lower().compile()
    except jax.errors.JaxRuntimeError:  # a jaxlib that has no such option
        return {}
    return {"compiler_options": _QUICK}
