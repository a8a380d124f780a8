"""Priors and the panel's likelihood as a NumPyro model."""

from collections.abc import Callable, Mapping
from typing import Any

from pomdpfit._evaluate import Likelihood
from pomdpfit._precision import in_float64
from pomdpfit._stage import Data
from pomdpfit.bayes._held import Held
from pomdpfit.bayes._log_density import data_of, density_of_data
from pomdpfit.bayes._parameter_priors import checked_priors, require_numpyro


@in_float64
def numpyro_model(
    likelihood: Likelihood, priors: Mapping[str, Any] | None = None, held: Held | None = None
) -> Callable[..., dict[str, Any]]:
    """log p(theta | panel) = sum log prior + log l(theta) as a NumPyro model (extra `bayes`).

    `priors` maps parameters to NumPyro distributions, of one entry (which then serves all) or of
    the whole parameter. Parameters that are bounded on both sides have a default, the others need
    a prior: `default_priors` has one that is scaled by an estimate. The sites have the parameters'
    names, and the model returns them, so that a larger model can go on from there. `held` has
    entries that the likelihood reads at other values than those drawn.
    """
    numpyro = require_numpyro()
    density, own = density_of_data(likelihood), data_of(likelihood)
    held = Held() if held is None else held
    chosen = checked_priors(
        likelihood.space, {} if priors is None else priors, fixed_entries=held.entries
    )
    held.refuse_joint(chosen)

    def model(data: Data | None = None) -> dict[str, Any]:
        """`data` (see `data_of`): another panel of the same shape, in the same program."""
        theta = held.put_in({name: numpyro.sample(name, prior) for name, prior in chosen.items()})
        numpyro.factor("log_likelihood", density(theta, own if data is None else data))
        return theta

    return model
