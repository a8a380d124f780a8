"""The report of an estimate: one page that says what was found, how well it fits, and from what."""

from pomdpfit.report.estimate._report import report_estimate

__all__ = ["report_estimate"]
