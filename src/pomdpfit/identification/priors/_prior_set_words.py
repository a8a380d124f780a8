"""What there is to say about a set of estimates, in sentences."""

from typing import Any

import pandas as pd

from pomdpfit._summary import Summary
from pomdpfit.identification.priors._prior_fits import ASSUMED, BESIDE


def summary(found: Any) -> Summary:
    """Ranges with the most periods, widths with fewer, and notes."""
    longest = found.periods[-1]
    shown = ["lowest", "highest", "x0 at lowest", "x0 at highest"]
    ranges = found.ranges.reset_index()
    table = ranges[ranges["periods"] == longest].set_index("parameter")[shown].copy()
    for periods in found.periods:
        part = ranges[ranges["periods"] == periods]
        table[f"width ({periods})"] = part["width"].to_numpy()
    table.index.name = None
    lost = int((~found.estimates["converged"]).sum())
    assumed = found.estimates[found.estimates["kind"] == ASSUMED]
    facts = (
        ("Agents", f"{found.agents:,}"),
        ("Periods scored", ", ".join(map(str, found.periods))),
        ("Estimator", found.estimator),
        ("Priors assumed", f"{assumed['prior'].nunique()}"),
        (
            "Not converged",
            f"{lost} of {len(found.estimates)}",
        ),
        ("Skipped periods", f"{found.skip}"),
    )
    notes = (_shrinking(found), *_beside(found), *_about_x0(found), *_left_out(found))
    title = "Estimates that an unknown prior allows"
    return Summary(title, facts, table, notes)


def _shrinking(found: Any) -> str:
    """The size of the set over periods."""
    parts = []
    for group in found.sizes:
        sizes = found.sizes[group].dropna()
        told = ", ".join(f"{value:.3g} ({periods})" for periods, value in sizes.items())
        parts.append(f"{group} {told or 'none'}")
    return (
        "size of the set, the largest 2-norm between two of its estimates, with the number of "
        f"periods: {'; '.join(parts)}."
    )


def _beside(found: Any) -> list[str]:
    """The rules for x0 that were fitted beside, with the most periods."""
    rows = found.estimates
    rows = rows[(rows["kind"] == BESIDE) & (rows["periods"] == found.periods[-1])]
    notes = []
    for _, row in rows.iterrows():
        x0 = row[found.x0_columns].to_numpy(dtype=float)
        at = "" if pd.isna(x0).any() else f", x0 = ({', '.join(f'{p:.3f}' for p in x0)})"
        mean = " on average" if at and row["prior"] == "AgentPriors" else ""
        sound = "" if row["converged"] else ", not converged"
        notes.append(f"beside: {row['prior']}, log-likelihood {row['llf']:,.2f}{at}{mean}{sound}.")
    return notes


def _about_x0(found: Any) -> list[str]:
    """Which x0 the data do not reject, and what that rests on."""
    told = found.region()
    told = told[(told["periods"] == found.periods[-1]) & (told["kind"] == ASSUMED)]
    within = told[told["within"].fillna(False).astype(bool)]
    open_ = int(told["within"].isna().sum())
    names = "; ".join(within["prior"].head(6)) + (" ..." if len(within) > 6 else "")
    which = "observations alone" if found.by_stages else "the whole likelihood"
    text = (
        f"with {found.periods[-1]} periods {len(within)} of {len(told)} assumed x0 lie within the "
        f"95 % likelihood-ratio region of {which}: {names or 'none'}"
    )
    text += f" ({open_} left open by fits that did not converge)." if open_ else "."
    return [
        text,
        "that region takes all agents to share one x0 and the model to be right; at the ends of "
        "the simplex and between the points assumed chi-square is a guide, not a level.",
    ]


def _left_out(found: Any) -> list[str]:
    """Fits that count nowhere."""
    lost = found.estimates[~found.estimates["converged"].astype(bool)]
    if lost.empty:
        return []
    where = "; ".join(f"{row['prior']} with {row['periods']}" for _, row in lost.head(5).iterrows())
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
    return [f"not converged, in `estimates` but not in the ranges: {where}{more} periods."]
