"""The likelihood of one panel on some numbers of devices, given as arguments, for test_shards.

With "all" before them also what is compiled from it: scores, curvature, simulations and a fit.
"""

import json
import sys

import numpy as np

import pomdpfit as pf
from tests.small_hidden import DYNAMICS, ENGINE, GRID, PRIOR, TRUTH

MEANS = {"prior": PRIOR, "grid": GRID}


def on_devices(panel, devices):
    """What is read of a panel, and how many devices hold its rows."""
    spread = panel.shard(devices)
    likelihood = pf.Likelihood(ENGINE, spread, **MEANS)
    terms, slope = likelihood.gradient(TRUTH)
    numbers = {"llf": [terms.total], "belief": terms.belief, "slope": slope}
    if everything:
        numbers |= others(spread, likelihood)
    held = len(likelihood._data.panel.z.sharding.device_set)
    return held, {name: np.ravel(np.asarray(value)).tolist() for name, value in numbers.items()}


def others(spread, likelihood):
    _, scores = likelihood.scores(TRUTH)
    _, choices = likelihood.choice_probabilities(TRUTH)
    steps = dict.fromkeys(range(2), 1e-3)
    directions = likelihood.space.free_directions()
    ones = np.ones((spread.agent_count, 2))
    bent = likelihood.curvature(TRUTH, ones, directions, steps)
    fitted = pf.fit(ENGINE, spread, start=TRUTH, fixed=DYNAMICS, starts=1, **MEANS)
    return {
        "scores": scores,
        "choices": choices,
        "curvature": bent,
        "simulated": likelihood.simulate(TRUTH, 3).z,
        "params": fitted.params,
        "bse": fitted.bse,
    }


everything = "all" in sys.argv
numbers = [int(given) for given in sys.argv[1:] if given != "all"]
rng = np.random.default_rng(4)
a = rng.random((21, 12)) < 0.2
z = np.zeros((21, 12), dtype=int)
for t in range(11):
    z[:, t + 1] = np.where(
        a[:, t], 0, np.minimum(z[:, t] + rng.integers(0, 3, 21), ENGINE.bins - 1)
    )
panel = pf.Panel.from_arrays(z, a.astype(int))
json.dump({devices: on_devices(panel, devices) for devices in numbers}, sys.stdout)
