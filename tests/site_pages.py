"""The pages of the documentation site, read as text: no Sphinx is needed."""

import os
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)
NOTEBOOKS = [page for page in PAGES if "```{code-cell}" in page.read_text()]

_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_METADATA = re.compile(r"\A(?:---\n.*?\n---\n|(?::[^\n]*\n)+)", flags=re.DOTALL)
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^(`{3,}).*?^\1$", flags=re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def name(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def cells(page: Path) -> list[str]:
    """The code that a build runs, cell by cell."""
    return [_METADATA.sub("", cell) for cell in _CELL.findall(page.read_text())]


def children(page: Path) -> list[str]:
    """The pages that a page's toctrees list, by name."""
    lines = [line for tree in _TOCTREE.findall(page.read_text()) for line in tree.splitlines()]
    entries = [line for line in lines if line and not line.startswith(":")]
    entries = [re.sub(r".* <(.+)>", r"\1", entry) for entry in entries]  # under another title
    return [os.path.normpath(Path(name(page)).parent / entry) for entry in entries]


def links(page: Path) -> list[str]:
    """Links in running text, not in code."""
    return _LINK.findall(_FENCE.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """Headings as they are linked to, in the way of GitHub and MyST."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
