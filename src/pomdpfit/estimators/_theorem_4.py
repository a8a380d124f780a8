"""Theorem 4 beside what Algorithm 1 has achieved."""

import pandas as pd

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit.estimators._soft_policy_gradient import SoftPolicyGradient, lipschitz


def theorem_4(estimate: Estimate, maximum: float) -> pd.DataFrame:
    """Step by step: log-likelihood, |grad|^2, the smallest so far, and the bound on it.

    bound(K) = (l* - l_0) / (rho (1 - rho L / 2) K), where `maximum` is l*, the largest value of the
    choice terms: `llf_choice` of a `TwoStage` estimate, say.
    """
    estimator = estimate.setting.estimator
    if not isinstance(estimator, SoftPolicyGradient) or not estimator.faithful:
        raise EstimationError("Theorem 4 speaks of pf.SoftPolicyGradient(faithful=True) alone.")
    L = lipschitz(estimate.setting.likelihood(estimate.space))
    rho = estimator.share * 2.0 / L
    frame = estimate.trace()
    frame["smallest"] = frame["gradient"].cummin()
    gap = maximum - frame["llf"].iloc[0]
    frame["bound"] = (
        gap / (rho * (1 - rho * L / 2)) / frame.index.to_series().where(lambda k: k > 0)
    )
    return frame
