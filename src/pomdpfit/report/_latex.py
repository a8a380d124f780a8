"""Tables as LaTeX that needs no package but booktabs.

Greek letters and common signs are spelled as commands, for pdflatex knows them by no other name;
letters of further alphabets stay, and want xelatex or lualatex.
"""

import re

from pomdpfit._summary import LATEX_CHARACTERS
from pomdpfit.report._blocks import Table
from pomdpfit.report._columns import Column, columns_of
from pomdpfit.report._markup import Language, translate

_SIGNS = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ∞±·≤≥≠≈→∑∂\N{MULTIPLICATION SIGN}"
_COMMANDS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    "infty pm cdot leq geq neq approx to sum partial times"
)
_MATHS = dict(zip(_SIGNS, _COMMANDS.split(), strict=True))
_CHARACTERS = LATEX_CHARACTERS | str.maketrans(
    {sign: f"\\ensuremath{{\\{command}}}" for sign, command in _MATHS.items()}
    | {"\N{MINUS SIGN}": "$-$"}
)


def as_latex(table: Table) -> str:
    """A floating table with caption and label, its numbers as in the report."""
    columns = columns_of(table.frame, table.formats)
    rows = zip(*([_cell(c, cell) for cell in c.cells] for c in columns), strict=True)
    note = f"\\par\\smallskip{{\\footnotesize {_prose(table.note)}\\par}}\n" if table.note else ""
    lines = [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_prose(table.caption)}}}",
        f"\\label{{tab:{table.name}}}",
        f"\\begin{{tabular}}{{{''.join('r' if c.numeric else 'l' for c in columns)}}}",
        "\\toprule",
        _row(*(escape(c.label) for c in columns)),
        "\\midrule",
        *(_row(*row) for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
        f"{note}\\end{{table}}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Plain text as LaTeX that prints it, on one line: an empty one would end a caption."""
    text = re.sub(r"\s+", " ", text)
    return re.sub("-(?=-)", "-{}", text.translate(_CHARACTERS))  # two hyphens are not a dash


def _prose(text: str) -> str:
    return translate(text, _LATEX)


_LATEX = Language(
    escape=escape,
    bold=lambda text: f"\\textbf{{{text}}}",
    code=lambda text: f"\\texttt{{{text}}}",
)


def _cell(column: Column, text: str) -> str:
    negative = column.numeric and text.startswith("-")
    return f"$-${escape(text[1:])}" if negative else escape(text)


def _row(*cells: str) -> str:
    row = " & ".join(cells)
    # A bracket or a star would be read as an argument of what ended the line before.
    return f"{'{}' if row.startswith(('[', '*')) else ''}{row} \\\\"
