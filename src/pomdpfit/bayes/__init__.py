"""The posterior of a panel: its log-density for JAX, a NumPyro model, and draws from it."""

from pomdpfit.bayes._log_density import log_density
from pomdpfit.bayes._numpyro_model import numpyro_model
from pomdpfit.bayes._parameter_priors import default_priors
from pomdpfit.bayes._posterior import Posterior
from pomdpfit.bayes._sample_posterior import sample_posterior

__all__ = ["Posterior", "default_priors", "log_density", "numpyro_model", "sample_posterior"]
