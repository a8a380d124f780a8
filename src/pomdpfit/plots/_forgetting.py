"""How fast the prior is forgotten."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pomdpfit.identification.memory._forgetting import Forgetting
from pomdpfit.plots._palette import BLUE, GREY, RED

_FLOOR = 1e-6  # below which no distance is of interest


def forgetting(
    found: Forgetting, *, tolerance: float = 0.01, axes: Sequence[Axes] | None = None
) -> np.ndarray:
    """Two panels over periods: total variation with Birkhoff's bound, D with the paper's eta^M.

    The shaded band reaches from the median agent to the worst.
    """
    if axes is None:
        axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")[1]
    curve = found.curve
    for ax, name in zip(axes, ("TV", "D"), strict=True):
        middle, worst = (np.maximum(curve[f"{name} {w}"], _FLOOR) for w in ("median", "worst"))
        ax.fill_between(curve.index, middle, worst, color=BLUE, alpha=0.2)
        ax.plot(curve.index, middle, color=BLUE, label="actual, median agent")
        ax.plot(curve.index, worst, color=BLUE, linewidth=2, label="actual, worst agent")
        bound = np.maximum(curve[f"bound on {name} worst"], _FLOOR)
        ax.plot(curve.index, bound, "--", color="black", label="Birkhoff's bound, worst agent")
        ax.set_yscale("log")
        ax.set_ylim(_FLOOR, 1.5)
        ax.set_xlabel("periods M")
    axes[0].axhline(tolerance, color=GREY, linewidth=0.8)
    axes[0].set_ylabel("largest total variation between two priors")
    axes[1].set_ylabel("largest D between two priors")
    axes[1].plot(curve.index, curve["eta^M"], ":", color=RED, label="the paper's eta^M")
    above = curve[curve["D above eta^M"] > 0]
    axes[1].plot(above.index, above["D worst"], "x", color=RED, label="breaks eta^M")
    for ax in axes:
        ax.legend(fontsize=7, loc="lower left")
    return np.asarray(axes)
