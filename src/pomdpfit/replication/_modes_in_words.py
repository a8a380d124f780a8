"""Every maximum of the likelihood, and what it means: condition, new engines, dollars."""

import numpy as np
import pandas as pd

from pomdpfit._errors import PomdpfitError
from pomdpfit._estimate import Estimate
from pomdpfit._panel_scores import log_likelihood
from pomdpfit._solve import solve
from pomdpfit._types import Theta
from pomdpfit.datasets import Rust1987
from pomdpfit.estimators import Joint
from pomdpfit.replication._hidden_tables import BINS_AT_300K, GOOD, as_arrays, dollars
from pomdpfit.replication._published import REPLACEMENT_DOLLARS, published_theta
from pomdpfit.replication._study import Outcome, Study
from pomdpfit.report import Bullets, Section, Table, Text

_SAME = 0.01  # in log-likelihood: the same maximum


def modes_in_words(study: Study) -> Outcome:
    """Many starts, two stages and joint; every maximum ranked, described, the published placed."""
    data = study.data()
    model, published = study.model(data), as_arrays(published_theta())
    two = study.fit(
        model,
        data.panel,
        GOOD,
        start=published,
        starts=study.plan.starts,
        progress=study.tell,
    )
    joint = _joint_modes(study, data, two)
    at_published = log_likelihood(
        model,
        {**model.example(), **published},
        data.panel,
        prior=GOOD,
        grid=study.plan.grid,
    )
    rows = [_row("two-stage", theta, row) for theta, row in _modes(two)]
    rows += [_row("joint", theta, row) for theta, row in joint]
    published_mode = int(two.starts["mode"]["start"])
    # The highest maximum once more, for its standard errors.
    highest = study.fit(model, data.panel, GOOD, start=rows[0]["theta"], skip_hessian=False)
    return _tell(study, data, rows, at_published.total, published_mode, dollars(highest))


def _modes(estimate: Estimate) -> list[tuple[dict, pd.Series]]:
    """The maxima as trees of parameters, with their rows.

    Where a condition is never met its parameters can be anything: such maxima are one.
    """
    kept: list[pd.Series] = []
    for _, row in estimate.modes.iterrows():
        if kept and abs(row["llf"] - kept[-1]["llf"]) < _SAME:
            kept[-1]["starts"] += row["starts"]
        elif np.isfinite(row["llf"]):
            kept.append(row.copy())
    return [(estimate.space.from_series(row), row) for row in kept]


def _joint_modes(study: Study, data: Rust1987, two: Estimate) -> list[tuple[dict, pd.Series]]:
    """Joint maxima climbed from each two-stage one, and from drawn points; best first."""
    begun = [theta for theta, _ in _modes(two) if not _single(theta)]
    climbs = [(theta, 1) for theta in begun]
    if study.plan.joint_starts:
        climbs.append((begun[0], study.plan.joint_starts))
    found: list[tuple[dict, pd.Series]] = []
    for k, (theta, starts) in enumerate(climbs):
        study.tell("joint maxima", k, len(climbs))
        try:
            estimate = study.fit(
                study.model(data),
                data.panel,
                GOOD,
                estimator=Joint(),
                start=theta,
                starts=starts,
            )
        except PomdpfitError:
            continue  # a maximum of one objective need not lead anywhere on the other
        for point, row in _modes(estimate):
            same = [r for _, r in found if abs(r["llf"] - row["llf"]) < _SAME]
            if same:
                same[0]["starts"] += row["starts"]
            else:
                found.append((point, row))
    study.tell("joint maxima", len(climbs), len(climbs))
    return sorted(found, key=lambda pair: -float(pair[1]["llf"]))


def _row(estimator: str, theta: Theta, row: pd.Series) -> dict:
    names = [name for name in row.index if "[" in name or name == "RC"]
    return {
        "estimator": estimator,
        "llf": float(row["llf"]),
        "mileage": float(row["observation"]),
        "choice": float(row["choice"]),
        "starts": int(row["starts"]),
        **{name: float(row[name]) for name in names},
        "theta": theta,
    }


def _single(theta: Theta) -> bool:
    """Whether the second condition is never met."""
    return float(np.asarray(theta["stay"])[0]) > 1 - 1e-6


def describe(theta: Theta, data: Rust1987, study: Study) -> str:
    """A mode in words: what differs between the conditions, what a new engine is, dollars."""
    if _single(theta):
        return "The other condition is never met: this is the fully observed model."
    steps = np.arange(data.increments)
    miles = np.asarray(theta["increment"]) @ steps * data.width
    leave = 1 - np.asarray(theta["stay"])
    months = [f"{1 / p:,.1f} months" if p > 1e-4 else "for good" for p in leave]
    share = leave[1] / leave.sum() if leave.sum() > 0 else np.nan
    scale = REPLACEMENT_DOLLARS / float(np.asarray(theta["RC"]))
    monthly = 0.001 * scale * np.asarray(theta["cost"]) * BINS_AT_300K
    solution = solve(study.model(data), theta, grid=study.plan.grid)
    z = round(200_000 / data.width)
    value = np.asarray(solution.value(np.array([z, z]), np.eye(2)))
    worth = scale * float(value[0] - value[1])
    hidden = "heavy use" if miles[0] > miles[1] else "light use"
    other = "light use" if miles[0] > miles[1] else "heavy use"
    pays = "would pay" if worth > 0 else "would have to be paid"
    return (
        f"A new engine starts in a condition of {hidden} ({miles[0]:,.0f} miles a month), which "
        f"lasts {months[0]} on average; the other, of {other} ({miles[1]:,.0f} miles a month), "
        f"lasts {months[1]}. Left alone, engines are in the first {share:.0%} of the time. At "
        f"300,000 miles a month of maintenance is felt as {monthly[0]:,.0f} dollars in the first "
        f"condition and {monthly[1]:,.0f} in the other; at 200,000 miles the agent {pays} "
        f"{abs(worth):,.0f} dollars to be in the first rather than in the other."
    )


def _meaning(row: dict, rows: list[dict], data: Rust1987, study: Study) -> str:
    """The mode in words, unless it is the joint neighbour of a two-stage one."""
    if row["estimator"] == "joint":
        for k, other in enumerate(rows, 1):
            if other["estimator"] == "two-stage" and 0 <= row["llf"] - other["llf"] < 0.5:
                return f"as two-stage mode {k}."
    return describe(row["theta"], data, study)


def _heavy_first(theta: Theta) -> bool:
    """Whether a new engine's condition is the one of more miles a month."""
    rows = np.asarray(theta["increment"])
    mean = rows @ np.arange(rows.shape[1])
    return bool(mean[0] > mean[1])


def _tell(
    study: Study,
    data: Rust1987,
    rows: list[dict],
    at_published: float,
    published_mode: int,
    money: pd.DataFrame,
) -> Outcome:
    frame = pd.DataFrame([{k: v for k, v in row.items() if k != "theta"} for row in rows])
    frame.insert(1, "mode", frame.groupby("estimator").cumcount() + 1)
    words = [
        f"**{row['estimator']}, mode {mode}** (log-likelihood {row['llf']:.2f}, starts that "
        f"led there: {row['starts']}): {_meaning(row, rows, data, study)}"
        for row, mode in zip(rows, frame["mode"], strict=True)
    ]
    two = frame[frame["estimator"] == "two-stage"]
    best, published = two.iloc[0], two.iloc[max(published_mode - 1, 0)]
    placed = (
        "is the highest of them"
        if published_mode == 1
        else f"is number {published_mode}, {best['llf'] - published['llf']:.1f} below the highest"
    )
    if published_mode == 0:
        placed = "is not known: the search from there did not converge"
    meaning = (
        ""
        if published_mode in {0, 1}
        else " In the highest a new engine starts in "
        + ("heavy" if _heavy_first(rows[0]["theta"]) else "light")
        + " use, not in "
        + ("heavy" if _heavy_first(rows[published_mode - 1]["theta"]) else "light")
        + " use as in the published one: the data do not support the published reading of the "
        "hidden condition over that one."
    )
    finding = (
        f"**Modes**: {study.plan.starts} starts lead to {len(two)} maxima of the two-stage "
        f"likelihood, from {two['llf'].min():.1f} to {two['llf'].max():.1f}. The maximum that the "
        f"published estimate leads to {placed}; the published point itself has "
        f"{at_published:.1f}." + meaning
    )
    text = Text(
        (
            "Maxima that differ by the names of the conditions alone do not occur here: a new "
            "engine is in the first condition by definition, so the names are tied down by what "
            "replacement does. The conditions are called good and bad after the paper; what they "
            "mean is in the words below.",
            "Two-stage maxima are ranked by the likelihood of mileage, which defines them; joint "
            "ones by the whole, and are climbed from every two-stage one in which both conditions "
            "are met. What the agent would pay is a difference of value functions in dollars.",
        )
    )
    section = Section(
        "Every maximum of the likelihood",
        "What the hidden condition could be, according to group 4.",
        (
            text,
            Bullets(tuple(words)),
            Table(
                "modes",
                frame.set_index(["estimator", "mode"]),
                "All maxima found, best first.",
                {"llf": ".2f", "mileage": ".2f", "choice": ".2f"},
            ),
            Table(
                "modes_dollars",
                money.rename_axis("cost"),
                "Costs in 1985 dollars at the highest maximum, 95 % intervals by the delta method. "
                "Its first condition, here called good, is that of light use if the words above "
                "say so.",
                dict.fromkeys(map(str, money), ".2f"),
            ),
        ),
    )
    results = {
        "modes": frame.to_dict("records"),
        "words": words,
        "dollars of the highest": money.reset_index().to_dict("records"),
        "llf at the published point": at_published,
        "mode of the published point": published_mode,
    }
    return Outcome(section, (finding,), results)
