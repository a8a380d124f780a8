"""A table of estimates that prints as text and turns into HTML or LaTeX."""

import dataclasses
import html
import itertools
import textwrap

import numpy as np
import pandas as pd

LATEX_CHARACTERS = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "|": "\\textbar{}",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
    }
)

_LABELS = 20  # columns for the names of facts, more where one is longer


@dataclasses.dataclass(frozen=True, eq=False)
class Summary:
    """A title, facts as pairs, the table of parameters, and notes that a reader must see."""

    title: str
    facts: tuple[tuple[str, str], ...]
    table: pd.DataFrame
    notes: tuple[str, ...]

    def as_text(self) -> str:
        """Plain text."""
        body = self._formatted().to_string()
        width = max(len(line) for line in body.splitlines())
        width = max(width, 78)
        lines = [self.title.center(width), "=" * width]
        lines += self._facts(width)
        lines += ["-" * width, body, "=" * width]
        lines += [line for note in self.notes for line in _wrapped(f"* {note}", width)]
        return "\n".join(lines)

    __str__ = as_text
    __repr__ = as_text

    def as_html(self) -> str:
        """HTML, everything escaped."""
        facts = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self.facts
        )
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return (
            f"<h3>{html.escape(self.title)}</h3><table>{facts}</table>"
            f"{self._formatted().to_html(escape=True, border=0)}"
            + (f"<ul>{notes}</ul>" if notes else "")
        )

    _repr_html_ = as_html

    def as_latex(self) -> str:
        """A LaTeX table in the style of booktabs, with the notes below."""
        escape = lambda text: str(text).translate(LATEX_CHARACTERS)
        formatted = self._formatted()
        rows = [[escape(name), *map(escape, row)] for name, row in formatted.iterrows()]
        head = " & ".join(["", *map(escape, formatted.columns)])
        lines = [
            "\\begin{table}",
            f"\\caption{{{escape(self.title)}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(formatted.columns) - 1)}l}}",
            "\\toprule",
            head + " \\\\",
            "\\midrule",
            *(" & ".join(row) + " \\\\" for row in rows),
            "\\midrule",
            *(
                f"\\multicolumn{{{len(formatted.columns) + 1}}}{{l}}"
                f"{{{escape(name)}: {escape(value)}}} \\\\"
                for name, value in self.facts
            ),
            "\\bottomrule",
            "\\end{tabular}",
            *(f"\\par {escape(note)}" for note in self.notes),
            "\\end{table}",
        ]
        return "\n".join(lines)

    def _facts(self, width: int) -> list[str]:
        """In two columns, or one below the other where that would run them together."""
        names = max([_LABELS, *(len(name) + 2 for name, _ in self.facts)])
        told = [f"{name + ':':<{names}}{value}" for name, value in self.facts]
        half = (len(told) + 1) // 2
        if max(map(len, told), default=0) > width // 2 - 2:
            return told
        pairs = itertools.zip_longest(told[:half], told[half:], fillvalue="")
        return [f"{left:<{width // 2}}{right}".rstrip() for left, right in pairs]

    def _formatted(self) -> pd.DataFrame:
        """Numbers as text, four digits after the point or four that count; blanks for none."""
        return self.table.map(_number).astype(object)


def _number(value: object) -> str:
    if not isinstance(value, float):  # which numpy's double is, too
        return str(value)
    if np.isnan(value):
        return "--"
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:.4f}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ")
