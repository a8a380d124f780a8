"""How standard errors fall with agents and periods: sd = c N^(-1/2) T^(-b).

Agents are independent, so that the square root holds for N once there are many; periods of one
agent are not, and how much another one adds is for the Monte Carlo to say. log sd + log(N) / 2 is
regressed on log T, cell by cell. The standard deviation of R normal estimates has a relative error
of 1 / sqrt(2 (R - 1)): that is the weight of a cell, and from it follow the errors of c and b. The
law's own misfit is tested by the sum of squared residuals in these units.
"""

import numpy as np
import pandas as pd
from scipy.special import chdtrc, ndtri

from pomdpfit._errors import EstimationError


def fitted_laws(table: pd.DataFrame) -> pd.DataFrame:
    """c and b by parameter with their errors, and the p-value of the law being right.

    table  of a `StudyDesign`; cells with fewer than three replications say nothing
    """
    columns = ["c", "b", "log_c_se", "b_se", "correlation", "misfit", "cells"]
    rows = {}
    told = (table["used"] > 2) & (table["sd"] > 0)
    for name in table["parameter"].unique():
        part = table[told & (table["parameter"] == name)]
        rows[name] = _law(part) if len(part) else (*[np.nan] * 6, 0)
    return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("parameter")


def _law(part: pd.DataFrame) -> tuple:
    N, T = (part[name].to_numpy(dtype=float) for name in ("agents", "periods"))
    y = np.log(part["sd"].to_numpy()) + 0.5 * np.log(N)
    weights = 2.0 * (part["used"].to_numpy(dtype=float) - 1.0)
    X = np.stack([np.ones(len(y)), -np.log(T)], axis=1)
    if len(set(T)) == 1:  # nothing is known of other periods
        X = X[:, :1]
    cov = np.linalg.inv(X.T @ (weights[:, None] * X))
    beta = cov @ (X.T @ (weights * y))
    squares, left = float(weights @ (y - X @ beta) ** 2), len(y) - X.shape[1]
    misfit = float(chdtrc(left, squares)) if left else np.nan
    se = np.sqrt(np.diag(cov))
    if len(beta) == 1:
        return np.exp(beta[0]), np.nan, se[0], np.nan, np.nan, misfit, len(y)
    return np.exp(beta[0]), beta[1], *se, cov[0, 1] / (se[0] * se[1]), misfit, len(y)


def predicted_sd(law: pd.Series, agents: float, periods: float) -> tuple[float, float]:
    """sd by the law, and the standard error of its logarithm."""
    if not np.isfinite(law["c"]):
        raise EstimationError(
            f"no law was fitted for {law.name}: in no cell did three replications converge."
        )
    if np.isnan(law["b"]):
        return float(law["c"] / np.sqrt(agents)), float(law["log_c_se"])
    x = -np.log(periods)
    variance = law["log_c_se"] ** 2 + (x * law["b_se"]) ** 2
    variance += 2 * x * law["correlation"] * law["log_c_se"] * law["b_se"]
    return float(law["c"] * agents**-0.5 * periods ** -law["b"]), float(np.sqrt(variance))


def agents_needed(
    law: pd.Series, se: float, periods: float, alpha: float
) -> tuple[float, float, float]:
    """N = (c T^-b / se)^2, and its interval by the Monte Carlo's error."""
    sd, error = predicted_sd(law, 1.0, periods)
    middle, half = 2 * np.log(sd / se), 2 * ndtri(1 - alpha / 2) * error
    return float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half))
