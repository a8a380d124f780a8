"""How standard errors fall with agents and periods."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, NullLocator

from pomdpfit.plots._palette import GREY, colour, marker, plain
from pomdpfit.studies import StudyDesign
from pomdpfit.studies._law import predicted_sd

_COLUMNS = 4


def design(
    found: StudyDesign,
    parameters: Sequence[str] | None = None,
    *,
    se: float | None = None,
    axes: Sequence[Axes] | None = None,
) -> np.ndarray:
    """One picture a parameter, log-log: sd over replications by N, a mark for each T.

    Bars are two standard errors of the Monte Carlo, lines the law sd = c N^(-1/2) T^(-b), dashes
    the standard error by the information alone. A dotted line marks the `se` that is wanted.
    """
    names = list(found.draws.columns) if parameters is None else list(parameters)
    laws = [found.law_of(name) for name in names]
    if axes is None:
        across = min(len(names), _COLUMNS)
        down = -(-len(names) // across)
        size = (3.6 * across, 3.2 * down)
        grid = plt.subplots(down, across, figsize=size, layout="constrained", squeeze=False)[1]
        axes = list(grid.flat)[: len(names)]
        for spare in list(grid.flat)[len(names) :]:
            spare.set_visible(False)
    for law, ax in zip(laws, axes, strict=True):
        _draw(found, law, ax)
        if se is not None:
            ax.axhline(se, color=GREY, linestyle=":", label=f"wanted: {se:g}")
        ax.legend(fontsize=7)
    return np.asarray(axes)


def _draw(found: StudyDesign, law: pd.Series, ax: Axes) -> None:
    rows = found.table[found.table["parameter"] == law.name]
    for k, T in enumerate(sorted(set(rows["periods"]))):
        part = rows[rows["periods"] == T]
        ink, N = colour(k), part["agents"].to_numpy(dtype=float)
        ax.errorbar(
            N,
            part["sd"],
            2 * part["sd_se"],
            fmt=marker(k),
            color=ink,
            markersize=4,
            capsize=2,
            label=f"T = {T}",
        )
        ax.plot(N, part["information_se"], "--", color=ink, linewidth=0.9)
        if np.isfinite(law["c"]):
            ax.plot(N, [predicted_sd(law, n, float(T))[0] for n in N], "-", color=ink, linewidth=1)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ticks = sorted(set(rows["agents"]))
    ax.set_xticks(ticks, [str(N) for N in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
    ax.tick_params(axis="y", which="minor", labelsize=7)
    ax.set_xlabel("agents")
    ax.set_ylabel("standard deviation of the estimate")
    ax.set_title(plain(law.name), fontsize=9)
