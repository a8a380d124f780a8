"""Models in Cassandra's format."""

from pathlib import Path
from typing import Any

import numpy as np

import pomdpfit as pf
from tests.fuzz.byte_mutations import BYTES, Mutation, splice
from tests.fuzz.kinds import Kind, Sound
from tests.fuzz.text_mutations import LARGE_TEXT, TEXT, word

_FILES = Path(__file__).parents[1] / "pomdp_files"
_NAMES = ("1d.POMDP", "hall.POMDP", "repair.POMDP", "tiger.POMDP")  # the quicker ones
SOUND = tuple(Sound(name, (_FILES / name).read_bytes()) for name in _NAMES)
_WORDS = (
    *("T", "O", "R", "start", "include", "exclude", "uniform", "identity", "reset", "values"),
    *("cost", "reward", "discount", "states", "actions", "observations", "*", ":", "#", "listen"),
    *("start include: 0", "start: 1", "T: * uniform", "O: * uniform", "R: * : * : * : * 1e308"),
    *("T: * : * : * 0.5", "states: 1000000", "actions: 1999", "T: * identity", "T:*:* reset"),
)
_MUTATIONS: tuple[Mutation, ...] = (
    *(*BYTES, *TEXT, *TEXT, *LARGE_TEXT, word(_WORDS), word(_WORDS), word(_WORDS)),
    *(splice([s.content for s in SOUND]),),
)


def _read(path: Path, sound: Sound) -> Any:
    return pf.read_pomdp(path)


def _tables(model: Any) -> list[np.ndarray]:
    return [model.transition, model.observation, model.start, *model.rewards]


def _check(model: Any, sound: Sound, content: bytes, folder: Path) -> None:
    for table in (model.transition, model.observation, model.start):
        assert (table >= 0).all()
        assert np.abs(table.sum(axis=-1) - 1).max() <= 1e-8
    assert all(np.isfinite(table).all() for table in _tables(model))
    assert 0 <= model.default_discount < 1
    again = folder / "again.POMDP"
    pf.write_pomdp(model, model.example(), again)
    back = pf.read_pomdp(again)
    for mine, other in zip(_tables(model), _tables(back), strict=True):
        np.testing.assert_array_equal(mine, other)
    for name in ("states", "actions", "observations", "default_discount"):
        assert getattr(model, name) == getattr(back, name)


POMDP_FILES = Kind("pomdp_files", SOUND, _MUTATIONS, _read, pf.PomdpFileError, _check)
