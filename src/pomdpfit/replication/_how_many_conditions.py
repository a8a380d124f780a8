"""One, two or three hidden conditions, and whether a new engine is always in the first."""

import dataclasses

import numpy as np
import pandas as pd

from pomdpfit._estimate import Estimate
from pomdpfit._priors import AbstractPrior, CommonPrior, KnownPrior
from pomdpfit._schemes import AbstractScheme
from pomdpfit.datasets import Rust1987
from pomdpfit.estimators import BHHH, TwoStage
from pomdpfit.replication._study import Outcome, Study
from pomdpfit.report import Section, Table, Text


@dataclasses.dataclass(frozen=True)
class Rival:
    """A model of group 4."""

    conditions: int
    free: bool  # new engines and x0 estimated
    published: bool = False  # the maximum near the published estimate, not the highest

    def __str__(self) -> str:
        if self.conditions == 1:
            return "1 (the MDP)"
        if self.free:
            return f"{self.conditions}, new engines and x0 free"
        maximum = "published" if self.published else "highest"
        return f"{self.conditions}, new in the first: {maximum} maximum"


def how_many_conditions(study: Study) -> Outcome:
    """The fit of one, two and three conditions on the rows of Table III."""
    data = study.data()
    rivals = [
        Rival(conditions, free, published)
        for conditions in study.plan.conditions
        for published, free in ((True, False), (False, False), (False, True))
        # Three conditions with a good new engine make the first a month of transit, whose cost
        # no choice depends on: only the free version has a meaning of its own.
        if (free and conditions > 1)
        or (not free and conditions == 2)
        or (conditions == 1 and not (free or published))
    ]
    fits: dict[str, Estimate] = {}
    for k, rival in enumerate(rivals):
        study.tell("how many conditions", k, len(rivals))
        fits[str(rival)] = _fit(study, data, rival)
    study.tell("how many conditions", len(rivals), len(rivals))
    return _tell(data, fits)


def _fit(study: Study, data: Rust1987, rival: Rival) -> Estimate:
    S, plan = rival.conditions, study.plan
    model = study.model(data, conditions=S, new="free" if rival.free else "good")
    prior: AbstractPrior = CommonPrior() if rival.free else KnownPrior(np.eye(S)[0])
    grid: AbstractScheme = plan.grid if S == 2 else plan.coarse
    # The example lies near the published estimate; other starts lead to the highest maximum.
    starts = {1: 1, 2: 1 if rival.published else plan.two_starts}.get(S, plan.third_starts)
    estimator = TwoStage(BHHH(max_steps=100))
    return study.fit(model, data.panel, prior, estimator=estimator, starts=starts, grid=grid)


def _new_engines(paper: Estimate, highest: Estimate, freed: Estimate) -> str:
    """What becomes of a new engine when the model does not say."""
    rows = freed.theta["increment"]
    heavy = int(np.argmax(rows @ np.arange(rows.shape[1])))
    new, x0 = float(freed.theta["new"][heavy]), float(freed.theta["x0"][heavy])
    stay = float(freed.theta["stay"][heavy])
    return (
        f"**What a new engine is**: where the model does not say so, a new engine starts in heavy "
        f"use with probability {new:.2f} and a new bus with {x0:.2f} (heavy use lasts "
        f"{1 / (1 - stay):.0f} months). For two more parameters the log-likelihood is "
        f"{freed.llf - paper.llf:.1f} above the published maximum, in which new engines and buses "
        f"are in heavy use for certain, and {freed.llf - highest.llf:.1f} above the highest one, "
        "in which they are in light use for certain."
    )


def _tell(data: Rust1987, fits: dict[str, Estimate]) -> Outcome:
    rows = [
        {
            "conditions": name,
            "mileage": e.llf_observation,
            "choice": e.llf_choice,
            "llf": e.llf,
            "parameters": e.df_model,
            "AIC": e.aic,
            "BIC": e.bic,
            "converged": e.converged,
            "on the boundary": ", ".join(e.boundary),
        }
        for name, e in fits.items()
    ]
    table = pd.DataFrame(rows).set_index("conditions")
    parameters = pd.DataFrame({name: e.params for name, e in fits.items()}).rename_axis("parameter")
    best = table["BIC"].idxmin()
    paper, highest, freed = (
        fits.get(str(rival)) for rival in (Rival(2, False, True), Rival(2, False), Rival(2, True))
    )
    findings = [
        f"**How many conditions**: BIC prefers {best}. Likelihood ratios between different numbers "
        "of conditions have no chi-square distribution: read the table as a ranking."
    ]
    if paper is not None and highest is not None and freed is not None:
        findings.append(_new_engines(paper, highest, freed))
    miles = pd.DataFrame(
        [
            {
                "conditions": name,
                "condition": state,
                "miles a month": float(row @ np.arange(data.increments) * data.width),
            }
            for name, e in fits.items()
            for state, row in zip(e.model.state_labels(), e.theta["increment"], strict=True)
        ]
    ).set_index(["conditions", "condition"])
    section = Section(
        "How many hidden conditions, and what is a new engine?",
        "Beyond the paper, on the rows of Table III: one, two and three conditions; and new "
        "engines (and buses) that need not be in the first.",
        (
            Text(
                (
                    "All fits are two-stage on the same rows; mileage decides the dynamics. "
                    "With two or more conditions and everything free their names mean nothing: "
                    "compare the miles. BIC counts bus-months.",
                )
            ),
            Table(
                "conditions",
                table,
                "Fit by number of conditions.",
                {c: ".2f" for c in ("mileage", "choice", "llf", "AIC", "BIC")},
            ),
            Table(
                "conditions_miles",
                miles,
                "Miles a month in each condition.",
                {"miles a month": ",.0f"},
            ),
            Table("conditions_parameters", parameters, "Estimates."),
        ),
    )
    results = {
        "table": table.reset_index().to_dict("records"),
        "parameters": parameters.to_dict(),
    }
    return Outcome(section, tuple(findings), results)
