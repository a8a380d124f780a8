"""Which priors the data speak for: a likelihood ratio over the x0 that were assumed."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtri

from pomdpfit._errors import EstimationError
from pomdpfit.identification.priors._prior_fits import ASSUMED, BESIDE, KNOWN


def region(found: Any, level: float) -> pd.DataFrame:
    """2 (best - llf) of each common x0 against the chi-square quantile with |S| - 1 degrees.

    Those assumed, and the estimated one where pf.CommonPrior was fitted beside. The log-likelihood
    of a fit that did not converge is a lower bound of what its x0 allows: it may show that x0 is
    within, never that it is not.
    """
    if not 0 < level < 1:
        raise EstimationError(f"the level must lie between 0 and 1, but it is {level}.")
    enough = float(chdtri(len(found.states) - 1, 1 - level))
    rows, value = found.estimates, found.objective
    shared = (rows["kind"] == BESIDE) & (rows["prior"] == "CommonPrior")
    rows = rows[(rows["kind"] == ASSUMED) | shared]
    frame = rows[["periods", "kind", "prior", *found.x0_columns, value, "converged"]].copy()
    best = frame.groupby("periods")[value].transform("max")
    frame["2 (best - llf)"] = 2 * (best - frame[value])
    inside = (frame["2 (best - llf)"] <= enough).astype("boolean")
    frame["within"] = inside.mask(~inside.astype(bool) & ~frame["converged"].astype(bool))
    return frame


def reference_rows(found: Any) -> dict[int, int]:
    """For each number of periods the row that deviations are measured from."""
    rows, chosen = found.estimates, {}
    for periods in found.periods:
        part = rows[rows["periods"] == periods]
        known = part[part["kind"] == KNOWN]
        if len(known):
            chosen[periods] = known.index[0]
            continue
        assumed = part[part["kind"] == ASSUMED]
        sound = assumed[assumed["converged"]]
        value = (sound if len(sound) else assumed)[found.objective].replace(-np.inf, np.nan)
        if value.isna().all():
            raise EstimationError(
                f"with {periods} periods no prior has a likelihood: {assumed['reason'].iloc[0]}"
            )
        chosen[periods] = value.idxmax()
    return chosen
