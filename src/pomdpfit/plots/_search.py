"""What the search for a maximum found, and how it got there."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._summary_parts import unfinished_starts
from pomdpfit.plots._palette import BLUE, RED, colour, dash, marker


def modes(estimate: Estimate, *, ax: Axes | None = None) -> Axes:
    """Every maximum by its log-likelihood below the first one's, with the starts that led there.

    A hollow dot is an estimate that is no maximum; starts that did not converge are counted in the
    title. A dot to the right of the line is higher: two-stage
    estimates are ranked by their stages, not by the sum.
    """
    ax = plt.gca() if ax is None else ax
    found = estimate.modes
    place = np.arange(len(found))
    gap = (found["llf"] - found["llf"].iloc[0]).to_numpy()
    good = found["converged"].to_numpy(dtype=bool)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.plot(gap[good], place[good], "o", color=BLUE, label="converged")
    if not good.all():
        ax.plot(gap[~good], place[~good], "o", color=RED, mfc="none", label="no maximum")
        ax.legend(fontsize=8)
    for k, starts in enumerate(found["starts"]):
        if np.isfinite(gap[k]):
            text = f"{starts} start{'s' if starts != 1 else ''}"
            left = gap[k] < 0  # of its dot, and so clear of the line
            ax.annotate(
                text,
                (gap[k], k),
                (-6 if left else 6, 6),
                textcoords="offset points",
                ha="right" if left else "left",
                fontsize=8,
            )
    ax.set_yticks(place, [f"mode {k}" for k in found.index])
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.margins(x=0.2)
    ax.set_xlabel(f"log-likelihood, less {found['llf'].iloc[0]:,.3f}")
    lost = len(unfinished_starts(estimate))
    if lost:
        ax.set_title(f"{lost} of {len(estimate.starts)} starts did not converge", fontsize=9)
    return ax


def convergence(estimate: Estimate, *, ax: Axes | None = None) -> Axes:
    """What is left to climb at each step of the search that found the estimate, by stage.

    A stage ends at its own highest value, so its last step (nothing left) is not on the log scale.
    """
    if not estimate.traces:
        raise EstimationError("this estimate has no record of its search.")
    ax = plt.gca() if ax is None else ax
    stages = len(estimate.traces)
    for k in range(stages):
        llf = estimate.trace(k)["llf"]
        left = llf.max() - llf
        left = left[left > 0]
        label = f"stage {k + 1}" if stages > 1 else "log-likelihood"
        ax.plot(
            left.index,
            left,
            linestyle=dash(k),
            marker=marker(k),
            ms=3,
            color=colour(k),
            label=label,
        )
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("step")
    ax.set_ylabel("log-likelihood left to climb")
    ax.legend(fontsize=8)
    return ax
