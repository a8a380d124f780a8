"""A picture that its reader moves: lines for each place of a slider, drawn by a few lines of code.

The page's policy lets no code run but this, named by its hash; data travel as JSON, never as code.
"""

import base64
import dataclasses
import hashlib
import json
from functools import cache
from importlib import resources

import numpy as np

from pomdpfit.report._names import refuse_bad_name

_DIGITS = 4  # of a share, more than a screen has


@dataclasses.dataclass(frozen=True, eq=False)
class Slice:
    """Values in [0, 1] by place of the slider, line and point; `across` names the points' axis."""

    name: str
    across: str
    values: np.ndarray  # places x lines x points


@dataclasses.dataclass(frozen=True, eq=False)
class Explorer:
    """Lines over points in [0, 1], one picture for each place of a slider in each slice.

    slider  what the slider moves; `places` say where it stands, `start` which comes first
    lines   the names of the lines, with `colours`
    up      what the vertical axis shows, a share between 0 and 1
    """

    name: str
    slices: tuple[Slice, ...]
    slider: str
    places: tuple[str, ...]
    start: int
    lines: tuple[str, ...]
    colours: tuple[str, ...]
    points: tuple[float, ...]
    up: str
    caption: str
    alt: str

    def __post_init__(self) -> None:
        refuse_bad_name("figure", self.name)
        shape = (len(self.places), len(self.lines), len(self.points))
        for part in self.slices:
            if np.shape(part.values) != shape:
                raise ValueError(
                    f"slice {part.name!r} of {self.name!r} must have shape {shape} (places, lines, "
                    f"points), but it has {np.shape(part.values)}."
                )
            if not ((part.values >= 0) & (part.values <= 1)).all():
                raise ValueError(f"slice {part.name!r} of {self.name!r} is not between 0 and 1.")
        if not self.slices or not 0 <= self.start < len(self.places):
            raise ValueError(
                f"{self.name!r} needs a slice, and a start among its {len(self.places)} places, "
                f"not {self.start}."
            )

    def as_json(self) -> str:
        """The data, such that no label can end the element they stand in."""
        data = {
            "places": self.places,
            "lines": self.lines,
            "colours": self.colours,
            "points": [round(float(p), _DIGITS) for p in self.points],
            "up": self.up,
            "slices": [
                {
                    "across": part.across,
                    "values": np.round(np.asarray(part.values, dtype=float), _DIGITS).tolist(),
                }
                for part in self.slices
            ],
        }
        text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text


@cache
def script() -> str:
    """The code of the page."""
    return resources.files(__package__).joinpath("explorer.js").read_text("utf-8")


@cache
def script_hash() -> str:
    """What the content-security policy knows it by."""
    digest = hashlib.sha256(script().encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
