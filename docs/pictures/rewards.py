"""The picture of docs/identification/rewards.md: python docs/pictures/rewards.py"""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import pomdpfit as pf
from pomdpfit import plots

MODEL = pf.models.EngineReplacement(bins=10, increments=3, discount=0.9)
TRUTH = {
    "RC": 3.0,
    "cost": np.array([50.0, 400.0]),
    "stay": np.array([0.9, 0.93]),
    "increment": np.array([[0.2, 0.3, 0.5], [0.5, 0.38, 0.12]]),
    "discount": 0.9,
}
PRIOR = pf.KnownPrior([0.5, 0.5])
SHOWN = [1, 3, 5, 8]


def errors(fine: pf.Solution, scheme: type, sizes: list[int]) -> list[float]:
    """How far rewards are off when the policy comes from a much finer grid."""
    truth = np.asarray(MODEL.reward(TRUTH))
    off = []
    for nodes in sizes:
        grid = scheme(nodes)
        got = pf.invert_rewards(MODEL, TRUTH, reference="keep", policy=fine, grid=grid)
        off.append(float(np.abs(got.table - truth).max()))
    return off


def main() -> None:
    """Exact choices, estimated choices, and the error of the inversion's own grid."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    solution = pf.solve(MODEL, TRUTH, grid=pf.Smooth(21))
    exact = pf.invert_rewards(MODEL, TRUTH, reference="replace", policy=solution)
    plots.inverted_rewards(exact, "keep", observations=SHOWN, ax=axes[0])
    axes[0].set_title("exact choice probabilities")

    z0 = np.random.default_rng(0).integers(0, 10, 2000)
    panel = pf.simulate(MODEL, TRUTH, agents=2000, periods=40, seed=0, prior=PRIOR, z0=z0)
    found = pf.fit_by_inversion(
        MODEL, panel, reference="replace", prior=PRIOR, dynamics=TRUTH, grid=pf.Smooth(21)
    )
    plots.inverted_rewards(found.inversion, "keep", observations=SHOWN, ax=axes[1])
    axes[1].set_title("80,000 choices, logit of degree 3")
    axes[1].sharey(axes[0])

    sizes = [6, 11, 21, 41]
    fine = pf.solve(MODEL, TRUTH, grid=pf.Smooth(401))
    for scheme, power in ((pf.Linear, 2), (pf.Smooth, 4)):
        off = errors(fine, scheme, sizes)
        (line,) = axes[2].loglog(np.array(sizes) - 1, off, "o-", label=f"pf.{scheme.__name__}")
        ideal = off[0] * (5 / (np.array(sizes) - 1.0)) ** power
        axes[2].loglog(
            np.array(sizes) - 1, ideal, ":", color=line.get_color(), label=f"$h^{power}$"
        )
    axes[2].set_xticks([5, 10, 20, 40], ["5", "10", "20", "40"])
    axes[2].minorticks_off()
    axes[2].set_xlabel("cells of the inversion's belief grid")
    axes[2].set_ylabel("largest error of a reward")
    axes[2].set_title("policy from 401 nodes")
    axes[2].legend(fontsize=8)
    figure.savefig(Path(__file__).parents[1] / "images" / "rewards.png", dpi=120)


if __name__ == "__main__":
    main()
