"""Draw docs/images/states.png: size and power of the test of MDP against POMDP.

The figures are those of states.json beside this file, which
`python -m replication.states --out ../docs/pictures/states.json` (from tests/) measures anew.
Run: python docs/pictures/states.py
"""

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

HERE = Path(__file__).parent
CURVES = {
    "likelihood ratio": ("likelihood ratio, bootstrap", "o-"),
    "serial": ("serial dependence", "s--"),
    "order": ("Markov order", "D:"),
}
EXTRA = 6  # parameters of the second state


def draw_power(found: dict, ax: plt.Axes) -> None:
    """Shares rejected at 5 % by how much the two conditions differ."""
    effects = [float(effect) for effect in found]
    for name, (label, style) in CURVES.items():
        share, error = np.array([found[effect][name] for effect in found]).T
        ax.errorbar(effects, share, 2 * error, fmt=style, ms=4, capsize=2, label=label)
    ax.axhline(0.05, color="black", lw=0.8, ls=":", label="nominal 5 %")
    ax.set_xlabel("how much the two conditions differ")
    ax.set_ylabel("share of panels rejected")
    ax.legend(fontsize=8)


def draw_null(null: dict, ax: plt.Axes) -> None:
    """The ratio where nothing is hidden, what the bootstrap takes for its law, and chi-square."""
    lr = np.linspace(0, 25, 400)
    share = np.arange(1, len(null["lr"]) + 1) / len(null["lr"])
    ax.step(np.sort(null["lr"]), share, where="post", label="of MDP panels")
    ax.step(np.sort(null["drawn"]), share, where="post", label="of panels simulated at their MDP")
    ax.plot(lr, stats.chi2.cdf(lr, EXTRA), color="black", ls=":", label=f"chi-square({EXTRA})")
    ax.axhline(0.95, color="grey", lw=0.6)
    ax.set_xlim(0, 25)
    ax.set_xlabel("likelihood ratio, 1 against 2 conditions")
    ax.set_ylabel("share below")
    ax.legend(fontsize=8)


if __name__ == "__main__":
    found = json.loads((HERE / "states.json").read_text())
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    draw_power(found, left)
    draw_null(found["0.0"], right)
    figure.savefig(HERE.parent / "images" / "states.png", dpi=130)
