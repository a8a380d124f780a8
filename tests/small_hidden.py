"""A bus engine with a hidden condition and few bins, its labels as bad as labels can be."""

import numpy as np

import pomdpfit as pf

EVIL = "<script>alert(1)</script>"
PRIOR, GRID = pf.KnownPrior([0.5, 0.5]), pf.Smooth(5)
DYNAMICS = {
    "stay": np.array([0.85, 0.95]),
    "increment": np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]),
}
TRUTH = {"RC": 2.0, "cost": np.array([200.0, 900.0]), "discount": 0.9, **DYNAMICS}


class Evil(pf.models.EngineReplacement):
    """The engine with a state and an action that would be code, were they not text."""

    def state_labels(self):
        return ("good", EVIL)

    def action_labels(self):
        return ("a$b$c", EVIL)


ENGINE = pf.models.EngineReplacement(bins=6, increments=3, discount=0.9)
EVIL_ENGINE = Evil(bins=6, increments=3, discount=0.9)


def hidden_panel(seed=0, agents=40, periods=22, **more):
    options = {"agents": agents, "periods": periods, "seed": seed, "prior": PRIOR, "grid": GRID}
    return pf.simulate(ENGINE, TRUTH, **options, **more)


def hidden_fit(panel, model=ENGINE, **options):
    """Rewards alone, with the dynamics known: quick, and enough to report on."""
    given = {"prior": PRIOR, "grid": GRID, "fixed": DYNAMICS, "starts": 2, "start": TRUTH}
    return pf.fit(model, panel, **(given | options))
