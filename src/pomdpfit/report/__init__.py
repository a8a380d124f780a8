"""Reports: tables, figures and text as one HTML page, with every number beside it in files."""

from pomdpfit.report._blocks import Block, Bullets, Figure, Report, Section, Table, Text
from pomdpfit.report._explorer import Explorer, Slice
from pomdpfit.report._files import write_page, write_report
from pomdpfit.report._html import render

__all__ = [
    "Block",
    "Bullets",
    "Explorer",
    "Figure",
    "Report",
    "Section",
    "Slice",
    "Table",
    "Text",
    "render",
    "write_page",
    "write_report",
]
