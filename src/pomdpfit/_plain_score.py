"""The terms and their slope by the plain filter: quick, and told where that will not do.

What `_score_panel` does whatever the sizes is done here for panels on which no number is too small,
as hardly any has one. Answers end in `lost`: where it is true they are not to be used.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._moves import move_matrices
from pomdpfit._plain_filter import by_matrices, follow, pull_back
from pomdpfit._pull_choices import pull_choices
from pomdpfit._score_panel import Terms, observation_terms, terms_along
from pomdpfit._stage import Data, Stage
from pomdpfit._types import Array, Bool, Float


def plain_score(stage: Stage, data: Data) -> tuple[Terms, Bool[Array, ""]]:
    """`score`, and whether it is lost."""
    matrices, places = move_matrices(stage.kernel), data.places(stage.kernel)
    path = follow(matrices, places, _priors(stage.x0, data))
    return terms_along(stage.scene, data.panel, path.x, path.log_sigma), path.lost(matrices)


def plain_pull_score(
    stage: Stage, data: Data, weights: Float[Array, "N 2"]
) -> tuple[Terms, Stage, Bool[Array, ""]]:
    """`pull_score`, and whether it is lost."""
    moving, rest = stage.split()
    places = data.places(stage.kernel)
    table = lambda kernel: move_matrices(eqx.combine(kernel, rest.kernel))
    matrices, by_kernel = jax.vjp(table, moving.kernel)
    x0, by_prior = jax.vjp(lambda x0: _priors(x0, data), stage.x0)
    path = follow(matrices, places, x0)

    panel, counted = data.panel, jnp.where(weights > 0, weights, 0.0)
    seen, by_seen = jax.vjp(lambda log: observation_terms(panel, log.T), path.log_sigma)
    (by_log_sigma,) = by_seen(jnp.broadcast_to(counted[:, :1], seen.shape))
    if moving.scene is None or rest.scene is None:
        chosen, scene = jnp.zeros_like(path.sigma), None
        by_x = (chosen,) * stage.kernel.states
    else:
        chosen, scene, by_x = pull_choices(moving.scene, rest.scene, panel, path.x, counted[:, 1])
    terms = Terms(seen, chosen.T, jnp.transpose(path.x, (2, 0, 1)))
    by_mass, by_x0 = pull_back(matrices, places, path, by_x, by_log_sigma)
    (kernel,) = by_kernel(by_matrices(matrices, places, path.x, by_mass))
    (x0,) = by_prior(by_x0.T)
    return terms, Stage(kernel, x0, scene), path.lost(matrices)


def _priors(x0: Float[Array, "#N S"], data: Data) -> Float[Array, "N S"]:
    return jnp.broadcast_to(x0, (data.panel.z.shape[0], x0.shape[1]))
