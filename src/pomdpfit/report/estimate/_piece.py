"""A part of the page, and what a reader must take home from it."""

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from pomdpfit._errors import PomdpfitError
from pomdpfit.report._blocks import Section, Text


class Piece(NamedTuple):
    """A section and its findings."""

    section: Section
    findings: tuple[str, ...] = ()


def or_reason(title: str, make: Callable[[], Piece]) -> Piece:
    """The piece; where it cannot be had, a section that says why."""
    try:
        return make()
    except PomdpfitError as error:
        return Piece(Section(title, "", (Text((f"Not available: {error}",)),)))


def axes(width: float = 5.4, height: float = 3.2) -> tuple[Drawing, Axes]:
    """A drawing with one pair of axes, kept apart from those on a user's screen."""
    drawing = Drawing(figsize=(width, height), layout="constrained")
    return drawing, drawing.subplots()
