"""The picture of docs/identification/forgetting.md: Table I's engine, 200 simulated buses."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import numpy as np

import pomdpfit as pf
from pomdpfit import plots

model = pf.models.EngineReplacement()
theta = model.example()
z0 = np.random.default_rng(0).integers(0, model.bins, size=200)
panel = pf.simulate(
    model, theta, agents=200, periods=60, seed=0, prior=pf.KnownPrior([0.5, 0.5]), z0=z0
)
axes = plots.forgetting(pf.forgetting(model, theta, panel))
axes[0].figure.savefig(Path(__file__).parents[1] / "images" / "forgetting.png", dpi=120)
