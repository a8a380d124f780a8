"""The picture of docs/identification/unknown_prior.md: Figure 2's dynamics on Table I's design."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import pomdpfit as pf
from pomdpfit import plots
from pomdpfit.replication._synthetic_tables import MODEL, START, design

panel, known = design(0, 1000, 33)
truth = MODEL.example()
found = pf.prior_set(
    MODEL,
    panel,
    pf.TwoStage(),
    periods=[4, 8, 16, 32],
    known=known,
    start={name: START[name] for name in ("stay", "increment")},
    fixed={name: truth[name] for name in ("RC", "cost")},  # dynamics need no rewards
    grid=pf.Smooth(15),
)
print(found)
entries = MODEL.space().to_series(truth)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
plots.prior_set(found, truth=entries, axes=axes[:1])
plots.prior_ranges(found, "stay[bad]", truth=entries["stay[bad]"], ax=axes[1])
figure.savefig(Path(__file__).parents[1] / "images" / "unknown_prior.png", dpi=120)
