"""Colours that everybody can tell apart, on white and on black (Okabe and Ito 2008)."""

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
)
CYCLE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY)
DASHES: tuple[str | tuple, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK, GREY = "black", "#808080"
MAP = "viridis"


def colour(k: int) -> str:
    """The k-th colour; after the last the first again."""
    return CYCLE[k % len(CYCLE)]


def dash(k: int) -> str | tuple:
    """The k-th kind of line, which changes with the colour: not everybody sees that."""
    return DASHES[k % len(DASHES)]


def marker(k: int) -> str:
    """The k-th mark."""
    return MARKERS[k % len(MARKERS)]


def plain(label: object) -> str:
    """A label as it stands: matplotlib takes dollars for formulas and hides names in `_`."""
    text = str(label).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
