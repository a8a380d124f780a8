"""Compiled programs, with what is known of the compiler.

XLA has two ways to write code for a CPU. Its newer one (fusion emitters) takes up to twice as long
to compile, and what it makes of our gathers and scans is no faster: so it is switched off, program
by program, where jaxlib knows the option. Programs that scatter are faster with it. Figures are in
docs/speed.md.

Where programs are kept on disk (`cache_compilations`), one that an earlier process has made is not
even traced: see `_store`.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import equinox as eqx
import jax

from pomdpfit.programs import _store
from pomdpfit.programs._call import Call, Result, take_apart, traced_result
from pomdpfit.programs._spelling import UnspelledError, spelled

_P = ParamSpec("_P")
_R = TypeVar("_R")

_QUICK = {"xla_cpu_use_fusion_emitters": False}


@overload
def program(
    function: Callable[_P, _R], *, name: str = "", scatters: bool = False
) -> Callable[_P, _R]: ...
@overload
def program(
    *, name: str = "", scatters: bool = False
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def program(
    function: Callable[_P, _R] | None = None, *, name: str = "", scatters: bool = False
) -> Any:
    """`eqx.filter_jit` for what takes long to compile; not to be called inside another program.

    name      of the function, if it has none of its own
    scatters  whether it scatters
    """
    if function is None:
        return functools.partial(program, name=name, scatters=scatters)
    return _Program(function, name or f"{function.__module__}.{function.__qualname__}", scatters)


class _Program(Generic[_P, _R]):
    def __init__(self, function: Callable[_P, _R], name: str, scatters: bool) -> None:
        self._function, self._name, self._scatters = function, name, scatters
        self._ready: dict[Hashable, Ready | None] = {}
        self._jitted: Callable | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        store = _store.current()
        call = None if store is None or kwargs else take_apart(args)
        if store is None or call is None:
            return self._in_this_process(*args, **kwargs)
        signature = call.signature
        if signature not in self._ready:
            self._ready[signature] = self._find(store, call, args)
        ready = self._ready[signature]
        if ready is None:
            return self._in_this_process(*args, **kwargs)
        compiled, result = ready
        return result.filled(compiled(*call.arrays))

    def _in_this_process(self, *args: Any, **kwargs: Any) -> _R:
        if self._jitted is None:
            self._jitted = eqx.filter_jit(self._function, **self._settings)
        return self._jitted(*args, **kwargs)

    def _find(self, store: _store.Store, call: Call, args: tuple) -> "Ready | None":
        try:
            key = spelled(self._name, self._settings, args)
        except UnspelledError:  # what is not known by its text cannot be looked up
            return None
        found = store.read(key)
        if found is not None:
            return found
        flat, result = traced_result(self._function, call)
        compiled = jax.jit(flat, **self._settings).lower(*call.arrays).compile()
        store.write(key, compiled, result())
        return compiled, result()

    @property
    def _settings(self) -> dict[str, Any]:
        return {} if self._scatters else _options()


Ready = tuple[jax.stages.Compiled, Result]


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
