"""Pictures of policies, beliefs and estimates: each function draws on the axes it is given."""

from pomdpfit.plots._belief_paths import beliefs
from pomdpfit.plots._coefficients import coefficients
from pomdpfit.plots._counterfactuals import counterfactual, demand_curve, information_value
from pomdpfit.plots._design import design
from pomdpfit.plots._fit import fit, serial
from pomdpfit.plots._forgetting import forgetting
from pomdpfit.plots._identification import identification, profile, spectrum
from pomdpfit.plots._inverted_rewards import inverted_rewards
from pomdpfit.plots._policies import policy, value
from pomdpfit.plots._prior_set import prior_ranges, prior_set
from pomdpfit.plots._search import convergence, modes
from pomdpfit.plots._states import states

__all__ = [
    "beliefs",
    "coefficients",
    "convergence",
    "counterfactual",
    "demand_curve",
    "design",
    "fit",
    "forgetting",
    "identification",
    "information_value",
    "inverted_rewards",
    "modes",
    "policy",
    "prior_ranges",
    "prior_set",
    "profile",
    "serial",
    "spectrum",
    "states",
    "value",
]
