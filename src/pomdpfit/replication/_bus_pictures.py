"""Bus by bus: mileage, replacement and belief; and the policy over mileage and belief."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from pomdpfit import plots
from pomdpfit._estimate import Estimate
from pomdpfit._solve import solve
from pomdpfit._track_beliefs import Beliefs, filter_beliefs, smooth_beliefs
from pomdpfit.datasets import Rust1987
from pomdpfit.plots._palette import BLUE, ORANGE, RED
from pomdpfit.replication._hidden_tables import GOOD
from pomdpfit.replication._study import Outcome, Study
from pomdpfit.report import Figure, Section, Table, Text

_COLUMNS = 5
_NEAR = 5  # bins within which mileage counts as alike


def bus_pictures(study: Study) -> Outcome:
    """Was this engine believed bad when it was replaced?"""
    data, hidden = study.found["data"], study.found["hidden"]
    study.tell("beliefs of every bus", 0, 1)
    x = filter_beliefs(hidden.model, hidden.theta, data.panel, prior=GOOD)
    smooth = smooth_beliefs(hidden.model, hidden.theta, data.panel, prior=GOOD)
    table = _replacements(data, hidden, x)
    buses = _draw_buses(data, x, smooth)
    policy = _draw_policy(study, hidden, data, x)
    study.tell("beliefs of every bus", 1, 1)
    return _tell(table, buses, policy)


def _replacements(data: Rust1987, hidden: Estimate, x: Beliefs) -> pd.DataFrame:
    panel, chosen = data.panel, hidden.predict()["P(replace)"].to_numpy()
    probability = np.zeros(panel.z.shape)
    probability[panel.present] = chosen
    rows = []
    for i, t in np.argwhere((panel.a == 1) & panel.acted):
        alike = panel.acted & (panel.a == 0) & (np.abs(panel.z - panel.z[i, t]) <= _NEAR)
        others = x.x[..., 1][alike]
        rows.append(
            {
                "bus": panel.agents[i],
                "month": int(t) + 1,
                "z": int(panel.z[i, t]),
                "belief in bad": x.x[i, t, 1],
                "same mileage, kept": others.mean() if len(others) else np.nan,
                "share of those less bad": (others < x.x[i, t, 1]).mean()
                if len(others)
                else np.nan,
                "P(replace)": probability[i, t],
            }
        )
    return pd.DataFrame(rows)


def _draw_buses(data: Rust1987, x: Beliefs, smooth: Beliefs) -> Drawing:
    panel = data.panel
    shown = [i for i in range(panel.agent_count) if (panel.a[i] == 1).any()]
    rows = -(-len(shown) // _COLUMNS)
    drawing = Drawing(figsize=(12, 1.55 * rows), layout="constrained")
    axes = drawing.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False)
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    for ax, i in zip(axes.flat, shown, strict=False):
        here = panel.present[i]
        month = np.arange(1, here.sum() + 1)
        ax.fill_between(month, panel.z[i, here] / data.bins, color="0.88", lw=0)
        ax.plot(month, smooth.x[i, here, 1], color=ORANGE, lw=0.8)
        ax.plot(month, x.x[i, here, 1], color="black", lw=0.8)
        for t in np.flatnonzero(panel.a[i] == 1):
            ax.axvline(t + 1, color=BLUE, lw=1.2, ls="--")
        ax.set_ylim(0, 1)
        ax.set_title(f"bus {panel.agents[i]}", fontsize=7, pad=2)
        ax.tick_params(labelsize=6)
    drawing.supxlabel("month", fontsize=8)
    drawing.supylabel("belief in bad condition; mileage (share of 450,000)", fontsize=8)
    return drawing


def _draw_policy(study: Study, hidden: Estimate, data: Rust1987, x: Beliefs) -> Drawing:
    drawing = Drawing(figsize=(7, 4), layout="constrained")
    ax = drawing.subplots()
    solution = solve(hidden.model, hidden.theta, grid=study.plan.grid)
    plots.policy(solution, 1, model=hidden.model, ax=ax)
    panel = data.panel
    replaced = (panel.a == 1) & panel.acted
    ax.plot(panel.z[replaced], x.x[..., 1][replaced], "o", mfc="none", mec=RED, ms=5)
    ax.set_xlabel(f"mileage bin z ({data.width:,.0f} miles)")
    return drawing


def _tell(table: pd.DataFrame, buses: Drawing, policy: Drawing) -> Outcome:
    sure = (table["belief in bad"] > 0.5).mean()
    kept, replaced = table["same mileage, kept"].mean(), table["belief in bad"].mean()
    rank = 100 * table["share of those less bad"].mean()
    chance = 100 / np.sqrt(12 * len(table))  # ranks are uniform if belief plays no part
    finding = (
        f"**Was the engine believed bad when it was replaced?** In {sure:.0%} of {len(table)} "
        f"replacements the belief in bad condition was above one half (at the published maximum). "
        f"Its mean was {replaced:.2f}, and {kept:.2f} for kept engines of like mileage: a replaced "
        f"engine is on average at the {rank:.0f}th percentile of belief among them, where chance "
        f"would give 50 (standard error {chance:.0f}, were the {len(table)} independent)."
    )
    formats = {
        c: ".3f"
        for c in (
            "belief in bad",
            "same mileage, kept",
            "share of those less bad",
            "P(replace)",
        )
    }
    section = Section(
        "Bus by bus",
        "What the agent of Table III (the published maximum) believed about every engine, and "
        "when it was replaced. Bad condition is light use.",
        (
            Figure(
                "buses",
                buses,
                "Group 4, buses with a replacement (dashed). Black: belief in bad condition given "
                "the past; orange: given the whole record; grey: mileage.",
                "Small panels, one a bus: belief in bad condition rises from zero after each "
                "replacement; dashed lines mark replacements.",
            ),
            Figure(
                "policy",
                policy,
                "The probability of replacing an engine over mileage and belief; circles are the "
                "33 replacements of group 4 where they happened."
                if len(table) == 33
                else "The probability of replacing an engine over mileage and belief; circles are "
                "the replacements where they happened.",
                "A map of the replacement probability: it grows with mileage and, less, with the "
                "belief in bad condition; circles lie at high mileage.",
            ),
            Text(
                (
                    "`same mileage, kept` is the mean belief among engines within five bins of "
                    "mileage that were kept; `share of those less bad` says how unusual the "
                    "replaced one was among them.",
                )
            ),
            Table("replacements", table, "Every replacement.", formats),
        ),
    )
    return Outcome(section, (finding,), {"replacements": table.to_dict("records")})
