"""Compiled programs, with what is known of the compiler.

XLA has two ways to write code for a CPU. Its newer one (fusion emitters) takes up to twice as long
to compile, and what it makes of our gathers and scans is no faster: so it is switched off, program
by program, where jaxlib knows the option. Scatters would run faster with it, which saves less than
it costs to compile. Programs that are `light` are optimised less, which takes a fifth less time: it
makes no difference to what runs over a model once, little to what runs over a panel, and none to
sweeps with linear interpolation; those with slopes would take a fifth longer. A level of
optimisation that XLA_FLAGS asks for holds for all programs instead. And XLA cuts a
program in pieces that it compiles side by side: where other programs keep all cores busy, that
takes a tenth longer. Figures are in docs/speed.md.

Who knows what will be asked can have it compiled ahead (`Program.prepare`): several programs are
then compiled side by side, while others are still traced. Where programs are kept on disk
(`cache_compilations`), one that an earlier process has made is not even traced: see `_store`.
"""

import contextlib
import dataclasses
import functools
import gc
import os
import time
import weakref
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._whole_loops import answered
from pomdpfit.programs import _store
from pomdpfit.programs._call import Call, Result, sketch, take_apart, traced_result
from pomdpfit.programs._jaxs_cache import read_by_jax
from pomdpfit.programs._spelling import spelled, still_true

_P = ParamSpec("_P")
_R = TypeVar("_R")

_QUICK = {"xla_cpu_use_fusion_emitters": False}
_IN_ONE_PIECE = {"xla_cpu_parallel_codegen_split_count": 1}
_LIGHT = {"xla_backend_optimization_level": 1}  # of 3
_MOST_AT_A_TIME = 4
_WHOLE = "xla_cpu_small_call"  # as the compiler marks such loops


_Light = bool | Callable[..., bool]  # of the arguments of a call


@overload
def program(
    function: Callable[_P, _R], *, name: str = "", light: _Light = False
) -> "Program[_P, _R]": ...
@overload
def program(
    *, name: str = "", light: _Light = False
) -> "Callable[[Callable[_P, _R]], Program[_P, _R]]": ...
def program(
    function: Callable[_P, _R] | None = None, *, name: str = "", light: _Light = False
) -> Any:
    """`eqx.filter_jit` for what takes long to compile.

    name   of the function, if it has none of its own
    light  whether to compile it with fewer optimisations
    """
    if function is None:
        return functools.partial(program, name=name, light=light)
    return Program(function, name or f"{function.__module__}.{function.__qualname__}", light)


class Program(Generic[_P, _R]):
    """A function with its compiled forms, one for each signature of a call."""

    def __init__(self, function: Callable[_P, _R], name: str, light: _Light) -> None:
        self._function, self._name, self._light = function, name, light
        self._ready: dict[Hashable, Ready] = {}
        self._jitted: Callable | None = None
        self.__name__ = getattr(function, "__name__", "program")
        functools.update_wrapper(self, function)
        _all.add(self)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """The function's result."""
        call = None if kwargs else take_apart(args)
        if call is None:
            return self._as_jax_does(*args, **kwargs)
        signature = call.signature
        ready = self._ready.get(signature)
        if ready is None or ready.given_up:
            ready = self._ready[signature] = self._made(call, args, ahead=False)
        return ready(call.arrays)

    def prepare(self, *args: Any) -> Any:
        """Begin to compile for a call with such arguments, arrays or `jax.ShapeDtypeStruct`.

        What is returned is the result, with a `jax.ShapeDtypeStruct` for each array.
        """
        call = take_apart(args)
        assert call is not None, "see can_prepare"
        signature = call.signature
        ready = self._ready.get(signature)
        if ready is None or ready.given_up:
            ready = self._ready[signature] = self._made(call, args, ahead=True)
            if isinstance(ready.compiled, Future):
                _waiting.append(ready.compiled)
        return ready.sketch()

    def forget(self) -> None:
        """As in a new process."""
        self._ready.clear()
        self._jitted = None

    def _as_jax_does(self, *args: Any, **kwargs: Any) -> _R:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            return self._function(*args, **kwargs)  # part of a larger program
        if self._jitted is None:
            self._jitted = eqx.filter_jit(self._function, **_options())
        return self._jitted(*args, **kwargs)

    def _made(self, call: Call, args: tuple, *, ahead: bool) -> "Ready":
        store, path = _store.current(), self._path(args)
        make = functools.partial(self._compiling, call, args, store, path)
        kept = None if store is None or path is None else store.read(path)
        if kept is not None:
            return Ready(*kept, otherwise=lambda: make()[0]())
        finish, result, arrays = make()
        return Ready(_side_by_side().submit(finish) if ahead else finish(), result, arrays)

    def _compiling(
        self, call: Call, args: tuple, store: _store.Store | None, path: Path | None
    ) -> tuple[Callable[[], jax.stages.Compiled], Result, list[jax.ShapeDtypeStruct]]:
        """What compiles the program and keeps it, with the shape of its results."""
        # JAX's cache goes by the name too: no program that is kept here is found there by another
        # key, for one that was read there cannot be written again.
        name = self.__name__ if path is None else f"{self.__name__}_{path.name[:16]}"
        flat, result = traced_result(self._function, call, name)
        lowered = jax.jit(flat, **self._options(args)).lower(*call.sketches())
        traced = time.monotonic()
        arrays = [sketch(leaf) for leaf in jax.tree.leaves(lowered.out_info)]

        def finish() -> jax.stages.Compiled:
            read = read_by_jax()
            compiled = lowered.compile()
            if store is not None and path is not None and read_by_jax() == read:
                with contextlib.suppress(Exception):  # of a user's model, traced here again
                    if still_true(args, since=traced):
                        store.write(path, compiled, result(), arrays)
            return compiled

        return finish, result(), arrays

    def _options(self, args: tuple) -> dict[str, Any]:
        light = self._light(*args) if callable(self._light) else self._light
        return _options(light=light)

    def _path(self, args: tuple) -> Path | None:
        """Where it lies on disk; None for what is not known by its text."""
        store = _store.current()
        if store is None:
            return None
        try:
            return store.path(spelled(self._name, self._options(args), whole_loops(), args))
        except Exception:  # what a user's model holds is anything: no reason to fail
            return None


@dataclasses.dataclass
class Ready:
    """A compiled program, or one that is being compiled, with the shape of its results."""

    compiled: jax.stages.Compiled | Future
    result: Result
    arrays: list[jax.ShapeDtypeStruct]
    otherwise: Callable[[], jax.stages.Compiled] | None = None  # while a program was only read

    def __call__(self, arrays: list[Any]) -> Any:
        """What it returns for these arrays."""
        compiled = self.compiled
        if isinstance(compiled, Future):
            compiled = self.compiled = compiled.result()
        if self.otherwise is not None:
            return self.result.filled(self._proven(compiled, self.otherwise, arrays))
        return self.result.filled(compiled(*arrays))

    def _proven(
        self, compiled: jax.stages.Compiled, otherwise: Callable, arrays: list[Any]
    ) -> list[Any]:
        """The first run of what was read, or if it is no good of what is compiled instead."""
        self.otherwise = None
        try:
            return jax.block_until_ready(compiled(*arrays))
        except jax.errors.JaxRuntimeError:
            compiled = self.compiled = otherwise()
            return compiled(*arrays)

    @property
    def given_up(self) -> bool:
        """Whether it was never compiled, or could not be."""
        if not isinstance(self.compiled, Future) or not self.compiled.done():
            return False
        return self.compiled.cancelled() or self.compiled.exception() is not None

    def sketch(self) -> Any:
        """The result without its numbers."""
        return self.result.filled(self.arrays)


@contextlib.contextmanager
def tracing_many() -> Iterator[None]:
    """Around many calls of `prepare`: Python does not look for garbage on the way.

    Tracing makes objects by the hundred thousand, nearly all of which stay: looking through them
    again and again takes a tenth of the time, and finds nothing.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


@contextlib.contextmanager
def preparing() -> Iterator[None]:
    """Around work that programs are prepared for: what is not begun when it ends is not made."""
    try:
        yield
    finally:
        while _waiting:
            _waiting.pop().cancel()


_waiting: list[Future] = []


def forget_programs() -> None:
    """All that is compiled, JAX's own caches included: as in a new process."""
    for each in _all:
        each.forget()
    jax.clear_caches()


_all: weakref.WeakSet[Program] = weakref.WeakSet()


@functools.cache
def _side_by_side() -> ThreadPoolExecutor:
    """The compiler leaves Python alone while it works, and keeps less than two cores busy."""
    return ThreadPoolExecutor(max(1, min(_MOST_AT_A_TIME, os.cpu_count() or 1)), "compiler")


def _options(*, light: bool = False) -> dict[str, Any]:
    """Asked for at the first call: what is imported starts no device."""
    known = _tried()[0]
    chosen = "xla_backend_optimization_level" in os.environ.get("XLA_FLAGS", "")
    if light and not chosen and jax.default_backend() == "cpu":
        known = known | _LIGHT
    return {"compiler_options": known} if known else {}


def whole_loops() -> bool:
    """Whether loops are compiled as one piece of code: `_whole_loops` may have asked too late."""
    return _WHOLE in _tried()[1]


@functools.cache
def _tried() -> tuple[dict[str, Any], str]:
    """The options that this compiler knows, and a loop as it is compiled with them."""
    if jax.default_backend() != "cpu":
        return {}, ""
    loop = lambda x: jax.lax.fori_loop(0, 1000, lambda _, x: 0.5 * jnp.roll(x, 1), x)
    lowered = jax.jit(loop).lower(jax.ShapeDtypeStruct((1000,), float))

    def compiled(options: dict[str, Any]) -> str:
        try:
            return str(lowered.compile(compiler_options=options).as_text())
        except jax.errors.JaxRuntimeError:  # a jaxlib that has no such option
            return ""

    busy = (os.cpu_count() or 1) <= _MOST_AT_A_TIME  # with other programs, pieces or not
    known = _QUICK | (_IN_ONE_PIECE if busy else {})
    if not compiled(known):
        known = {name: value for name, value in known.items() if compiled({name: value})}
    answered(whole=_WHOLE in compiled(known))
    return known, compiled(known)
