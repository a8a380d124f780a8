"""Serial correlation of what the model did not foresee: do its residuals still hang together?

A hidden state that persists makes increments correlated from month to month. A model that has the
right hidden state removes that correlation from its one-step residuals
e_t = (z_{t+1} - E[z_{t+1} | history, a_t]) / sd[z_{t+1} | history, a_t].
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._belief import Filtered
from pomdpfit._errors import EstimationError
from pomdpfit._kernel import Kernel, at_z
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior
from pomdpfit._test_result import chi_square_p
from pomdpfit._track_beliefs import filtered_panel
from pomdpfit._types import Array, Float, Theta


@in_float64
def observation_residuals(
    model: Model, theta: Theta, panel: Panel, *, prior: AbstractPrior | None = None
) -> Float[np.ndarray, "N T"]:
    """e_t of every scored transition; NaN elsewhere, and where z_{t+1} was certain."""
    kernel, arrays, filtered = filtered_panel(model, theta, panel, prior)
    mean, variance = (np.asarray(part) for part in _moments(kernel, arrays, filtered))
    z_next = np.roll(panel.z, -1, axis=1)
    known = panel.score_observation & (variance > 1e-12)
    scale = np.sqrt(np.where(known, variance, 1.0))
    return np.where(known, (z_next - mean) / scale, np.nan)


@eqx.filter_jit
def _moments(kernel: Kernel, panel: PanelArrays, filtered: Filtered) -> tuple[Array, Array]:
    """Mean and variance of z_{t+1} given the history."""
    row = panel.context * kernel.observations + panel.z
    chance = jnp.asarray(kernel.probability).sum(axis=-1)  # P(z' | z, s, a)
    P = jnp.einsum("nts,ntks->ntk", filtered.belief, at_z(chance, row, panel.a))
    # Relative to z, so that the variance does not drown in the size of z.
    step = at_z(kernel.successors, row, panel.a) - panel.z[..., None]
    mean = (P * step).sum(axis=-1)
    variance = (P * (step - mean[..., None]) ** 2).sum(axis=-1)
    return panel.z + mean, variance


def serial_correlation(
    model: Model,
    theta: Theta,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    lags: int = 12,
) -> pd.DataFrame:
    """Durbin-Watson and Ljung-Box of the one-step residuals, a row for each agent.

    Durbin-Watson is near 2 where neighbours are uncorrelated, and lower where they are alike.
    Ljung-Box is (1 + 2 / n) sum_k (sum_t e_t e_{t-k})^2 / (s^4 m_k) over `lags`, with s^2 the
    variance of the n residuals and m_k the pairs of periods, k apart, that are both scored; without
    gaps m_k = n - k, and it is the textbooks'. Its p-value is that of chi-square(df), where df
    counts the lags that have a pair; estimated parameters make it a little too small.
    """
    return serial_table(observation_residuals(model, theta, panel, prior=prior), panel, lags)


def serial_table(residuals: Float[np.ndarray, "N T"], panel: Panel, lags: int = 12) -> pd.DataFrame:
    """The two statistics for residuals of any origin (NaN where there is none)."""
    if lags < 1:
        raise EstimationError(f"lags must be at least 1, but it is {lags}.")
    lengths = panel.present.sum(axis=1)
    rows = [_statistics(e[:n], lags) for e, n in zip(residuals, lengths, strict=True)]
    index = pd.Index(panel.agents, name="agent", tupleize_cols=False)
    columns = ["residuals", "durbin_watson", "ljung_box", "p_value", "df"]
    return pd.DataFrame(rows, index, columns)


def _statistics(e: Float[np.ndarray, "T"], lags: int) -> tuple[int, float, float, float, int]:
    here = np.isfinite(e)
    n = int(here.sum())
    nothing = n, np.nan, np.nan, np.nan, 0
    if n <= lags + 1:
        return nothing
    e = np.where(here, e - e[here].mean(), 0.0)
    square = float((e**2).sum())
    if square == 0:
        return nothing
    # The pairs that are scored: zeros that stand for what is not must not count as such.
    pairs = np.array([(here[k:] & here[:-k]).sum() for k in range(1, lags + 1)])
    r = np.array([(e[k:] * e[:-k]).sum() / square for k in range(1, lags + 1)])
    # Scaled to the sum that a series without gaps would have.
    apart = float((np.diff(e) ** 2)[here[1:] & here[:-1]].sum())
    watson = apart / square * (n - 1) / pairs[0] if pairs[0] else np.nan
    known = pairs > 0
    box, df = float(n * (n + 2) * (r[known] ** 2 / pairs[known]).sum()), int(known.sum())
    if df == 0:
        return n, watson, np.nan, np.nan, 0
    return n, watson, box, chi_square_p(box, df), df
