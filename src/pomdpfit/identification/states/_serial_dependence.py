"""Does what happens hang together in time, given what is seen? The paper's Durbin-Watson remark.

In an MDP z_{t+1} depends on the past through (z_t, a_t) alone, so what it misses of its mean is
noise. A hidden state that persists leaves a correlation there. No model has to be fitted.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtr

from pomdpfit._errors import EstimationError, PanelError
from pomdpfit._panel import Panel
from pomdpfit._summary import Summary
from pomdpfit._types import ArrayLike, Bool, Float, Int
from pomdpfit.identification.states._pretest_rows import context, following, numbered, usable
from pomdpfit.inference._serial import serial_table


@dataclasses.dataclass(frozen=True, eq=False)
class SerialDependence:
    """Residuals (N, T), Durbin-Watson and Ljung-Box by agent, and one test for all agents.

    `statistic` is standard normal if nothing is hidden. `correlation` is that of neighbours as the
    test takes them; given z its sign has no meaning of its own.
    """

    residuals: Float[np.ndarray, "N T"] = dataclasses.field(repr=False)
    table: pd.DataFrame = dataclasses.field(repr=False)
    statistic: float
    pvalue: float
    correlation: float
    pairs: int
    given: str

    def summary(self) -> Summary:
        """The spread of Durbin-Watson over the agents, and what the test says."""
        watson, box = (self.table[name].dropna() for name in ("durbin_watson", "p_value"))
        facts = (
            ("Residuals of", self.given),
            ("Neighbours", f"{self.pairs:,} pairs"),
            ("Correlation", f"{self.correlation:.4f}"),
            ("Normal statistic", f"{self.statistic:.2f}"),
            ("p-value", f"{self.pvalue:.4g}"),
        )
        table = pd.DataFrame({"durbin_watson": watson.describe()[["min", "25%", "50%", "75%"]]})
        table.loc["max"] = watson.max()
        notes = [
            "Durbin-Watson is near 2 without serial dependence and lower where neighbours are "
            f"alike; {int((box < 0.05).sum())} of {len(box)} agents fail Ljung-Box at 5 %.",
            _verdict(self.pvalue),
        ]
        return Summary("Serial dependence, without a model", facts, table, tuple(notes))

    def __str__(self) -> str:
        return str(self.summary())


def _verdict(pvalue: float) -> str:
    if pvalue > 0.05:
        return "Nothing here speaks against the MDP. It is no proof: other dependence may be there."
    return (
        "The past tells something that the present does not. A hidden state does that; so do "
        "agents that differ from each other, shocks that all share, and bins that are too wide."
    )


def serial_dependence(
    panel: Panel,
    *,
    increments: bool = False,
    outcome: ArrayLike | None = None,
    actions: Sequence[int] | None = None,
    lags: int = 12,
) -> SerialDependence:
    """Test the residuals e_t = (y_t - mean) / sd of each cell for dependence from row to row.

    y_t is z_{t+1} and its cell (z_t, a_t); with `increments` y_t is z_{t+1} - z_t and its cell a_t,
    for data that are too sparse or processes that move alike everywhere. `actions` keeps the
    transitions after these alone: a replacement that sets z back to zero has no increment.
    `outcome` (N, T) is a y_t of your own, given nothing: miles driven, say, NaN where unknown,
    whether or not z_{t+1} is scored. Covariates split the cells.

    The test: sum w_t e_{t+1} / sqrt(sum (w_t e_{t+1})^2) over neighbours, with w_t the e_t less
    their mean in the cell of row t + 1, so that estimated means cost nothing. Standard normal in
    an MDP, whatever the actions follow.
    """
    use = usable(panel, actions, scored=outcome is None)
    y = _outcome(panel, increments, outcome)
    known = {"z": panel.z, "a": panel.a}
    if increments or outcome is not None:
        del known["z"]
    if outcome is not None:
        del known["a"]
    cell = np.full(panel.z.shape, -1)
    cell[use] = numbered(context(panel)[use], *(column[use] for column in known.values()))
    e = _standardised(y, cell, use)
    statistic, correlation, pairs = _pooled(e, cell)
    what = "the outcome" if outcome is not None else "z' - z" if increments else "z'"
    return SerialDependence(
        e,
        serial_table(e, panel, lags),
        statistic,
        float(2 * ndtr(-abs(statistic))),
        correlation,
        pairs,
        f"{what} given {', '.join(known)}" if known else what,
    )


def _outcome(panel: Panel, increments: bool, outcome: ArrayLike | None) -> Float[np.ndarray, "N T"]:
    if outcome is None:
        return (following(panel.z) - (panel.z if increments else 0)).astype(float)
    y = np.asarray(outcome, dtype=float)
    if y.shape != panel.z.shape:
        raise PanelError(f"outcome must have shape {panel.z.shape}, but it has {y.shape}.")
    return y


def _standardised(
    y: Float[np.ndarray, "N T"], cell: Int[np.ndarray, "N T"], use: Bool[np.ndarray, "N T"]
) -> Float[np.ndarray, "N T"]:
    """Mean 0 and variance 1 in each cell; NaN where a cell does not vary."""
    use = use & np.isfinite(y)
    values, at = y[use], cell[use]
    if len(values) == 0:
        raise EstimationError("no transition of the panel is scored and informs: nothing to test.")
    count = np.maximum(np.bincount(at), 1)
    centred = values - (np.bincount(at, values) / count)[at]
    variance = (np.bincount(at, centred**2) / count)[at]
    e = np.full(y.shape, np.nan)
    # Rounding leaves a constant with a variance of its square times eps squared.
    varies = variance > 1e-20 * np.maximum(1.0, values**2)
    e[use] = np.where(varies, centred / np.sqrt(np.where(varies, variance, 1.0)), np.nan)
    return e


def _pooled(e: Float[np.ndarray, "N T"], cell: Int[np.ndarray, "N T"]) -> tuple[float, float, int]:
    """The statistic over all neighbours in time, their correlation, and their number."""
    here = np.isfinite(e[:, :-1]) & np.isfinite(e[:, 1:])
    before, after, at = e[:, :-1][here], e[:, 1:][here], cell[:, 1:][here]
    if len(at) == 0:
        raise EstimationError(
            "no two transitions of an agent follow each other: there is no serial dependence to "
            "test. Are the masks right?"
        )
    w = before - (np.bincount(at, before) / np.maximum(np.bincount(at), 1))[at]
    product = w * after
    size = float(np.sqrt((product**2).sum()))
    if size == 0:
        raise EstimationError(
            f"each of the {len(at)} pairs of neighbours stands alone in its cell: use "
            "increments=True, or coarser observations."
        )
    spread = float(np.sqrt((w**2).sum() * (after**2).sum()))
    return float(product.sum() / size), float(product.sum() / spread), len(at)
