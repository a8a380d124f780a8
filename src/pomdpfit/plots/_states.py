"""How many hidden states: criteria by |S|, and the likelihood ratio among simulated ones."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pomdpfit.identification.states._state_choice import StateChoice
from pomdpfit.plots._palette import BLUE, colour, dash, marker


def states(choice: StateChoice, *, axes: Sequence[Axes] | None = None) -> np.ndarray:
    """Criteria by |S| on the first axes; on one more for each test, LR and its simulated law.

    AIC, BIC and -2 times the held-out log-likelihood, each as its distance from its best: lower is
    better, 0 is what the criterion picks. `axes` must be one more than the pairs of |S| tested.
    """
    tested = list(choice.table.index[choice.table["p_value"].notna()])
    if axes is None:
        count = 1 + len(tested)
        axes = plt.subplots(
            1, count, figsize=(4.4 * count, 3.4), layout="constrained", squeeze=False
        )[1][0]
    _criteria(choice, axes[0])
    for k, ax in zip(tested, axes[1:], strict=True):
        draws = choice.lr.loc[choice.lr["states"] == k, "lr"].dropna()
        ax.hist(draws, bins="auto", color=BLUE, alpha=0.5, label="simulated at the smaller")
        critical = draws.quantile(1 - choice.alpha)
        ax.axvline(critical, color=BLUE, ls="--", label=f"its {1 - choice.alpha:g} quantile")
        ax.axvline(choice.table.loc[k, "lr"], color="black", label="of the data")
        ax.set_xlabel(f"likelihood ratio, {k} against {k + 1} states")
        ax.set_title(f"p = {choice.table.loc[k, 'p_value']:.3g}", fontsize=9)
        ax.legend(fontsize=8)
    return np.asarray(axes)


def _criteria(choice: StateChoice, ax: Axes) -> None:
    table = choice.table
    series = {
        "AIC": table["aic"],
        "BIC": table["bic"],
        "-2 held-out log-likelihood": -2 * table["cv"],
    }
    for k, (name, values) in enumerate(series.items()):
        if np.isfinite(values).any():
            gap, ink = values - values.min(), colour(k)
            ax.plot(table.index, gap, color=ink, linestyle=dash(k), marker=marker(k), label=name)
    ax.set_xticks(list(table.index))
    ax.set_xlabel("hidden states |S|")
    ax.set_ylabel("distance from the best")
    ax.legend(fontsize=8)
