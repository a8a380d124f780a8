"""A bus engine with few mileage bins, fully observed: it is fitted in a fraction of a second."""

import numpy as np

import pomdpfit as pf
from pomdpfit.baselines import BusEngine
from reference import nfxp

MODEL = BusEngine(bins=6, increments=3, discount=0.9)
TRUTH = {"RC": 2.0, "cost": 600.0, "increment": np.array([0.3, 0.5, 0.2]), "discount": 0.9}


def tables(bins, increment, RC, cost):
    """P[z, a, z'] and r[z, a], written anew; `cost` gives what a period at each z costs."""
    P = np.zeros((bins, 2, bins))
    for z in range(bins):
        for step, mass in enumerate(increment):
            P[z, 0, min(z + step, bins - 1)] += mass
        P[z, 1, 0] = 1.0
    r = np.array([[-cost(z), -RC] for z in range(bins)])
    return P, r


def draw_panel(seed, agents=60, periods=12, model=MODEL, theta=TRUTH, cost=None, first=None):
    """Agents that follow the policy of the reference solver, first seen at any of the bins."""
    rng = np.random.default_rng(seed)
    per_bin = 0.001 * float(theta["cost"])
    cost = (lambda z: per_bin * z) if cost is None else cost
    P, r = tables(model.bins, theta["increment"], float(theta["RC"]), cost)
    choice = nfxp.solve_mdp(P, r, float(theta["discount"]))[2]
    z, a = np.zeros((2, agents, periods), dtype=int)
    z[:, 0] = rng.integers(0, model.bins if first is None else first, size=agents)
    for t in range(periods):
        a[:, t] = rng.random(agents) < choice[z[:, t], 1]
        if t + 1 < periods:
            passed = rng.random((agents, 1)) > P[z[:, t], a[:, t]].cumsum(axis=1)
            z[:, t + 1] = np.minimum(passed.sum(axis=1), model.bins - 1)
    return pf.Panel.from_arrays(z, a)


def bus_fit(panel, estimator=None, model=MODEL, **options):
    return pf.fit(model, panel, estimator, **({"start": TRUTH} | options))
