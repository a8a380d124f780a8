"""Tables of what the starts have led to."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pomdpfit._errors import Result, SolveError
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._types import Float
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._paths import Path


def mode_table(
    likelihood: AbstractLikelihood,
    found: Sequence[Path],
    parts: Sequence[Float[np.ndarray, "2"]],
    estimator: AbstractEstimator,
    *,
    converged: bool,
) -> pd.DataFrame:
    """One row for each maximum: log-likelihood and its parts, how many starts, parameters.

    parts      of the log-likelihood, maximum by maximum
    converged  whether the first is a maximum, which is known of it alone by second derivatives
    """
    rows: list[dict] = []
    for path, (observation, choice) in zip(found, parts, strict=True):
        ended = all(climb.converged for climb in path.decisive(estimator))
        rows.append(
            {
                "llf": observation + choice,
                "observation": observation,
                "choice": choice,
                "starts": len(path.origins),
                "converged": ended if rows else converged,
                **likelihood.space.to_series(path.theta).to_dict(),
            }
        )
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="mode"))


def parts_at(likelihood: AbstractLikelihood, path: Path) -> Float[np.ndarray, "2"]:
    """Both parts of the log-likelihood at the end of a path; NaN where it cannot be solved."""
    try:
        return likelihood.terms(path.theta, start=path.warm).parts().sum(axis=0)
    except SolveError:
        return np.full(2, np.nan)


def start_table(
    likelihood: AbstractLikelihood,
    found: Sequence[Path],
    parts: Sequence[Float[np.ndarray, "2"]],
    ended: Sequence[Path],
    begun: Sequence[Path],
    estimator: AbstractEstimator,
    first: Result,
) -> pd.DataFrame:
    """One row for each start: the mode it led to (0 for none), how it ended, where it began.

    first  the result of the first mode, which says more than that of a climb where it is flat
    """
    mode = {origin: k for k, path in enumerate(found, 1) for origin in path.origins}
    rows: dict[str, dict] = {}
    for path in ended:
        result, value = _result(path, estimator), np.nan
        if path.alive and path.origins[0] not in mode:
            value = parts_at(likelihood, path).sum()
        for origin in path.origins:
            k = mode.get(origin, 0)
            flat = first is Result.FLAT if k == 1 else k > 1 and result == "stalled"  # on a ridge
            llf = parts[k - 1].sum() if k else value
            rows[origin] = {"mode": k, "result": "flat" if flat else result, "llf": llf}
    table = [
        {**rows[path.origins[0]], **likelihood.space.to_series(path.theta).to_dict()}
        for path in begun
    ]
    return pd.DataFrame(table, index=pd.Index([path.origins[0] for path in begun], name="start"))


def _result(path: Path, estimator: AbstractEstimator) -> str:
    """How the first climb ended that counts and did not converge, in words."""
    if not path.alive:
        return "no likelihood"
    results = [climb.result for climb in path.decisive(estimator)]
    worst = next((r for r in results if r is not Result.CONVERGED), Result.CONVERGED)
    return worst.name.lower().replace("_", " ")
