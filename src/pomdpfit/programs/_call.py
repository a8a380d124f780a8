"""A call taken apart into arrays and all that is the same from call to call."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

# Settings that programs hang on.
_SHAPING = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_device")
_WATCHING = ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs")  # with which JAX looks inside
_ARRAYS = (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)


class _Hole:
    """Where an array goes."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hole)

    def __hash__(self) -> int:
        return 0


_HOLE = _Hole()


class Call(NamedTuple):
    """The arrays of a call's arguments, and the arguments without them."""

    arrays: list[Any]
    tree: Any
    rest: tuple[Any, ...]

    @property
    def signature(self) -> Hashable:
        """Equal for two calls that one compiled program serves."""
        kinds = tuple((leaf.shape, leaf.dtype) for leaf in self.arrays)
        types = tuple(map(type, self.rest))  # 1 and True and 1.0 are equal
        return self.tree, self.rest, types, kinds, *(getattr(jax.config, n) for n in _SHAPING)

    def sketches(self) -> list[jax.ShapeDtypeStruct]:
        """The arrays without their numbers."""
        return [sketch(leaf) for leaf in self.arrays]


def sketch(array: Any) -> jax.ShapeDtypeStruct:
    """An array without its numbers."""
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def can_prepare() -> bool:
    """Not where JAX is asked to watch what programs do, nor with several devices."""
    watched = any(getattr(jax.config, name) for name in _WATCHING)
    return not watched and jax.local_device_count() == 1


def take_apart(args: tuple) -> Call | None:
    """None also inside of another program."""
    leaves, tree = jax.tree.flatten(args)
    if not can_prepare() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    arrays, rest = _apart(leaves)
    return Call(arrays, tree, rest)


class Result:
    """What a program returns, without its arrays."""

    def __init__(self, skeleton: Any) -> None:
        self.skeleton = skeleton
        self._leaves, self._tree = jax.tree.flatten(skeleton)

    def filled(self, arrays: Sequence[Any]) -> Any:
        """With its arrays."""
        return jax.tree.unflatten(self._tree, _together(self._leaves, arrays))


def traced_result(
    function: Callable, call: Call, name: str
) -> tuple[Callable[..., list[Any]], Callable[[], Result]]:
    """The function of the call's arrays alone, and what else it returned when it was traced."""
    seen: list[Result] = []

    def flat(*arrays: Any) -> list[Any]:
        args = jax.tree.unflatten(call.tree, _together(call.rest, arrays))
        leaves, tree = jax.tree.flatten(function(*args))
        found, rest = _apart(leaves)
        seen.append(Result(jax.tree.unflatten(tree, rest)))
        return found

    flat.__name__ = name  # by which logs and JAX's cache know it
    return flat, lambda: seen[-1]


def _apart(leaves: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    arrays = [leaf for leaf in leaves if isinstance(leaf, _ARRAYS)]
    return arrays, tuple(_HOLE if isinstance(leaf, _ARRAYS) else leaf for leaf in leaves)


def _together(rest: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    next_array = iter(arrays)
    return [next(next_array) if isinstance(leaf, _Hole) else leaf for leaf in rest]
