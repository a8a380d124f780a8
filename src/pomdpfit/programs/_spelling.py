"""What a call is, in text: equal texts are served by one compiled program.

Arrays count by their shape and type; all else by its value. What is not this package's own, nor
plain, has no text: its code may change while its name stays. The one exception are models, which
are known by what they compute (`_jaxpr`).
"""

import dataclasses
import enum
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from pomdpfit._model import Model, Primitives, built_primitives
from pomdpfit._types import Theta
from pomdpfit.programs._errors import UnspelledError
from pomdpfit.programs._jaxpr import jaxpr_text, shortened

__all__ = ["UnspelledError", "spelled", "still_true"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_models: list[tuple[Model, str]] = []  # those of late, with their texts
_answers: list[tuple[Model, float, bool]] = []  # whether a text was still true, and when
_MANY = 8


def spelled(*values: Any) -> str:
    """The text, or UnspelledError."""
    return _spell(values, by_value=False)


def still_true(values: Any, since: float) -> bool:
    """Whether models in these values compute what their texts say, asked anew after this moment.

    One that reads what is outside of it may have changed since JAX has traced it: what is compiled
    for it then belongs to this process alone. An answer that is young enough serves all programs
    that were traced before it was asked for.
    """
    leaves = jax.tree.leaves(values, is_leaf=lambda value: isinstance(value, Model))
    return all(_asked_anew(leaf, since) for leaf in leaves if isinstance(leaf, Model))


def _asked_anew(model: Model, since: float) -> bool:
    for known, asked, answer in _answers:
        if known is model and asked >= since:
            return answer

    @eqx.filter_jit  # as the method is, but new: it is traced again
    def primitives(model: Model, theta: Theta) -> Primitives:
        return built_primitives(model, theta)

    asked = time.monotonic()
    answer = _model(model) == _traced(model, primitives)
    _answers.append((model, asked, answer))
    del _answers[:-_MANY]
    return answer


def _spell(value: Any, *, by_value: bool) -> str:
    """`by_value` for what programs do not take as an argument."""
    if isinstance(value, Model):
        return _model(value)
    if isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return _array(value, by_value=by_value)
    kind = type(value)
    if kind in _PLAIN:
        return f"{kind.__name__} {value!r}"
    if kind is dict:
        items = [(name, _spell(value[name], by_value=by_value)) for name in sorted(value)]
        return shortened(f"dict {items}")
    if kind in (tuple, list):
        parts = [_spell(part, by_value=by_value) for part in value]
        return shortened(f"{kind.__name__} {parts}")
    if not kind.__module__.startswith("pomdpfit."):
        raise UnspelledError(f"{kind.__module__}.{kind.__qualname__}")
    return shortened(f"{kind.__module__}.{kind.__qualname__} {_own(value, by_value=by_value)}")


def _own(value: Any, *, by_value: bool) -> str:
    """An object of this package."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, tuple):  # with names
        return repr([_spell(part, by_value=by_value) for part in value])
    if not dataclasses.is_dataclass(value):
        raise UnspelledError(type(value).__qualname__)
    tree = isinstance(value, eqx.Module)
    fields = {}
    for field in dataclasses.fields(value):
        still = by_value or not tree or field.metadata.get("static", False)
        fields[field.name] = _spell(getattr(value, field.name), by_value=still)
    return repr(fields)


def _array(value: Any, *, by_value: bool) -> str:
    kind = f"{value.dtype}{value.shape}"
    return shortened(f"{kind} {np.asarray(value).tobytes().hex()}") if by_value else kind


def _model(model: Model) -> str:
    for known, text in _models:
        if known is model:
            return text
    text = _traced(model, lambda model, theta: model.primitives(theta))
    _models.append((model, text))
    del _models[:-_MANY]
    return text


def _traced(model: Model, build: Callable[[Model, Theta], Primitives]) -> str:
    """All that programs ask of a model: its primitives at any theta, how they move, its horizon."""
    moving, still = eqx.partition(model, eqx.is_array)
    rest: list[str] = []

    def arrays(moving: Model, theta: dict) -> list[Any]:
        made = build(eqx.combine(moving, still), theta)
        numbers, kept = eqx.partition(made, eqx.is_array_like)
        rest.append(_spell(kept, by_value=True))
        return jax.tree.leaves(numbers)

    def along(moving: Model, theta: dict, moved: dict) -> tuple:
        inexact = lambda theta: eqx.filter(arrays(moving, theta), eqx.is_inexact_array)
        return jax.jvp(inexact, (theta,), (moved,))

    theta = model.space().example()
    texts = [
        jaxpr_text(jax.make_jaxpr(arrays)(moving, theta)),
        jaxpr_text(jax.make_jaxpr(along)(moving, theta, theta)),
    ]
    return shortened(repr((_spell(theta, by_value=False), texts, rest[-1], model.horizon())))
