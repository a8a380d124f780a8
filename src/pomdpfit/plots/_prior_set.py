"""What not knowing the prior does to the estimates, over periods."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pomdpfit._types import Theta
from pomdpfit.identification.priors._prior_fits import ASSUMED
from pomdpfit.identification.priors._prior_set import PriorSet
from pomdpfit.plots._palette import BLUE, GREY, ORANGE, colour, marker


def prior_set(
    found: PriorSet,
    *,
    truth: Theta | pd.Series | None = None,
    axes: Sequence[Axes] | None = None,
) -> np.ndarray:
    """The paper's Figure 2: deviations of dynamics and rewards (2-norm) over periods, log-log.

    A point for each assumed x0, a line through the largest; crosses for the rules beside. With
    `truth` (by entry) a dashed line shows the sampling error of the estimate that knows x0. Fits
    that did not converge are left out.
    """
    groups = list(found.groups)
    if axes is None:
        size = (4.5 * len(groups), 3.6)
        axes = plt.subplots(1, len(groups), figsize=size, layout="constrained", squeeze=False)[1][0]
    told = "known x0" if found.has_known else "most likely x0"
    frame = found.deviations(truth=truth)
    frame = frame[frame["converged"]]
    assumed = frame[frame["kind"] == ASSUMED]
    for ax, group in zip(axes, groups, strict=True):
        column = f"{group}: from {told}"
        for k, (name, part) in enumerate(assumed.groupby("prior", sort=False)):
            style = {"marker": marker(k), "color": colour(k), "mfc": "none", "ls": "none"}
            ax.plot(part["periods"], _shown(part[column]), label=f"x0 = {name}", **style)
        worst = assumed.groupby("periods")[column].max()
        ax.plot(worst.index, _shown(worst), "-", color="black", label="largest")
        for k, (name, part) in enumerate(
            frame[frame["kind"] != ASSUMED].groupby("prior", sort=False)
        ):
            ax.plot(part["periods"], _shown(part[column]), "x", color=colour(k), label=name)
        if truth is not None:
            sampling = assumed.groupby("periods")[f"{group}: {told} from truth"].max()
            label = "x0 known, from the truth" if found.has_known else f"{told}, from the truth"
            ax.plot(sampling.index, _shown(sampling), "--", color=GREY, label=label)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(found.periods, [str(k) for k in found.periods])
        ax.set_xlabel("periods")
        ax.set_ylabel(f"distance from the estimate at the {told}")
        ax.set_title(group)
        ax.margins(y=0.35)  # room for the legend
        ax.legend(fontsize=6, ncols=2, loc="lower left")
    return np.asarray(axes)


def prior_ranges(
    found: PriorSet,
    parameter: str,
    *,
    truth: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The range of one parameter over all assumed x0, and over those that the data allow."""
    ax = plt.gca() if ax is None else ax
    for ranges, ink, label in (
        (found.ranges, BLUE, "any x0 assumed"),
        (found.likely_ranges(), ORANGE, "x0 in the 95 % region"),
    ):
        part = ranges.reset_index()
        part = part[(part["parameter"] == parameter) & (part["fits"] > 0)].set_index("periods")
        low, high = (part[side].to_numpy(dtype=float) for side in ("lowest", "highest"))
        middle = (low + high) / 2
        wide = 8 if ink == BLUE else 3
        ax.vlines(part.index, low, high, color=ink, linewidth=wide, alpha=0.6, label=label)
        ax.plot(part.index, middle, "_", color=ink, markersize=2 * wide)  # where it is a point
    if truth is not None:
        ax.axhline(truth, color="black", linestyle="--", linewidth=0.8, label="truth")
    ax.set_xscale("log", base=2)
    ax.set_xticks(found.periods, [str(k) for k in found.periods])
    ax.set_xlabel("periods")
    ax.set_ylabel(parameter)
    ax.margins(y=0.25)
    ax.legend(fontsize=7, loc="lower right")
    return ax


def _shown(values: pd.Series) -> pd.Series:
    """Distances on a logarithmic axis: an estimate's distance from itself is not drawn."""
    return values.where(values > 0)
