"""An unknown prior: what the estimates would be under each."""

from pomdpfit.identification.priors._assume_priors import prior_set
from pomdpfit.identification.priors._prior_set import PriorSet

__all__ = ["PriorSet", "prior_set"]
