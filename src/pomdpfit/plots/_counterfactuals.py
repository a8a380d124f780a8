"""Behaviour and value when something is different."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pomdpfit._errors import ModelError
from pomdpfit.counterfactuals import Counterfactual, DemandCurve, InformationValue
from pomdpfit.plots._palette import BLUE, GREY, INK, colour, dash, plain


def demand_curve(found: DemandCurve | Mapping[str, DemandCurve], *, ax: Axes | None = None) -> Axes:
    """The parameter upwards, the demand across, its band shaded; dotted where the baseline is.

    Several curves, by name, are drawn on the same axes: of one action and one parameter.
    """
    curves = dict(found) if isinstance(found, Mapping) else {"expected": found}
    if len({(c.parameter, c.action, c.per) for c in curves.values()}) != 1:
        raise ModelError("curves drawn together must be of one parameter, action and `per`.")
    ax = plt.gca() if ax is None else ax
    for k, (name, curve) in enumerate(curves.items()):
        table = curve.to_frame().sort_index()
        values, ink = table.index.to_numpy(dtype=float), colour(k)
        ax.plot(table["estimate"], values, color=ink, linestyle=dash(k), label=plain(name))
        if np.isfinite(table["lower"]).all():
            level = f"{100 * (1 - curve.alpha):g} % band" if len(curves) == 1 else None
            edges = table["lower"], table["upper"]
            ax.fill_betweenx(values, *edges, color=ink, alpha=0.2, lw=0, label=level)
    low, high = values[0], values[-1]
    for here in sorted({round(c.estimate, 9) for c in curves.values()}):
        if low <= here <= high:
            ax.axhline(here, color=GREY, linestyle=":", label=f"baseline, {here:.4g}")
    among = "a period" if curve.per == 1 else f"{curve.per:g} agents and periods"
    ax.set_xlabel(plain(f"{curve.action}: expected number in {among}"))
    ax.set_ylabel(plain(curve.parameter))
    ax.legend(fontsize=8)
    return ax


def counterfactual(found: Counterfactual, *, ax: Axes | None = None) -> Axes:
    """Shares of each action before and after, with their bands."""
    ax = plt.gca() if ax is None else ax
    table = found.to_frame()
    outcomes = table.index.get_level_values("outcome")
    names = [name for name in dict.fromkeys(outcomes) if str(name).startswith("share[")]
    place = np.arange(len(names))[::-1]
    for of, shift, ink in (("baseline", 0.12, INK), ("counterfactual", -0.12, BLUE)):
        rows = pd.DataFrame(table.xs(of, level="of")).loc[names]
        _bars(ax, rows, place + shift, ink, of)
    ax.set_yticks(place, [plain(str(name)[len("share[") : -1]) for name in names])
    ax.set_xlabel(f"share of choices, {found.shares}")
    ax.set_title(plain("; ".join(found.changes)), fontsize=8)
    ax.legend(fontsize=8)
    return ax


def information_value(
    found: InformationValue, *, measure: str | None = None, ax: Axes | None = None
) -> Axes:
    """Gains with their bands, in dollars per period where these are known."""
    ax = plt.gca() if ax is None else ax
    table = found.to_frame()
    measures = set(table.index.get_level_values("measure"))
    in_money = "dollars per period" in measures
    measure = measure or ("dollars per period" if in_money else "value per period")
    rows = pd.DataFrame(table.xs(measure, level="measure"))
    place = np.arange(len(rows))[::-1]
    _bars(ax, rows, place, BLUE, "gain")
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    ax.set_yticks(place, [plain(name) for name in rows.index])
    ax.set_xlabel(f"gain, {measure}")
    return ax


def _bars(ax: Axes, rows: pd.DataFrame, place: np.ndarray, ink: str, label: str) -> None:
    """A dot for each row and, where there is a band, a line."""
    ax.plot(rows["estimate"], place, "o", color=ink, markersize=4, label=label)
    known = np.isfinite(rows["lower"].to_numpy(dtype=float))
    ax.hlines(place[known], rows["lower"][known], rows["upper"][known], color=ink)
