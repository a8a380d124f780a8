"""Pictures of policies, beliefs and estimates: each function draws on the axes it is given."""

from pomdpfit.plots._coefficients import coefficients
from pomdpfit.plots._policies import beliefs, policy

__all__ = ["beliefs", "coefficients", "policy"]
