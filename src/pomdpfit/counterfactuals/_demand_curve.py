"""demand_curve(): how often an action is taken as a parameter moves."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import ModelError
from pomdpfit._estimate import Estimate
from pomdpfit._labels import action_names
from pomdpfit._model import Model
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import ArrayLike, Float, Theta
from pomdpfit.counterfactuals._banded import AbstractBanded, Told
from pomdpfit.counterfactuals._bands import Uncertainty, with_bands
from pomdpfit.counterfactuals._baseline import Baseline, read_baseline
from pomdpfit.counterfactuals._dollars import Dollars, check_dollars, dollars_a_unit
from pomdpfit.counterfactuals._information import AbstractInformation
from pomdpfit.counterfactuals._law import Averaging
from pomdpfit.counterfactuals._notes import notes_of
from pomdpfit.counterfactuals._scenario import Change, Move, Scenario, moved
from pomdpfit.counterfactuals._wrapped import action_number, sizes


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DemandCurve(AbstractBanded):
    """Expected number of times that an action is taken, by the value of a parameter.

    `estimate` is that value in the baseline; `per` is what the frequency of one agent in one period
    was multiplied by. `error` estimates the error that is left by the grid of the law of (z, x):
    the most by which half the cells change the number at any of the values, usually several
    times the error itself.
    """

    picture = "demand_curve"

    parameter: str
    action: str
    per: float
    shares: str
    error: float
    estimate: float

    def _told(self) -> Told:
        facts = (
            ("Demand for", f"{self.action}, {self.shares}"),
            ("Times", f"{self.per:g} agents and periods"),
            (f"{self.parameter}", f"{self.estimate:.6g} in the baseline"),
        )
        table = self.bands.table.rename_axis(index=None)
        table.index = pd.Index([f"{self.parameter} = {value:.6g}" for value in table.index])
        return Told("Demand curve", facts, table)


@long_running
def demand_curve(
    source: Estimate | Model,
    parameter: str,
    values: ArrayLike | Sequence[float],
    action: str | int,
    *,
    per: float = 1.0,
    available: ArrayLike | Sequence | None = None,
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
) -> DemandCurve:
    """How often `action` is expected to be taken at each value of `parameter`.

    As Rust's (1987) Figure 7: replacements a year of a fleet by the cost of one, with
    parameter="RC", action="replace" and per=12 * 37 for 37 buses in monthly data. `parameter` is a
    leaf that is one number, or an entry such as "cost[bad]"; the others stay as they are, and the
    band is that of their error. With dollars={"RC": 9000} values are dollars, v of them being
    v RC / 9000 units of reward: the scale, too, is then in the band. The rest is as in
    `pf.counterfactual`.
    """
    how = Uncertainty(draws, seed, cov, alpha, callback(progress))
    averaging = Averaging(periods, discounted)
    baseline = read_baseline(source, at, z0, prior, grid)
    check_dollars(baseline.space, dollars)
    unit = lambda theta: 1.0 if dollars is None else dollars_a_unit(baseline.space, theta, dollars)
    points = _checked_values(baseline, parameter, values, unit(baseline.theta))
    if not np.isfinite(per) or per <= 0:
        raise ModelError(f"per must be a positive number, but it is {per!r}.")
    names = action_names(baseline.model, sizes(baseline.model)[2])
    which = action_number(action, names)
    label = parameter if dollars is None else f"{parameter} in dollars"
    scenarios = [
        Scenario(baseline, Change(_at_price(parameter, value, unit), available, information))
        for value in points
    ]

    def measure(theta: Theta) -> pd.Series:
        shares = [scenario.shares(theta, averaging)[which] for scenario in scenarios]
        return pd.Series(per * np.array(shares), pd.Index(points, name=label))

    bands = with_bands(measure, baseline, how)
    laws = [scenario.law for scenario in scenarios if scenario.law is not None]
    here = float(baseline.space.to_series(baseline.theta)[parameter]) * unit(baseline.theta)
    return DemandCurve(
        bands=bands,
        alpha=alpha,
        notes=notes_of(bands, laws, per=float(per)),
        parameter=label,
        action=names[which],
        per=float(per),
        shares=averaging.words(baseline.model.horizon()),
        error=float(per) * max(law.error for law in laws),
        estimate=here,
    )


def _at_price(parameter: str, value: float, unit: Callable[[Theta], float]) -> Move:
    """The parameter at a value, which is so many units of reward at each theta."""
    return lambda theta: {parameter: np.asarray(value / unit(theta))}


def _checked_values(
    baseline: Baseline, parameter: str, values: ArrayLike | Sequence[float], unit: float
) -> Float[np.ndarray, "v"]:
    """Values of one entry, all of them where the parameter may be: refused before any solving."""
    space = baseline.space
    if parameter in space.parameters and parameter not in space.names:
        entries = ", ".join(space.parameters[parameter].entry_names(parameter).flat)
        raise ModelError(f"{parameter} has several entries: choose one of {entries}.")
    if parameter not in space.names:
        moved(space, baseline.theta, {parameter: 0.0})  # an error that names the parameters
    points = np.atleast_1d(np.asarray(values, dtype=float))
    if points.ndim != 1 or not len(points) or len(np.unique(points)) != len(points):
        raise ModelError("values must be a list of different numbers.")
    for value in points:
        moved(space, baseline.theta, {parameter: value / unit})
    return points
