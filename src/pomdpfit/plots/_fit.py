"""Observed against predicted choices by cell of z; and what residuals remember."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtri

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._types import ArrayLike, Float
from pomdpfit.inference._chi_square import FitTest, chi_square_test
from pomdpfit.plots._palette import BLUE, GREY, RED, plain
from pomdpfit.plots._subject import number_of

_LEAST = 10  # pairs of residuals behind a dot


def fit(
    found: FitTest | Estimate,
    action: str | int | None = None,
    *,
    cells: int = 8,
    alpha: float = 0.05,
    ax: Axes | None = None,
) -> Axes:
    """How often an action was taken in each cell of z, with intervals, and what the model says.

    found   `pf.chi_square_test(est)`, or the estimate, which is then tested with `cells`
    action  by label or number; the last one if not given

    Intervals are Wilson's for a share, as if choices in a cell were alike: they show how much
    chance there is in the observed share. The test, in the title, makes no such assumption.
    """
    test = chi_square_test(found, cells) if isinstance(found, Estimate) else found
    table = test.table
    names = plotted_actions(test)
    name = names[-1] if action is None else names[number_of("action", action, names)]
    rows = table["rows"].to_numpy(dtype=float)
    shown = rows > 0
    observed = table[f"{name}: observed"].to_numpy()[shown] / rows[shown]
    predicted = table[f"{name}: predicted"].to_numpy()[shown] / rows[shown]
    low, high = wilson(observed, rows[shown], alpha)
    ax = plt.gca() if ax is None else ax
    place = np.flatnonzero(shown)
    ax.vlines(place, low, high, color=BLUE, linewidth=1.5)
    level = f"{100 * (1 - alpha):g} %"
    ax.plot(place, observed, "o", color=BLUE, label=f"observed, {level} interval")
    ax.plot(place, predicted, "D", color=RED, mfc="none", ms=7, label="predicted")
    ax.set_xticks(np.arange(len(table)), [str(cell) for cell in table.index], rotation=45)
    ax.set_ylim(0.0, 1.4 * max(high.max(), predicted.max()))  # room for the legend
    ax.set_xlabel("observation z, by cell")
    ax.set_ylabel(plain(f"share of {name}"))
    told = test.test
    ax.set_title(f"chi-square({told.df}) = {told.statistic:.2f}, p = {told.pvalue:.3g}", fontsize=9)
    ax.legend(fontsize=8)
    return ax


def plotted_actions(test: FitTest) -> list[str]:
    """The actions that a test of fit counts, in order."""
    columns, end = map(str, test.table.columns), ": observed"
    return [column.removesuffix(end) for column in columns if column.endswith(end)]


def wilson(
    share: Float[np.ndarray, "k"], count: Float[np.ndarray, "k"], alpha: float
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval for a share: the p that a test by the normal law does not reject.

    (share - p)^2 <= c^2 p (1 - p) / count, with c the normal quantile.
    """
    c2 = float(ndtri(1 - alpha / 2)) ** 2
    centre = (share + c2 / (2 * count)) / (1 + c2 / count)
    half = np.sqrt(c2 * (share * (1 - share) / count + c2 / (4 * count**2))) / (1 + c2 / count)
    # Rounding must not put a share of 0 or 1 outside its own interval.
    return np.minimum(np.maximum(centre - half, 0), share), np.maximum(
        np.minimum(centre + half, 1), share
    )


def serial(residuals: ArrayLike, *, lags: int = 12, ax: Axes | None = None) -> Axes:
    """Autocorrelation of residuals (agents by periods, NaN where there is none), by lag.

    Over all agents together, around zero, which is the residuals' mean if the model is right: means
    of short series would bias it. The band holds 95 % of chance values where nothing is left, about
    1.96 / sqrt(pairs). Lags with fewer than ten pairs are left out.
    """
    correlation, pairs = autocorrelation(residuals, lags)
    ax = plt.gca() if ax is None else ax
    lag = np.flatnonzero(pairs >= _LEAST) + 1  # of a few pairs there is nothing to see
    correlation, band = correlation[lag - 1], 1.96 / np.sqrt(pairs[lag - 1])
    ax.fill_between(lag, -band, band, color=GREY, alpha=0.3, lw=0, label="chance, 95 %")
    ax.axhline(0.0, color="black", linewidth=0.8)
    ax.vlines(lag, 0, correlation, color=BLUE)
    ax.plot(lag, correlation, "o", color=BLUE, label="residuals")
    ax.set_xlabel("lag, in periods")
    ax.set_ylabel("autocorrelation")
    ax.set_xticks(lag)
    far = max(np.abs(correlation).max(initial=0.0), band.max(initial=0.0)) or 1.0
    ax.set_ylim(-1.1 * far, 1.5 * far)
    ax.legend(fontsize=8, loc="upper right", ncols=2)  # above all that is drawn
    return ax


def autocorrelation(residuals: ArrayLike, lags: int) -> tuple[np.ndarray, np.ndarray]:
    """r_k = mean(e_t e_{t+k}) / mean(e_t^2) and the pairs behind it, k = 1..lags."""
    e = np.asarray(residuals, dtype=float)
    if e.ndim != 2 or lags < 1 or not np.isfinite(e).any():
        raise EstimationError(
            f"residuals must be agents by periods with some finite, and lags at least 1, but they "
            f"have shape {e.shape}, {int(np.isfinite(e).sum())} finite, and lags is {lags}."
        )
    here = np.isfinite(e)
    e = np.where(here, e, 0.0)
    variance = (e**2).sum() / here.sum()
    found, pairs = np.full(lags, np.nan), np.zeros(lags)
    for k in range(1, min(lags, e.shape[1] - 1) + 1):
        both = here[:, k:] & here[:, :-k]
        pairs[k - 1] = both.sum()
        if both.any() and variance > 0:
            found[k - 1] = (e[:, k:] * e[:, :-k])[both].mean() / variance
    return found, pairs
