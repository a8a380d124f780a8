"""Tables of what the starts have led to."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pomdpfit._errors import SolveError
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._types import Float
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._paths import Path


def mode_table(
    likelihood: AbstractLikelihood,
    ranked: Sequence[Path],
    best: Float[np.ndarray, "2"],
    estimator: AbstractEstimator,
) -> pd.DataFrame:
    """One row for each maximum: log-likelihood and its parts, how many starts, parameters.

    best  the parts of the first, which are known
    """
    rows = []
    for path in ranked:
        try:
            parts = best if path is ranked[0] else _parts(likelihood, path)
        except SolveError:
            parts = np.full(2, np.nan)
        rows.append(
            {
                "llf": parts.sum(),
                "observation": parts[0],
                "choice": parts[1],
                "starts": len(path.origins),
                "converged": all(climb.converged for climb in path.decisive(estimator)),
                **likelihood.space.to_series(path.theta).to_dict(),
            }
        )
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="mode"))


def _parts(likelihood: AbstractLikelihood, path: Path) -> Float[np.ndarray, "2"]:
    return likelihood.terms(path.theta, start=path.warm).parts().sum(axis=0)


def start_table(
    likelihood: AbstractLikelihood,
    ranked: Sequence[Path],
    ended: Sequence[Path],
    begun: Sequence[Path],
) -> pd.DataFrame:
    """One row for each start: the mode it led to (0 for none), and where it began."""
    mode = {origin: k for k, path in enumerate(ranked, 1) for origin in path.origins}
    how = {
        origin: path.climbs[-1].result.name.lower().replace("_", " ")
        for path in ended
        for origin in path.origins
    }
    rows = [
        {
            "mode": mode.get(path.origins[0], 0),
            "result": how.get(path.origins[0], "lost"),
            **likelihood.space.to_series(path.theta).to_dict(),
        }
        for path in begun
    ]
    return pd.DataFrame(rows, index=pd.Index([path.origins[0] for path in begun], name="start"))
