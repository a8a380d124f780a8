"""The paper's model on every group of buses that has replacements."""

import pandas as pd

from pomdpfit._errors import DatasetError
from pomdpfit._estimate import Estimate
from pomdpfit.datasets import Rust1987
from pomdpfit.replication._hidden_tables import GOOD, fit_observed
from pomdpfit.replication._study import Outcome, Study
from pomdpfit.report import Section, Table, Text

_STARTS = 3


def other_groups(study: Study) -> Outcome:
    """One fit a group, and groups 3 and 4 together, beside the MDP on the same rows."""
    samples: list[tuple[int, ...]] = [(group,) for group in study.plan.groups]
    if {3, 4} <= set(study.plan.groups):
        samples.append((3, 4))
    rows, missing = [], []
    for k, groups in enumerate(samples):
        study.tell("other groups", k, len(samples))
        try:
            data = study.data(groups)
        except DatasetError as error:
            missing.append(f"Group {groups[0]} is left out: {error}")
            continue
        hidden = study.fit(study.model(data), data.panel, GOOD, starts=_STARTS)
        rows.append(_row(data, hidden, fit_observed(data)))
    study.tell("other groups", len(samples), len(samples))
    return _tell(pd.DataFrame(rows), missing)


def _row(data: Rust1987, hidden: Estimate, observed: Estimate) -> dict:
    p = hidden.params
    miles = [
        sum(k * p[f"increment[{s}, {k}]"] for k in range(data.increments)) * data.width
        for s in ("good", "bad")
    ]
    return {
        "groups": ", ".join(map(str, data.groups)),
        "buses": len(data.records),
        "replacements": int(data.frame["replaced"].sum()),
        "hidden llf": hidden.llf,
        "MDP llf": observed.llf,
        "gain": hidden.llf - observed.llf,
        "gain in choices": hidden.llf_choice - observed.llf_choice,
        "RC": p["RC"],
        "cost[good]": p["cost[good]"],
        "cost[bad]": p["cost[bad]"],
        "stay[good]": p["stay[good]"],
        "stay[bad]": p["stay[bad]"],
        "miles a month, good": miles[0],
        "miles a month, bad": miles[1],
        "MDP RC": observed.params["RC"],
        "MDP cost": observed.params["cost"],
        "converged": hidden.converged,
        "on the boundary": ", ".join(hidden.boundary),
    }


def _tell(frame: pd.DataFrame, missing: list[str]) -> Outcome:
    least = frame.iloc[int(frame["gain"].argmin())]
    gains = int((frame["gain"] > 0).sum())
    finding = (
        f"**Other groups**: a hidden condition gains in {gains} of {len(frame)} samples with "
        f"replacements, {frame['gain'].min():.0f} (sample {least['groups']}) to "
        f"{frame['gain'].max():.0f} in "
        f"log-likelihood; nearly all of it is in mileage: choices gain "
        f"{frame['gain in choices'].min():.1f} to {frame['gain in choices'].max():.1f}."
    )
    text = [
        "The paper's model, conventions and estimator, from several starts each. Groups 1 and 2 "
        "have no replacements: without any, the cost of one cannot be estimated.",
        *missing,
    ]
    two = ("hidden llf", "MDP llf", "gain", "gain in choices")
    section = Section(
        "Other groups of buses",
        "Is group 4 special? The same model on every group that has replacements.",
        (
            Text(tuple(text)),
            Table(
                "groups",
                frame.set_index("groups"),
                "Hidden condition and fully observed model by group.",
                {
                    **{c: ".2f" for c in two},
                    **{c: ",.0f" for c in ("miles a month, good", "miles a month, bad")},
                },
            ),
        ),
    )
    return Outcome(section, (finding,), {"table": frame.to_dict("records"), "missing": missing})
