"""The estimates themselves, and every maximum that the search found."""

import pandas as pd

from pomdpfit import plots
from pomdpfit._estimate import Estimate
from pomdpfit._summary_parts import notes_of, other_maxima, words_on_unfinished
from pomdpfit.baselines import MDP
from pomdpfit.report._blocks import Block, Bullets, Figure, Section, Table
from pomdpfit.report.estimate._piece import Piece, axes

_MOST = 20  # maxima in the picture and the table


def summary_piece(estimate: Estimate) -> Piece:
    """Parameters with their uncertainty, and what there is to doubt."""
    table = estimate.to_frame().rename_axis("parameter")
    blocks: list[Block] = [
        Table(
            "estimates",
            table,
            "Estimates with standard errors and 95 % intervals.",
            note=_on_errors(estimate),
        )
    ]
    notes = notes_of(estimate)
    if notes:
        blocks.append(Bullets(notes))
    findings = (
        f"Log-likelihood **{estimate.llf:,.3f}** ({estimate.llf_observation:,.3f} of observations, "
        f"{estimate.llf_choice:,.3f} of choices), {estimate.df_model} free parameters, "
        f"{estimate.nobs:,} scored choices of {estimate.panel.agent_count:,} agents.",
        *estimate.doubts,
        *estimate.covariance_notes(),
    )
    return Piece(Section("Estimates", "", tuple(blocks)), findings)


def _on_errors(estimate: Estimate) -> str:
    if estimate.bse.isna().all():
        return "There are no standard errors here: why, is said below."
    return (
        f"Covariance: {estimate.cov_type}. A p-value is that of the hypothesis that the entry is "
        "zero; there is none where zero is the end of its range."
    )


def maxima_piece(estimate: Estimate) -> Piece:
    """Every maximum, where the starts ended, and the climb to the one that was taken."""
    modes, starts = estimate.modes, estimate.starts
    ended = starts.groupby(["mode", "result"]).size().rename("starts").reset_index()
    ended["mode"] = ended["mode"].astype(object).where(ended["mode"] > 0, "none")
    blocks: list[Block] = []
    if len(modes) > 1:
        drawing, ax = axes(height=1.6 + 0.3 * min(len(modes), _MOST))
        plots.modes(estimate, ax=ax)
        blocks.append(
            Figure(
                "modes",
                drawing,
                "Every maximum that was found, by its log-likelihood below that of the estimate.",
                f"{len(modes)} dots, the estimate and other maxima, by log-likelihood.",
            )
        )
    more = f" The first {_MOST} of {len(modes)}." if len(modes) > _MOST else ""
    blocks += [
        Table("maxima", _estimated(estimate), f"Maxima, the estimate first.{more}"),
        Table(
            "starts",
            ended.set_index("mode"),
            "The mode that the starts led to, if any, and how they ended.",
        ),
    ]
    if any(len(values) > 1 for values, _ in estimate.traces):
        drawing, ax = axes()
        plots.convergence(estimate, ax=ax)
        caption = "The climb from the start that led to the estimate."
        alt = "Lines that fall step by step: what is left of the log-likelihood to climb."
        blocks.append(Figure("climb", drawing, caption, alt))
    reached = int(modes["starts"].iloc[0])
    here = "this maximum" if estimate.converged else "the estimate, which is no maximum"
    finding = f"{reached} of {len(starts)} starts led to {here}"
    others = other_maxima(estimate)
    if len(others):
        next_best = f"{others['llf'].iloc[0]:,.3f}"
        one, several = ("other", "others") if estimate.converged else ("maximum", "maxima")
        found = f"1 {one} was found,"
        if len(others) > 1:
            found = f"{len(others)} {several} were found, the next"
        finding += f"; {found} at {next_best}"
    if unfinished := words_on_unfinished(estimate):
        finding += f"; {unfinished}"
    lead = "What was found, and how often?"
    if not isinstance(estimate.model, MDP):
        lead = f"A likelihood with hidden states may have several maxima. {lead}"
    return Piece(Section("Maxima", lead, tuple(blocks)), (f"{finding}.",))


def _estimated(estimate: Estimate) -> pd.DataFrame:
    """The first maxima, without what is the same in all of them because it was fixed."""
    held = set(estimate.space.names) - set(estimate.params.index)
    modes = estimate.modes
    return modes[[name for name in modes.columns if name not in held]].head(_MOST)
