"""Where axes stand in a figure: a layout starts from there, and leaves them elsewhere.

Without this a figure drawn twice would come out different.
"""

import contextlib
from collections.abc import Iterator

from matplotlib.figure import Figure

_SPACING = ("left", "right", "bottom", "top", "wspace", "hspace")


@contextlib.contextmanager
def places_kept(figure: Figure) -> Iterator[None]:
    """Put the axes, and the space between them, back where they were."""
    spacing = {side: getattr(figure.subplotpars, side) for side in _SPACING}
    places = [
        (ax, ax.get_position(True).frozen(), ax.get_position().frozen(), ax.get_in_layout())
        for ax in figure.axes
    ]
    yield
    figure.subplotpars.update(**spacing)
    for ax, original, active, in_layout in places:
        ax.set_position(original, "original")
        ax.set_position(active, "active")
        ax.set_in_layout(in_layout)  # setting a position takes axes out of the layout
