"""counterfactual(): behaviour and value when something is different."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import ModelError
from pomdpfit._estimate import Estimate
from pomdpfit._model import Model
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._schemes import AbstractScheme
from pomdpfit._shown import shown
from pomdpfit._solve import Solution
from pomdpfit._types import ArrayLike, Theta
from pomdpfit.counterfactuals._banded import AbstractBanded, Told
from pomdpfit.counterfactuals._bands import Uncertainty, with_bands
from pomdpfit.counterfactuals._baseline import read_baseline
from pomdpfit.counterfactuals._dollars import Dollars, check_dollars, dollars_a_unit
from pomdpfit.counterfactuals._information import AbstractInformation
from pomdpfit.counterfactuals._law import Averaging
from pomdpfit.counterfactuals._notes import notes_of
from pomdpfit.counterfactuals._scenario import Change, Move, Scenario

OF = ("baseline", "counterfactual", "difference")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Counterfactual(AbstractBanded):
    """Outcomes before, after, and their difference, each with standard error and interval.

    `share_error` estimates the error of the shares that is left by the grid of the law of (z, x):
    the largest over actions, before and after, by which half the cells change a share. `baseline`
    and `solution` are the two solutions at the point estimate, `model` and `theta` what the second
    one solves: hand them to `pf.simulate` or `pf.sensitivity`.
    """

    picture = "counterfactual"

    changes: tuple[str, ...]
    shares: str
    share_error: float
    model: Model = dataclasses.field(repr=False)
    theta: dict[str, Any] = dataclasses.field(repr=False)
    baseline: Solution = dataclasses.field(repr=False)
    solution: Solution = dataclasses.field(repr=False)

    @property
    def difference(self) -> pd.DataFrame:
        """The differences alone, by outcome."""
        return pd.DataFrame(self.bands.table.xs("difference", level="of"))

    def _told(self) -> Told:
        """Before, after, and the difference with its band."""
        each = self.bands.table["estimate"].unstack("of")
        order = list(dict.fromkeys(self.bands.table.index.get_level_values("outcome")))
        table = each.loc[order, list(OF)].rename_axis(index=None, columns=None)
        gap = self.difference.loc[order]
        table["std err"] = gap["std err"]
        table[f"[{self.alpha / 2:g}"] = gap["lower"]
        table[f"{1 - self.alpha / 2:g}]"] = gap["upper"]
        facts = (("Changed", "; ".join(self.changes)), ("Shares", self.shares))
        return Told("Counterfactual", facts, table)


@long_running
def counterfactual(
    source: Estimate | Model,
    theta: Move | None = None,
    *,
    available: ArrayLike | Sequence | None = None,
    discount: float | None = None,
    information: AbstractInformation | None = None,
    at: Theta | None = None,
    z0: ArrayLike | int | None = None,
    prior: AbstractPrior | None = None,
    periods: int | None = None,
    discounted: bool = False,
    dollars: Dollars | None = None,
    draws: int | None = 200,
    seed: int = 0,
    cov: Any = None,
    alpha: float = 0.05,
    grid: AbstractScheme | None = None,
    progress: Progress | bool | None = None,
) -> Counterfactual:
    """Change something, solve again, and compare behaviour and value with the baseline.

    theta        leaves or entries set, {"RC": 12.0, "cost[bad]": 3.0}, or a function of theta
    available    the actions that are left: names, numbers or a mask (A,) or (Z, A)
    information  pf.Sensor(P), pf.FullObservation() or pf.Inspection()
    at           theta, where `source` is a model; the covariates, where it is an estimate
    z0, prior    where agents start; an estimate's are its panel's first rows and their beliefs
    periods      shares over so many periods from the start; else in the long run
    discounted   shares weighted by beta^t, from the start
    dollars      {"RC": 9000}: value in dollars too, RC being worth 9000 of them
    draws        from the normal law of an estimate; 0 for the delta method, None for no bands
    cov          a kind of `est.cov_params`, or a bootstrap, whose draws are then used
    progress     hears of draws as they are done
    """
    if discount is not None and callable(theta):
        raise ModelError("set the discount inside the function of theta, or give a mapping.")
    if discount is not None:
        if theta is not None and (not isinstance(theta, Mapping) or "discount" in theta):
            raise ModelError(
                "theta must be a mapping of names to values without the discount where discount= "
                f"gives it, not {shown(theta)}: leave one out."
            )
        theta = {**(theta or {}), "discount": discount}
    change = Change(theta, available, information)
    if not change.words():
        raise ModelError(
            "nothing is different: give theta=, discount=, available= or information=."
        )
    how = Uncertainty(draws, seed, cov, alpha, callback(progress))
    averaging = Averaging(periods, discounted)
    baseline = read_baseline(source, at, z0, prior, grid)
    check_dollars(baseline.space, dollars)
    before, after = Scenario(baseline, Change()), Scenario(baseline, change)
    moved = after.theta(baseline.theta)  # refused before anything is solved

    def measure(theta: Theta) -> pd.Series:
        parts = [scenario.outcomes(theta, averaging) for scenario in (before, after)]
        if dollars is not None:
            unit = dollars_a_unit(baseline.space, theta, dollars)
            for part in parts:
                part["dollars"] = unit * part["value"]
                part["dollars per period"] = unit * part["value per period"]
        with np.errstate(invalid="ignore"):  # what never happens is infinitely far apart
            parts.append(parts[1] - parts[0])
        index = pd.MultiIndex.from_product([parts[0].index, OF], names=["outcome", "of"])
        return pd.Series(np.stack(parts, axis=1).ravel(), index)

    solutions = before.solve(before.theta(baseline.theta)), after.solve(moved)
    betas = [float(solution.primitives.discount) for solution in solutions]
    bands = with_bands(measure, baseline, how)
    laws = [scenario.law for scenario in (before, after) if scenario.law is not None]
    return Counterfactual(
        bands=bands,
        alpha=alpha,
        notes=notes_of(bands, laws, discount_moved=betas[0] != betas[1]),
        changes=change.words(),
        shares=averaging.words(solutions[0].primitives.horizon),
        share_error=max(law.error for law in laws),
        model=after.model,
        theta=moved,
        baseline=solutions[0],
        solution=solutions[1],
    )
