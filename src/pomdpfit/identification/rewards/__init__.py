"""From choices back to rewards: Hotz and Miller's inversion on the belief space."""

from pomdpfit.identification.rewards._first_stage import ChoiceLogit, PolynomialLogit
from pomdpfit.identification.rewards._fit_by_inversion import fit_by_inversion
from pomdpfit.identification.rewards._inversion_estimate import InversionEstimate
from pomdpfit.identification.rewards._reward_inversion import RewardInversion, invert_rewards

__all__ = [
    "ChoiceLogit",
    "InversionEstimate",
    "PolynomialLogit",
    "RewardInversion",
    "fit_by_inversion",
    "invert_rewards",
]
