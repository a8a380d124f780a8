"""How values and gradients converge as the belief grid is refined: docs/images/refinement.png.

python -m benchmarks.refinement

The choice part of the log-likelihood and its gradient in theta2 (stay, increment), at a theta that
is no maximum, on linear and smooth grids against a fine smooth one.
"""

import functools
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import pomdpfit as pf
from pomdpfit.programs import forget_programs

NODES = (13, 26, 51, 101, 201)
DYNAMICS = ("stay", "increment")


@functools.cache
def setting() -> tuple[pf.models.EngineReplacement, dict, pf.Panel, pf.KnownPrior]:
    """The paper's model at discount 0.9999, and a theta moved off the truth."""
    model = pf.models.EngineReplacement(bins=175, increments=4, discount=0.9999)
    truth = model.example()
    prior = pf.KnownPrior([0.5, 0.5])
    z0 = np.arange(200) % 175
    panel = pf.simulate(model, truth, agents=200, periods=60, seed=0, prior=prior, z0=z0)
    theta = {**truth, "RC": truth["RC"] * 0.9, "stay": np.array([0.93, 0.97])}
    return model, theta, panel, prior


def choice_part(grid: object) -> tuple[float, np.ndarray]:
    """The sum of the choice terms and its gradient in the hidden dynamics."""
    model, theta, panel, prior = setting()
    choices_only = panel.score(observation=np.zeros(panel.z.shape, dtype=bool))
    likelihood = pf.Likelihood(model, choices_only, prior=prior, grid=grid)
    terms, gradient = likelihood.gradient(theta)
    dynamics = [name for name in gradient.index if name.startswith(DYNAMICS)]
    return float(terms.choice.sum()), gradient[dynamics].to_numpy()


def main() -> None:
    limit, limit_gradient = choice_part(pf.Smooth(801))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for scheme, mark in ((pf.Linear, "o-"), (pf.Smooth, "s-")):
        values, gradients = [], []
        for nodes in NODES:
            value, gradient = choice_part(scheme(nodes))
            values.append(abs(value - limit))
            gradients.append(np.max(np.abs(gradient - limit_gradient)))
        relative = np.array(gradients) / np.max(np.abs(limit_gradient))
        for nodes, value, gradient in zip(NODES, values, relative, strict=True):
            print(
                f"{scheme.__name__:7s} {nodes:4d} nodes: value {value:.1e}, gradient {gradient:.1e}"
            )
        axes[0].loglog(NODES, values, mark, label=scheme.__name__)
        axes[1].loglog(NODES, relative, mark, label=scheme.__name__)
        forget_programs()
    for ax, title in zip(
        axes, ("choice log-likelihood: error", "gradient in theta2: relative error"), strict=True
    ):
        ax.set_title(title)
        ax.set_xlabel("belief nodes")
        ax.set_xticks(NODES, labels=map(str, NODES))
        ax.minorticks_off()
        ax.grid(alpha=0.3, which="both")
        ax.legend()
    path = Path(__file__).parents[1] / "docs" / "images" / "refinement.png"
    figure.savefig(path, dpi=120)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
