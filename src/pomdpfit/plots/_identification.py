"""What can be told apart, by number of periods; and the profile of a parameter."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.special import chdtri

from pomdpfit.identification import Identification, Profile, Spectrum
from pomdpfit.plots._palette import BLUE, GREY, RED


def identification(report: Identification, *, ax: Axes | None = None) -> Axes:
    """Singular values by number of periods: those on the floor are not told apart.

    A dot is one direction, relative to the one that is told best; the shaded part is what rounding
    and the belief grid leave. The rank stands above.
    """
    ax = plt.gca() if ax is None else ax
    rank = report.everything
    floor = 1e-17
    for k, values in enumerate(rank.values):
        place, shown = np.full(len(values), k + 1), np.maximum(values, floor)
        ax.semilogy(place, shown, "o", color="black", ms=3)
        ax.annotate(str(rank.by_period[k + 1]), (k + 1, 3.0), ha="center", fontsize=8)
    ax.axhspan(floor / 3, rank.tolerance, color=RED, alpha=0.15, label="not told apart")
    ax.set_ylim(floor / 3, 30)
    ax.set_xticks(np.arange(1, len(rank.values) + 1))
    ax.set_xlabel("periods")
    ax.set_ylabel("singular value, relative")
    ax.set_title(f"rank of {rank.dimension} parameters by period", fontsize=9)
    ax.legend(loc="center", fontsize=8)
    return ax


def profile(found: Profile, *, alpha: float = 0.05, ax: Axes | None = None) -> Axes:
    """The log-likelihood against one parameter, with the level of its interval."""
    ax = plt.gca() if ax is None else ax
    curve = found.curve
    ax.plot(curve.index, curve, "o-", color=BLUE, ms=3, label="profile")
    level = found.llf - 0.5 * chdtri(1, alpha)
    ax.axhline(level, color=GREY, linestyle=":", label=f"{100 * (1 - alpha):g} % level")
    ax.axvline(found.estimate, color="black", linewidth=0.8, label=f"{found.estimate:.4g}")
    for end in found.conf_int(alpha):
        if np.isfinite(end):
            ax.axvline(end, color=GREY, linewidth=0.8, linestyle="--")
    ax.set_xlabel(found.name)
    ax.set_ylabel("log-likelihood")
    ax.legend(fontsize=8)
    return ax


def spectrum(found: Spectrum, *, ax: Axes | None = None) -> Axes:
    """Eigenvalues of the information at an estimate, and what the flattest directions move."""
    ax = plt.gca() if ax is None else ax
    image = ax.imshow(found.shares.to_numpy(), aspect="auto", cmap="Greys", vmin=0, vmax=1)
    names = found.shares.columns
    ax.set_xticks(np.arange(len(names)), names, rotation=60, ha="right", fontsize=7)
    labels = [f"{value:.2g}" for value in found.eigenvalues]
    ax.set_yticks(np.arange(len(labels)), labels, fontsize=7)
    ax.set_ylabel("eigenvalue")
    ax.figure.colorbar(image, ax=ax, label="share in the direction")
    return ax
