"""How fast the prior is forgotten: the paper's eta, Birkhoff's coefficient, and what is so."""

import dataclasses
import functools

import numpy as np
import pandas as pd

from pomdpfit._errors import ModelError
from pomdpfit._labels import action_names, names_of
from pomdpfit._model import Model, checked_primitives, require_model
from pomdpfit._panel import Panel
from pomdpfit._precision import in_float64
from pomdpfit._priors import KnownPrior, labels_of
from pomdpfit._summary import Summary
from pomdpfit._track_beliefs import filtered_panel
from pomdpfit._types import ArrayLike, Bool, Float, Theta
from pomdpfit.identification.memory import _forgetting_words as words
from pomdpfit.identification.memory._corner_distances import (
    checked_corners,
    corner_beliefs,
    largest_distances,
    promised_distances,
)
from pomdpfit.identification.memory._metrics import bound_paper_distance, bound_total_variation
from pomdpfit.identification.memory._step_kernels import (
    coefficient_table,
    model_steps,
    panel_steps,
)

_ROUNDING = 1e-12  # by which D may exceed eta^M and still not count as a violation


@dataclasses.dataclass(frozen=True, eq=False)
class Forgetting:
    """How far apart two priors can still leave an agent's beliefs, period by period.

    `kernels` has a row for each different matrix of the model, with the paper's eta, the diameter
    Delta and Birkhoff's tau = tanh(Delta/4). The arrays hold, for each agent and period, the
    largest distance between any two priors in the hull of `beliefs`: total variation, the paper's
    D, Hilbert's h, and `bound`, which Birkhoff promises for h. Rows that do not exist are NaN.
    """

    kernels: pd.DataFrame
    beliefs: Float[np.ndarray, "k S"]
    tv: Float[np.ndarray, "N T"] = dataclasses.field(repr=False)
    D: Float[np.ndarray, "N T"] = dataclasses.field(repr=False)
    h: Float[np.ndarray, "N T"] = dataclasses.field(repr=False)
    bound: Float[np.ndarray, "N T"] = dataclasses.field(repr=False)
    refuted: Bool[np.ndarray, "k N"] = dataclasses.field(repr=False)
    panel: Panel = dataclasses.field(repr=False)
    states: tuple[str, ...]

    # ---- coefficients ----------------------------------------------------------------------

    @property
    def eta(self) -> float:
        """The paper's: the largest over all (z', z, a)."""
        return float(self.kernels["eta"].max())

    @property
    def tau(self) -> float:
        """Birkhoff's: the largest over all (z', z, a)."""
        return float(self.kernels["tau"].max())

    def any_history(self, periods: int | np.ndarray) -> Float[np.ndarray, "*b"]:
        """The most that M periods can leave of total variation, whatever is seen in them.

        tanh(h/4) with h = min(Delta, tau h_0) tau^(M-1), Delta and tau the largest of all kernels.
        """
        M, first = np.asarray(periods), float(np.nanmax(self.h[:, 0]))
        widest = float(self.kernels["Delta"].max())
        if np.isfinite(first):
            widest = min(widest, self.tau * first)
        h = widest * self.tau ** np.maximum(M - 1.0, 0.0)
        return bound_total_variation(np.where(M > 0, h, first))

    # ---- along the panel -------------------------------------------------------------------

    @functools.cached_property
    def curve(self) -> pd.DataFrame:
        """A row for each period M: how many agents are seen, actual distances, bounds, eta^M."""
        period = np.arange(self.tv.shape[1])
        bound = bound_total_variation(self.bound)
        frame = pd.DataFrame(
            {"agents": self.panel.present.sum(axis=0)}, index=pd.Index(period, name="period")
        )
        for name, values in (("TV", self.tv), ("D", self.D), ("bound on TV", bound)):
            frame[f"{name} median"] = np.nanmedian(values, axis=0)
            frame[f"{name} 95 %"] = np.nanquantile(values, 0.95, axis=0)
            frame[f"{name} worst"] = np.nanmax(values, axis=0)
        frame["bound on D worst"] = np.nanmax(bound_paper_distance(self.bound), axis=0)
        frame["bound, any history"] = self.any_history(period)
        frame["eta^M"] = self.eta**period
        frame["D above eta^M"] = self._breaks.sum(axis=0)
        return frame

    @property
    def _breaks(self) -> Bool[np.ndarray, "N T"]:
        claimed = self.eta ** np.arange(self.D.shape[1])
        return claimed + _ROUNDING < self.D

    @property
    def violations(self) -> pd.DataFrame:
        """Where the actual D exceeds the paper's eta^M: agent, time, period and both."""
        claimed = self.eta ** np.arange(self.D.shape[1])
        i, t = np.nonzero(self._breaks)
        return pd.DataFrame(
            {
                "agent": [self.panel.agents[k] for k in i],
                "time": self.panel.times[i, t].tolist(),
                "period": t,
                "D": self.D[i, t],
                "eta^M": claimed[t],
            }
        )

    def periods(self, tolerance: float = 0.01) -> int | None:
        """The M from which on no prior moves a belief by more than this, in any agent seen there.

        In total variation, along this panel; None if it does not come to that (`verdict` says why).
        """
        _, over = np.nonzero(self.tv > _checked(tolerance))
        enough = int(np.max(over, initial=-1)) + 1
        return enough if enough < self.tv.shape[1] else None

    def by_agent(self, tolerance: float = 0.01) -> pd.Series:
        """The same for each agent alone; missing where its panel ends before."""
        over = self.tv > _checked(tolerance)
        last = over.shape[1] - np.argmax(over[:, ::-1], axis=1)
        first = pd.array(np.where(over.any(axis=1), last, 0), dtype="Int64")
        first[np.asarray(first) >= self.panel.present.sum(axis=1)] = pd.NA
        index = pd.Index(self.panel.agents, name="agent", tupleize_cols=False)
        return pd.Series(first, index, name="periods")

    def verdict(self, tolerance: float = 0.01) -> str:
        """`periods` in a sentence, or why the prior is not forgotten."""
        return words.verdict(self, tolerance)

    def summary(self, tolerance: float = 0.01) -> Summary:
        """The curve at a few periods, and in words what forgets, what does not, what is sure."""
        return words.summary(self, tolerance)

    def __str__(self) -> str:
        return str(self.summary())


@in_float64
def forgetting(
    model: Model, theta: Theta, panel: Panel, *, beliefs: ArrayLike | None = None
) -> Forgetting:
    """How fast agents of this panel forget their priors at theta.

    `beliefs` (k, S) are the corners of the part of the simplex that x0 may lie in; by default the
    simplex. The filter is run from each corner: it maps the part onto the hull of the corners'
    images, and no two points of a hull are further apart than two of its corners.
    """
    require_model(model)
    own = model.space()
    theta = {name: leaf for name, leaf in theta.items() if name in own.parameters}
    corners = checked_corners(beliefs, checked_primitives(model, theta, own).states)
    # The mean of the corners can produce z' if any of them can: refused otherwise, with reasons.
    kernel, arrays, _ = filtered_panel(model, theta, panel, KnownPrior(corners.mean(axis=0)))
    log_x = corner_beliefs(kernel, arrays, corners)
    tv, D, h = largest_distances(log_x, panel.present)
    context = np.asarray(arrays.context)
    steps = panel_steps(context, panel.z, panel.a, panel.informs)
    possible = model_steps(kernel, int(context.max()) + 1, model.available())
    actions = action_names(model, kernel.actions, panel)
    names = names_of("observation", model, panel, kernel.observations)
    return Forgetting(
        kernels=coefficient_table(kernel, possible, steps[panel.continues], actions, names),
        beliefs=corners,
        tv=tv,
        D=D,
        h=h,
        bound=promised_distances(kernel, steps, panel, float(h[:, 0].max())),
        refuted=np.asarray(np.isneginf(log_x).all(axis=-1).any(axis=-1)),
        panel=panel,
        states=labels_of(model, kernel.states),
    )


def _checked(tolerance: float) -> float:
    if not 0 < tolerance < 1:
        raise ModelError(
            "the tolerance is a distance in total variation, between 0 and 1, but it is "
            f"{tolerance}."
        )
    return tolerance
