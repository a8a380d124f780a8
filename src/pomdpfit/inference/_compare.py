"""Several fits side by side, on the same rows of the same data."""

import pandas as pd

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit.inference._tests import refuse_different_data


class Comparison(pd.DataFrame):
    """A table that prints all its columns, however narrow the screen: none of them can be spared.

    What is taken from it, or made of it, is a plain DataFrame again.
    """

    def __repr__(self) -> str:
        return self.to_string()


def compare(*estimates: Estimate, **named: Estimate) -> pd.DataFrame:
    """One row a fit: both parts of the log-likelihood, parameters, AIC and BIC, best AIC first.

    Refuses fits that were scored on different data: their likelihoods cannot be compared.
    """
    called = lambda e: "Model" if e.model is None else type(e.model).__name__
    fits = {f"{called(e)} {k}": e for k, e in enumerate(estimates, 1)} | named
    if len(fits) < 2:
        raise EstimationError("a comparison needs at least two fits.")
    refuse_different_data(list(fits.values()))
    frame = pd.DataFrame(
        {
            "observation": {name: e.llf_observation for name, e in fits.items()},
            "choice": {name: e.llf_choice for name, e in fits.items()},
            "llf": {name: e.llf for name, e in fits.items()},
            "df_model": {name: e.df_model for name, e in fits.items()},
            "aic": {name: e.aic for name, e in fits.items()},
            "bic": {name: e.bic for name, e in fits.items()},
            "estimator": {name: type(e.setting.estimator).__name__ for name, e in fits.items()},
            "converged": {name: e.converged for name, e in fits.items()},
            "on_boundary": {name: e.on_boundary for name, e in fits.items()},
        }
    )
    best = frame["llf"].max()
    frame.insert(3, "loss %", 100 * (best - frame["llf"]) / abs(best))
    return Comparison(frame.sort_values("aic"))
