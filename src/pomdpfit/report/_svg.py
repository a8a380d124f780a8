"""Figures as SVG that keeps to itself: nothing in it meets the page or another figure."""

import io
import re
from typing import Any
from xml.dom import minidom

import matplotlib

from pomdpfit.report._blocks import Figure
from pomdpfit.report._places import places_kept

_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_STYLE = re.compile(r"\*\{([^{}]*)\}")
# Letters as paths, for readers may lack the font; an id of the root came with matplotlib 3.10.
_SETTINGS = {"svg.fonttype": "path", "svg.image_inline": True, "svg.id": None}
_METADATA = dict.fromkeys(["Date", "Creator", "Format", "Type"])  # None: leave out


def draw(figure: Figure) -> str:
    """The figure as an `svg` element; the same figure gives the same text."""
    document = minidom.parseString(_savefig(figure))
    root = document.documentElement
    assert root is not None
    _remove_comments(root)  # texts are drawn as paths, and repeated in comments
    _keep_style_inside(root)
    _number_ids(root, figure.name)
    root.setAttribute("role", "img")
    root.setAttribute("aria-label", figure.alt)
    return root.toxml()


def _savefig(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    known: Any = {name: value for name, value in _SETTINGS.items() if name in matplotlib.rcParams}
    known["svg.hashsalt"] = figure.name  # without salt, ids are drawn by lot
    with matplotlib.rc_context(known), places_kept(figure.figure):
        figure.figure.savefig(buffer, format="svg", metadata=_METADATA)
    return buffer.getvalue()


def _remove_comments(element: minidom.Element) -> None:
    for child in list(element.childNodes):
        if isinstance(child, minidom.Comment):
            element.removeChild(child)
        elif isinstance(child, minidom.Element):
            _remove_comments(child)


def _keep_style_inside(root: minidom.Element) -> None:
    """Turn rules for `*`, which would hold for the whole page, into a style of the root."""
    for style in root.getElementsByTagName("style"):
        text = "".join(node.data for node in style.childNodes if isinstance(node, minidom.Text))
        rule = _STYLE.fullmatch(text.strip())
        if rule and style.parentNode is not None:
            root.setAttribute("style", rule[1].strip())
            style.parentNode.removeChild(style)


def _number_ids(root: minidom.Element, name: str) -> None:
    """Name ids after the figure and count them; the dot, which no name has, keeps figures apart.

    Ids from matplotlib are hashes, of positions to the last bit among other things.
    """
    elements = [root, *root.getElementsByTagName("*")]
    named = [element for element in elements if element.hasAttribute("id")]
    new: dict[str, str] = {}
    for k, element in enumerate(named):
        new.setdefault(element.getAttribute("id"), f"{name}.{k}")
        element.setAttribute("id", f"{name}.{k}")
    for element in elements:
        for key, value in list(element.attributes.items()):
            if key in {"href", "xlink:href"} and value[1:] in new and value.startswith("#"):
                element.setAttribute(key, f"#{new[value[1:]]}")
            elif "url(#" in value and key != "id":
                element.setAttribute(key, _REFERENCE.sub(lambda m: f"url(#{new[m[1]]})", value))
