"""What a report is made of. Captions, notes and prose know `**bold**` and `` `code` ``."""

import dataclasses
from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.figure import Figure as Drawing

from pomdpfit.report._columns import columns_of
from pomdpfit.report._explorer import Explorer
from pomdpfit.report._names import refuse_bad_name


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A table; `name` is the stem of its files, `formats` maps columns to specs such as ".4f".

    An index is shown as leading columns, unless it has no name and merely counts the rows.
    """

    name: str
    frame: pd.DataFrame
    caption: str
    formats: Mapping[str, str] = dataclasses.field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        refuse_bad_name("table", self.name)
        try:
            columns_of(self.frame, self.formats)
        except ValueError as error:
            raise ValueError(f"table {self.name!r}: {error}") from error


@dataclasses.dataclass(frozen=True, eq=False)
class Figure:
    """A drawing; `alt` says what can be seen in it to those who cannot see it."""

    name: str
    figure: Drawing
    caption: str
    alt: str

    def __post_init__(self) -> None:
        refuse_bad_name("figure", self.name)
        if not self.alt.strip():
            raise ValueError(
                f"figure {self.name!r} has no alt text ({self.alt!r}): say in a sentence what it "
                "shows."
            )


@dataclasses.dataclass(frozen=True)
class Text:
    """Paragraphs."""

    paragraphs: tuple[str, ...]

    def __post_init__(self) -> None:
        _refuse_lone_text("paragraphs", self.paragraphs)


@dataclasses.dataclass(frozen=True)
class Bullets:
    """A list of short things."""

    items: tuple[str, ...]

    def __post_init__(self) -> None:
        _refuse_lone_text("items", self.items)


Block = Table | Figure | Explorer | Text | Bullets


@dataclasses.dataclass(frozen=True, eq=False)
class Section:
    """A title, a sentence or two that say what to look for, and the blocks that show it."""

    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """A page: `facts` say where it comes from, `findings` what a reader must take home.

    `unfinished` says what is missing, in a banner that nobody overlooks.
    """

    title: str
    subtitle: str
    facts: Mapping[str, str]
    findings: tuple[str, ...]
    sections: tuple[Section, ...]
    unfinished: str | None = None

    def __post_init__(self) -> None:
        _refuse_lone_text("findings", self.findings)
        names = [block.name for block in (*self.tables(), *self.pictures())]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"two tables or figures of one report are named {', '.join(map(repr, twice))}: "
                "names are those of files and links, give each its own."
            )

    def tables(self) -> Iterator[Table]:
        """The tables, in order."""
        return (b for section in self.sections for b in section.blocks if isinstance(b, Table))

    def figures(self) -> Iterator[Figure]:
        """The figures that are drawings, in order."""
        return (picture for picture in self.pictures() if isinstance(picture, Figure))

    def pictures(self) -> Iterator[Figure | Explorer]:
        """The figures, those that move included, in order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return (block for block in blocks if isinstance(block, Figure | Explorer))


def _refuse_lone_text(field: str, value: tuple[str, ...]) -> None:
    if isinstance(value, str):  # whose letters would each become an item
        raise ValueError(f"{field} is one string, {value[:40]!r}: give a tuple of strings.")
