"""Beliefs along a panel, as users call for them."""

import dataclasses

import equinox as eqx
import numpy as np
import pandas as pd

from pomdpfit._belief import Filtered, run_filter, run_smoother
from pomdpfit._errors import ImpossibleObservationError
from pomdpfit._impossible import explain_impossible
from pomdpfit._kernel import Kernel
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, checked_with_prior, labels_of
from pomdpfit._scene import for_each_context, stacked_kernel
from pomdpfit._types import Float, Theta


@dataclasses.dataclass(frozen=True, eq=False)
class Beliefs:
    """P(s_t | ...) by agent and period, and log P(z_{t+1} | history, a_t) where z_{t+1} informs."""

    x: Float[np.ndarray, "N T S"]
    log_sigma: Float[np.ndarray, "N T"]
    panel: Panel
    labels: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """The panel's rows with a column for each hidden state."""
        return self.panel.to_frame(**{f"x({s})": self.x[..., k] for k, s in enumerate(self.labels)})


@in_float64
def filter_beliefs(
    model: Model, theta: Theta, panel: Panel, *, prior: AbstractPrior | None = None
) -> Beliefs:
    """What the agent believes at each period: P(s_t | z_0..z_t, a_0..a_{t-1})."""
    _, _, filtered, log_sigma, labels = _run(model, theta, panel, prior)
    return Beliefs(np.asarray(filtered.belief), log_sigma, panel, labels)


def filtered_panel(
    model: Model, theta: Theta, panel: Panel, prior: AbstractPrior | None
) -> tuple[Kernel, PanelArrays, Filtered]:
    """The kernel of all contexts, the panel's arrays and the beliefs along it."""
    return _run(model, theta, panel, prior)[:3]


@in_float64
def smooth_beliefs(
    model: Model, theta: Theta, panel: Panel, *, prior: AbstractPrior | None = None
) -> Beliefs:
    """What the whole panel tells about each period: P(s_t | z_0..z_T, a_0..a_T)."""
    kernel, arrays, filtered, log_sigma, labels = _run(model, theta, panel, prior)
    smoothed = _smooth(kernel, arrays, filtered)
    return Beliefs(np.asarray(smoothed), log_sigma, panel, labels)


compiled_filter = eqx.filter_jit(run_filter)
_smooth = eqx.filter_jit(run_smoother)


@eqx.filter_jit
def _stacked(model: Model, theta: Theta, covariates: dict) -> Kernel:
    kernel = for_each_context(lambda w: model.kernel({**theta, **w}), covariates)
    return stacked_kernel(kernel)


def _run(  # type: ignore[no-untyped-def]
    model: Model, theta: Theta, panel: Panel, prior: AbstractPrior | None
):
    primitives, prior, theta = checked_with_prior(model, theta, prior)
    panel.check(primitives, model)
    x0 = prior.beliefs(theta, prior.data(panel.agents, primitives.states))
    covariates, context = panel.contexts(model.space().covariates, model.group_labels())
    kernel = _stacked(model, theta, covariates)
    arrays = panel.arrays(context)
    filtered: Filtered = compiled_filter(kernel, arrays, x0)
    log_sigma = np.where(panel.continues & panel.informs, filtered.log_sigma, 0.0)
    if np.isneginf(log_sigma).any():
        i, t = np.argwhere(np.isneginf(log_sigma))[0]
        here = {name: values[context[i, t]] for name, values in covariates.items()}
        primitives = model.primitives({**theta, **here})
        raise ImpossibleObservationError(
            explain_impossible(primitives, panel, log_sigma, np.asarray(filtered.belief))
        )
    return kernel, arrays, filtered, log_sigma, labels_of(model, primitives.states)
