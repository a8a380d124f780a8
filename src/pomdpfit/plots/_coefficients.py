"""Estimates with their intervals."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pomdpfit._estimate import Estimate
from pomdpfit.plots._palette import BLUE


def coefficients(
    estimate: Estimate,
    *,
    truth: Mapping[str, float] | None = None,
    alpha: float = 0.05,
    ax: Axes | None = None,
) -> Axes:
    """Estimates with their intervals, each in units of its standard error around the estimate.

    With `truth` (or another point, a published one say) its distance is drawn too. Entries without
    a standard error are left out and named below.
    """
    ax = plt.gca() if ax is None else ax
    se = estimate.bse
    shown = [name for name in estimate.params.index if np.isfinite(se[name])]
    place = np.arange(len(shown))[::-1]
    interval = estimate.conf_int(alpha)
    centre = estimate.params[shown].to_numpy()
    low, high = ((interval[c][shown].to_numpy() - centre) / se[shown] for c in ("lower", "upper"))
    ax.hlines(place, low, high, color=BLUE)
    ax.plot(np.zeros(len(shown)), place, "o", color=BLUE, label="estimate and interval")
    if truth is not None:
        gap = [(truth[n] - estimate.params[n]) / se[n] if n in truth else np.nan for n in shown]
        ax.plot(gap, place, "x", color="black", label="given point")
    labels = [f"{n} = {v:.4g}" for n, v in zip(shown, centre, strict=True)]
    ax.set_yticks(place, labels, fontsize=8)
    ax.set_xlabel("distance from the estimate, in standard errors")
    missing = [name for name in estimate.params.index if name not in shown]
    if missing:
        why = "not converged: standard errors are withheld"
        told = f"no standard error: {', '.join(missing)}"
        ax.set_title(why if estimate.withheld else told, fontsize=8)
    ax.legend(fontsize=8)
    return ax
