"""What an estimate by inversion tells."""

import dataclasses

import numpy as np
import pandas as pd

from pomdpfit._summary import Summary
from pomdpfit.identification.rewards._first_stage import ChoiceLogit, PolynomialLogit
from pomdpfit.identification.rewards._reward_inversion import RewardInversion


@dataclasses.dataclass(frozen=True, eq=False)
class InversionEstimate:
    """Reward parameters estimated by inverting flexible choice probabilities.

    `inversion` holds the rewards recovered without the model's form (but for the reference
    action's), `first_stage` the choice probabilities behind them. `unexplained` is the root mean
    square, over the choices of the panel, of what the model's rewards leave of the recovered ones.
    `draws` are the estimates on resampled agents, None if there are none.
    """

    params: pd.Series
    theta: dict[str, np.ndarray] = dataclasses.field(repr=False)
    inversion: RewardInversion = dataclasses.field(repr=False)
    first_stage: ChoiceLogit = dataclasses.field(repr=False)
    method: PolynomialLogit
    unexplained: float
    steps: int
    nobs: int
    least: float
    dynamics_known: bool
    draws: pd.DataFrame | None = dataclasses.field(repr=False, default=None)
    seed: int = 0

    @property
    def bse(self) -> pd.Series:
        """Standard deviations over resampled agents; NaN where nothing was resampled."""
        if self.draws is None:
            return pd.Series(np.nan, self.params.index, name="std err")
        return self.draws.std().rename("std err")

    def summary(self) -> Summary:
        """Estimates, their standard errors if agents were resampled, and what to watch."""
        inversion = self.inversion
        how = "taken as known" if self.dynamics_known else "estimated first"
        facts = (
            ("Choices", f"{self.nobs}"),
            ("Reference action", inversion.actions[inversion.reference]),
            ("Dynamics", how),
            ("First stage", f"logit of degree {self.method.degree}, ridge {self.method.ridge:g}"),
            ("Unexplained", f"{self.unexplained:.4g}"),
            ("Least probability", f"{self.least:.2g}"),
        )
        table = pd.DataFrame({"estimate": self.params, "std err": self.bse})
        return Summary("Rewards by inversion of choice probabilities", facts, table, self._notes())

    def _notes(self) -> tuple[str, ...]:
        notes = [
            "Least probability: the smallest that the first stage gives to any action at any node "
            "of the belief grid. Nothing was clipped; far from the data it extrapolates.",
        ]
        if self.draws is None:
            notes.append("No standard errors: ask for replicates=, which resamples agents.")
        else:
            lost = int(self.draws.isna().any(axis=1).sum())
            notes.append(
                f"Standard errors from {len(self.draws) - lost} resamples of agents "
                f"(seed {self.seed}; {lost} failed)."
            )
        return tuple(notes)
