"""Pictures of policies, beliefs and estimates: each function draws on the axes it is given."""

from pomdpfit.plots._coefficients import coefficients
from pomdpfit.plots._forgetting import forgetting
from pomdpfit.plots._identification import identification, profile, spectrum
from pomdpfit.plots._inverted_rewards import inverted_rewards
from pomdpfit.plots._policies import beliefs, policy
from pomdpfit.plots._prior_set import prior_ranges, prior_set
from pomdpfit.plots._states import states

__all__ = [
    "beliefs",
    "coefficients",
    "forgetting",
    "identification",
    "inverted_rewards",
    "policy",
    "prior_ranges",
    "prior_set",
    "profile",
    "spectrum",
    "states",
]
