"""value_of_information(): what seeing more would be worth to the agent."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import ModelError
from pomdpfit._estimate import Estimate
from pomdpfit._model import Model
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import ArrayLike, Theta
from pomdpfit.counterfactuals._banded import AbstractBanded, Told
from pomdpfit.counterfactuals._bands import Uncertainty, with_bands
from pomdpfit.counterfactuals._baseline import read_baseline
from pomdpfit.counterfactuals._dollars import Dollars, check_dollars, dollars_a_unit
from pomdpfit.counterfactuals._information import (
    AbstractInformation,
    FullObservation,
    Inspection,
)
from pomdpfit.counterfactuals._notes import notes_of
from pomdpfit.counterfactuals._scenario import Change, Scenario


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class InformationValue(AbstractBanded):
    """Gains in value over the baseline: rows (information, measure).

    Measures are the value and its annuity, in rewards and, where these are known, in dollars.
    """

    picture = "information_value"

    def _told(self) -> Told:
        table = self.bands.table.copy()
        table.index = pd.Index([f"{name}: {measure}" for name, measure in table.index])
        return Told("Value of information", (("Gain over", "what the agent sees now"),), table)


@long_running
def value_of_information(
    source: Estimate | Model,
    information: AbstractInformation | Mapping[str, AbstractInformation] | None = None,
    *,
    at: Theta | None = None,
    z0: ArrayLike | int | None = None,
    prior: AbstractPrior | None = None,
    dollars: Dollars | None = None,
    draws: int | None = 200,
    seed: int = 0,
    cov: Any = None,
    alpha: float = 0.05,
    grid: AbstractScheme | None = None,
    progress: Progress | bool | None = None,
) -> InformationValue:
    """What more information is worth: V with it minus V without, averaged over the starts.

    `information` is one piece, or several by name: pf.Sensor(P) adds a signal in every period,
    pf.FullObservation() shows s in every period, pf.Inspection() once, now. By default the last
    two. The agent knows that it has the information, pays nothing for it and uses it as best it
    can. Gains are present values, and per period as an annuity; in dollars with
    dollars={"RC": 9000}, RC being worth 9000 of them. The rest is as in `pf.counterfactual`.
    """
    pieces = _pieces(information)
    how = Uncertainty(draws, seed, cov, alpha, callback(progress))
    baseline = read_baseline(source, at, z0, prior, grid)
    check_dollars(baseline.space, dollars)
    without = Scenario(baseline, Change())
    scenarios = {name: Scenario(baseline, Change(None, None, p)) for name, p in pieces.items()}

    def measure(theta: Theta) -> pd.Series:
        less = without.value(theta)
        unit = None if dollars is None else dollars_a_unit(baseline.space, theta, dollars)
        found = {}
        for name, scenario in scenarios.items():
            gain = np.subtract(scenario.value(theta), less)
            found[name, "value"], found[name, "value per period"] = gain
            if unit is not None:
                found[name, "dollars"], found[name, "dollars per period"] = unit * gain
        gains = pd.Series(found)
        gains.index.names = ["information", "measure"]
        return gains

    bands = with_bands(measure, baseline, how)
    return InformationValue(bands=bands, alpha=alpha, notes=notes_of(bands))


def perfect_information() -> dict[str, AbstractInformation]:
    """The hidden state, in every period and once."""
    return {"full observation": FullObservation(), "one inspection": Inspection()}


def _pieces(
    information: AbstractInformation | Mapping[str, AbstractInformation] | None,
) -> dict[str, AbstractInformation]:
    """By name; those that have none are named for what they are."""
    if information is None:
        return perfect_information()
    if isinstance(information, AbstractInformation):
        return {type(information).__name__: information}
    if not isinstance(information, Mapping) or not information:
        raise ModelError(
            "information must be pf.Sensor(...), pf.FullObservation(), pf.Inspection(), or several "
            f"of them by name, not {information!r}."
        )
    return dict(information)
