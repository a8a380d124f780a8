"""Climbs as files, finished or under way: JSON and arrays, from which no code is ever run."""

import dataclasses
import io
import itertools
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from pomdpfit._checkpoint import damaged
from pomdpfit._errors import EstimationError, Result
from pomdpfit._sealed import bounded_bytes
from pomdpfit._types import Array
from pomdpfit.estimators._objective import Scores
from pomdpfit.estimators._record import Record
from pomdpfit.estimators._walk import Climb
from pomdpfit.packing._file import MALFORMED, Format, pack, unpack

_CLIMB, _RECORD = Format("climb", 1, sealed=True), Format("record", 1, sealed=True)
_MOST_BYTES = 2**31


def climb_bytes(climb: Climb, begins: str) -> bytes:
    """A finished climb; `begins` is the fingerprint of where it began."""
    fields = {f.name: getattr(climb, f.name) for f in dataclasses.fields(Climb)}
    scores = None if climb.scores is None else tuple(climb.scores)
    return pack(_CLIMB, {**fields, "scores": scores, "begins": begins}, _no_object)


def read_climb(path: Path, begins: str, size: int) -> Climb:
    """The climb in a file, over so many entries."""

    def checked(found: dict[str, Any]) -> Climb:
        climb = Climb(**{**found, "scores": _scores(found["scores"], size)})
        _require(climb.phi, (size,))
        _require(climb.gradient, (size,))
        numbers = (climb.value, climb.gain, *climb.trace, *climb.norms)
        if not all(isinstance(number, float) for number in numbers):
            raise ValueError("values, gains and norms must be numbers.")
        if type(climb.steps) is not int or not isinstance(climb.result, Result):
            raise ValueError("steps and result are not what they should be.")
        return dataclasses.replace(climb, start=_warm(found["start"]))

    return _read(path, _CLIMB, begins, checked)


def record_bytes(record: Record, begins: str) -> bytes:
    """A climb under way: its answers, as one array of each kind and their order."""
    slopes = [np.append(a[1], a[0]) for a in record.answers if isinstance(a, tuple)]
    outers = [a for a in record.answers if isinstance(a, np.ndarray)]
    last = None if record.last is None else (record.last[0], *record.last[1])
    content = {
        "begins": begins,
        "order": "".join(map(_letter, record.answers)),
        "slopes": np.array(slopes, dtype=float),
        "outers": np.array(outers, dtype=float),
        "warm": record.warm,
        "last": last,
    }
    return pack(_RECORD, content, _no_object)


def read_record(path: Path, begins: str, size: int) -> Record:
    """The record in a file, of a climb over so many entries."""

    def checked(found: dict[str, Any]) -> Record:
        order, slopes, outers = found["order"], found["slopes"], found["outers"]
        if set(order) - set("sno"):
            raise ValueError(f"its order of answers has other letters than s, n, o: {order!r:.80}.")
        if order.count("s"):
            _require(slopes, (order.count("s"), size + 1))
        if order.count("o"):
            _require(outers, (order.count("o"), *outers.shape[-1:] * 2))
        given = {
            "s": iter([(float(row[-1]), row[:-1]) for row in slopes]),
            "n": itertools.repeat(None),
            "o": iter(outers),
        }
        last = None
        if found["last"] is not None:
            phi, jacobian, parts = found["last"]
            _require(phi, (size,))
            last = (phi, Scores(jacobian, parts))
            _scores((jacobian, parts), size)
        return Record(tuple(next(given[letter]) for letter in order), _warm(found["warm"]), last)

    return _read(path, _RECORD, begins, checked)


def _letter(answer: Any) -> str:
    """s: value and gradient; n: there are none; o: an information matrix."""
    return "n" if answer is None else "s" if isinstance(answer, tuple) else "o"


def _read(path: Path, form: Format, begins: str, checked: Any) -> Any:
    try:
        found = unpack(form, io.BytesIO(bounded_bytes(path, _MOST_BYTES)), _no_class)
        if found.pop("begins") != begins:
            raise ValueError("it is of a climb that began elsewhere.")
        return checked(found)
    except MALFORMED as error:
        raise damaged(path, error) from error


def _require(array: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != shape:
        raise ValueError(f"an array must hold {shape} numbers, but it is {array!r:.80}.")


def _scores(found: Any, size: int) -> Scores | None:
    if found is None:
        return None
    jacobian, parts = found
    _require(jacobian, (size, *jacobian.shape[1:]))
    _require(parts, (len(parts), 2, jacobian.shape[1]))
    return Scores(jacobian, parts)


def _warm(found: Any) -> Array | None:
    if found is None:
        return None
    _require(found, np.shape(found))
    return jnp.asarray(found)


def _no_object(value: Any, writer: Any) -> dict:
    raise EstimationError(f"there is no stored form for {value!r:.80} in a climb.")


def _no_class(name: str, content: Any, reader: Any) -> None:
    raise ValueError(f"it names {name!r}, which is nothing that a climb is made of.")
