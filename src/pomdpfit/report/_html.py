"""The page: one HTML file that needs nothing but itself."""

from collections.abc import Mapping
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup, escape

from pomdpfit.report._blocks import Block, Bullets, Figure, Report, Table
from pomdpfit.report._columns import columns_of
from pomdpfit.report._explorer import Explorer, script, script_hash
from pomdpfit.report._markup import Language, translate
from pomdpfit.report._svg import draw

_HTML = Language(
    escape=lambda text: str(escape(text)),
    bold=lambda text: f"<strong>{text}</strong>",
    code=lambda text: f"<code>{text}</code>",
)


def render(
    report: Report, drawings: Mapping[str, str] | None = None, *, alone: bool = False
) -> str:
    """The report as HTML; `drawings` are its figures as SVG by name, drawn here by default.

    alone  the page has no files beside it to point to, and its drawings, whose black and white are
           ink and paper, follow the reader's choice of a light or a dark page
    """
    if drawings is None:
        drawings = {figure.name: draw(figure) for figure in report.figures()}
    numbers = {table.name: k for k, table in enumerate(report.tables(), start=1)}
    numbers |= {figure.name: k for k, figure in enumerate(report.pictures(), start=1)}
    moves = any(isinstance(picture, Explorer) for picture in report.pictures())
    return _template().render(
        report=report,
        numbers=numbers,
        drawings={name: Markup(svg) for name, svg in drawings.items()},
        alone=alone,
        script=Markup(script()) if moves else None,
        script_hash=script_hash() if moves else None,
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = lambda text: Markup(translate(text, _HTML))
    environment.filters["kind"] = _kind
    environment.filters["columns"] = lambda table: columns_of(table.frame, table.formats)
    environment.filters["data"] = lambda explorer: Markup(explorer.as_json())
    environment.filters["width"] = lambda figure: round(96 * figure.figure.get_figwidth())
    source = resources.files(__package__).joinpath("report.html.j2").read_text("utf-8")
    return environment.from_string(source)


def _kind(block: Block) -> str:
    kinds = {Table: "table", Figure: "figure", Explorer: "explorer", Bullets: "bullets"}
    return kinds.get(type(block), "text")
