"""A model that compiles in seconds: guess a hidden state from signals, three times over."""

import jax.numpy as jnp
import numpy as np

import pomdpfit as pf

GRID = pf.Smooth(7)
HALF = pf.KnownPrior([0.5, 0.5])


class Signals(pf.Model):
    """s stays with probability 0.9; z' shows s' with probability seen[true]; `gain` if a is s."""

    def parameters(self):
        return {
            "gain": pf.Parameter(1.0),
            "seen": pf.Parameter([0.75, 0.25], pf.Simplex(), labels=[("true", "false")]),
            "discount": pf.Parameter(0.9, fixed=True),
        }

    def kernel(self, theta):
        moves = jnp.array([[0.9, 0.1], [0.1, 0.9]])
        shown = jnp.stack([theta["seen"], theta["seen"][::-1]])
        return pf.factored_kernel(jnp.stack([moves] * 2, 1), jnp.stack([shown] * 2, 1))

    def reward(self, theta):
        return jnp.broadcast_to(theta["gain"] * jnp.eye(2), (2, 2, 2))

    def horizon(self):
        return 3


MODEL = Signals()
TRUTH = {"gain": np.array(1.5), "seen": np.array([0.7, 0.3]), "discount": np.array(0.9)}


def panel_of(agents, seed=0, theta=TRUTH):
    options = {"agents": agents, "periods": 3, "seed": seed, "prior": HALF, "grid": GRID}
    return pf.simulate(MODEL, theta, **options)


def likelihood_of(panel):
    return pf.Likelihood(MODEL, panel, prior=HALF, grid=GRID)
