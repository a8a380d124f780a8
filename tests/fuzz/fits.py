"""Saved fits."""

from pathlib import Path

import pomdpfit as pf
from tests.fuzz import panel_checks
from tests.fuzz.byte_mutations import BYTES, splice
from tests.fuzz.kinds import Kind, Sound
from tests.fuzz.make_fits import FOLDER
from tests.fuzz.zip_mutations import ZIP, members

SOUND = tuple(Sound(path.name, path.read_bytes()) for path in sorted(FOLDER.glob("*.zip")))


def _read(path: Path, sound: Sound) -> pf.Estimate:
    return pf.load(path)


def _check(estimate: pf.Estimate, sound: Sound, content: bytes, folder: Path) -> None:
    """It is what was saved if the content is; else it is sound, and can be saved and loaded."""
    panel_checks.check_ranges(estimate.panel)
    first, second = folder / "first.zip", folder / "second.zip"
    estimate.save(first)
    pf.load(first).save(second)
    assert first.read_bytes() == second.read_bytes()
    if members(content) == members(sound.content):
        assert first.read_bytes() == sound.content


FITS = Kind(
    "fits",
    SOUND,
    (*ZIP, *ZIP, *BYTES, splice([s.content for s in SOUND])),
    _read,
    pf.EstimationError,
    _check,
)
