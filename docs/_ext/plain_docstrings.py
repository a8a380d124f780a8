"""The package's docstrings are plain text; Sphinx reads reStructuredText. This is the bridge.

A paragraph of a docstring is one of three things, told apart by its layout:

- names in a first column and what they mean in a second one: a definition list
- text with lines that are set in: shown as it stands
- anything else: running text, in which nothing but `names` between backticks has a meaning
"""

import re
from collections.abc import Callable, Collection
from typing import Any

_ENTRY = re.compile(r"(\S+(?: \S+)*) {2,}(\S.*)")  # a name, a gap, what it means
_ENTRY_AFTER_ONE = re.compile(r"([a-z_]+) (\S.*)")  # the longest name may touch its meaning
_TOKEN = re.compile(
    r"(?:`(?P<code>[^`]+)`"  # names between backticks
    r"|(?P<name>\bpf\.\w+(?:\(\))?))"  # or without
    r"(?P<close>(?=[\w(\[{]))?"  # and what may not follow markup
    r"|(?P<special>[\\*_|`<>])"  # what would be markup
)


def to_rst(text: str, public: Collection[str] = ()) -> str:
    """A docstring as reStructuredText; `names` that are in `public` become links."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(_paragraph(p.splitlines(), public) for p in paragraphs) + "\n"


def _paragraph(lines: list[str], public: Collection[str]) -> str:
    entries = _entries(lines)
    if entries is not None:
        written = (f"``{name}``\n    {inline(what, public)}" for name, what in entries)
        return "\n".join(written)
    if any(line.startswith(" ") for line in lines):
        return "\n".join(["::", "", *(f"    {line}" for line in lines)])
    return inline(" ".join(lines), public)


def _entries(lines: list[str]) -> list[tuple[str, str]] | None:
    """Pairs of a name and its meaning, or None where the paragraph is no such list."""
    first = _ENTRY.fullmatch(lines[0]) or next(filter(None, map(_ENTRY.fullmatch, lines)), None)
    if first is None:
        return None
    column, found = first.start(2), []
    for line in lines:
        if line.startswith(" " * column) and found:
            name, what = found.pop()
            found.append((name, f"{what} {line.strip()}"))
            continue
        entry = _ENTRY.fullmatch(line) or _ENTRY_AFTER_ONE.fullmatch(line)
        if entry is None or entry.start(2) != column:
            return None
        found.append((entry[1], entry[2]))
    return found


def inline(text: str, public: Collection[str]) -> str:
    """Running text with its markup, if any, made harmless; code and links are kept."""

    def write(token: re.Match[str]) -> str:
        if token["special"]:
            return f"\\{token['special']}"
        code = token["code"] or token["name"]
        name = code.removeprefix("pf.").removesuffix("()")
        link = name in public
        if token["name"] and not link:
            return code
        end = "\\ " if token["close"] is not None else ""
        return (f":py:obj:`{code} <pomdpfit.{name}>`" if link else f"``{code}``") + end

    return _TOKEN.sub(write, text)


def hook(public: Collection[str]) -> Callable[..., None]:
    """What Sphinx calls with the lines of each docstring, to be changed in place."""

    def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
        lines[:] = to_rst("\n".join(lines), public).splitlines()

    return process
