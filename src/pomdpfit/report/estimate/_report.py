"""est.report(path): everything about one estimate on one page."""

import datetime
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from pomdpfit._estimate import Estimate
from pomdpfit._precision import in_float64
from pomdpfit._summary_parts import facts_of
from pomdpfit.report._blocks import Report
from pomdpfit.report._files import refuse_bad_place, write_page
from pomdpfit.report.estimate._beliefs import beliefs_piece
from pomdpfit.report.estimate._comparison import comparison_piece, named_others
from pomdpfit.report.estimate._estimates import maxima_piece, summary_piece
from pomdpfit.report.estimate._fit import fit_piece, residual_piece
from pomdpfit.report.estimate._piece import Piece, or_reason
from pomdpfit.report.estimate._policy import policy_piece
from pomdpfit.report.estimate._reproduce import reproducibility_piece
from pomdpfit.report.estimate._told_apart import identification_piece, refuse_unknown


@in_float64
def report_estimate(
    estimate: Estimate,
    path: str | Path,
    *,
    title: str | None = None,
    others: Mapping[str, Estimate] | Sequence[Estimate] = (),
    agents: Sequence[Hashable] | None = None,
    rank: bool = False,
    profiles: Sequence[str] = (),
) -> Path:
    """Write one HTML file about an estimate, which needs nothing but itself; its path comes back.

    others    estimates of the same data to compare with, listed or by name
    agents    whose beliefs are drawn; six who did most that was unusual if not given
    rank      ask `pf.identify` what no data such as these could tell (seconds to minutes)
    profiles  entries of `params` whose likelihood is profiled (a fit for each point)

    The same estimate gives the same bytes, but for the line that says when it was written.
    """
    path = Path(path)
    refuse_bad_place(path)
    pieces = estimate_pieces(
        estimate, others=others, agents=agents, rank=rank, profiles=tuple(profiles)
    )
    model = type(estimate.model).__name__ if estimate.model is not None else "Model"
    report = Report(
        title=f"{model}: report of an estimate" if title is None else title,
        subtitle=f"{type(estimate.setting.estimator).__name__}, {estimate.panel!r}",
        facts=_facts(estimate),
        findings=tuple(finding for piece in pieces for finding in piece.findings),
        sections=tuple(piece.section for piece in pieces),
        unfinished=None if estimate.converged else f"This is no maximum: {estimate.reason}",
    )
    return write_page(report, path)


def _facts(estimate: Estimate) -> dict[str, str]:
    """What a summary says above its table, each by a name that stands alone."""
    facts = facts_of(estimate, None)
    return {n if n == n.strip() else f"Log-likelihood {n.strip()}": value for n, value in facts}


def estimate_pieces(
    estimate: Estimate,
    *,
    others: Mapping[str, Estimate] | Sequence[Estimate],
    agents: Sequence[Hashable] | None,
    rank: bool,
    profiles: Sequence[str],
) -> list[Piece]:
    """The sections in order; those that cannot be had say why."""
    named = named_others(others)
    refuse_unknown(estimate, profiles)
    told = lambda: identification_piece(estimate, rank=rank, profiles=profiles)
    pieces: list[Piece | None] = [
        summary_piece(estimate),
        maxima_piece(estimate),
        or_reason("Identification", told),
        _beliefs(estimate, agents),
        or_reason("Policy and value", lambda: policy_piece(estimate)),
        or_reason("Fit against the data", lambda: fit_piece(estimate)),
        or_reason("Residual checks", lambda: residual_piece(estimate)),
        comparison_piece(estimate, named) if named else None,
        reproducibility_piece(estimate, _now()),
    ]
    return [piece for piece in pieces if piece is not None]


def _beliefs(estimate: Estimate, agents: Sequence[Hashable] | None) -> Piece | None:
    """What a caller has named must be there; without a model there is nothing to draw."""
    if estimate.model is None:
        return None
    return beliefs_piece(estimate, agents)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
