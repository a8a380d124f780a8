"""What must go together in a loaded estimate, and between it and a model."""

import numbers
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import EstimationError, Result
from pomdpfit._estimate import Estimate
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._shown import shown
from pomdpfit.baselines import MDP
from pomdpfit.storage._check_scan import check_scan
from pomdpfit.streaming import PanelScan

_TYPES: dict[str, Any] = {
    **dict.fromkeys(("restrictions", "boundary", "derived", "fixed", "freed", "traces"), tuple),
    **dict.fromkeys(("steps", "dimension", "incidental", "seed"), numbers.Integral),
    **dict.fromkeys(("gain", "seconds"), numbers.Real),
    **dict.fromkeys(("reason", "version", "model_mark"), str),
    **dict.fromkeys(("modes", "starts"), pd.DataFrame),
    "agent_priors": pd.DataFrame | None,
    "prior_error": numbers.Real | None,
    "result": Result,
    **dict.fromkeys(("theta", "arguments"), dict),
}


def check_estimate(estimate: Estimate) -> None:
    """Refuse parts of the wrong type, and arrays that do not fit one another."""
    for name, kind in _TYPES.items():
        if not isinstance(getattr(estimate, name), kind):
            raise ValueError(f"{name} cannot be {shown(getattr(estimate, name))}.")
    space, information = estimate.space, estimate.information
    if list(estimate.theta) != list(space.parameters):
        raise ValueError("theta and space have different parameters.")
    for name, parameter in space.parameters.items():
        _require_shape(f"theta's {name}", estimate.theta[name], parameter.shape, "f")
    stray = {*information.entries, *estimate.boundary, *estimate.derived} - set(space.names)
    if stray or not set(information.names) <= set(information.entries):
        raise ValueError(f"there are names of unknown entries: {sorted(stray)}.")
    n, p = len(information.entries), len(information.names)
    if isinstance(estimate.panel, PanelScan):  # of which there are sums alone
        check_scan(estimate.panel)
        agents, rows = 1, 2 * p
    else:
        _check_panel(estimate.panel)
        agents = rows = len(estimate.panel.agents)
    _require_shape("terms", estimate.terms, (agents, 2), "f")
    _require_shape("the jacobian", information.jacobian, (n, p), "f")
    _require_shape("scores", information.scores, (rows, 2, p), "f")
    if information.hessian is not None:
        _require_shape("the hessian", information.hessian, (p, p), "f")
    if information.first is not None:
        _require_shape("first", information.first, (p,), "b")


def _require_shape(what: str, array: Any, shape: tuple[int, ...], kinds: str) -> None:
    """Refuse what is not an array of this shape and one of these kinds of numpy types."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{what} must be an array, not {type(array)}.")
    if array.shape != shape or array.dtype.kind not in kinds:
        raise ValueError(
            f"{what} must have shape {shape} and a type of kind {kinds!r}, but it has "
            f"{array.shape} and {array.dtype}."
        )


def _check_panel(panel: Panel) -> None:
    """Refuse arrays that do not go together."""
    for name in ("agents", "groups", "observation_labels", "action_labels"):
        if not isinstance(getattr(panel, name), tuple):
            raise ValueError(f"the panel's {name} must be a tuple.")
    if not isinstance(panel.shards, numbers.Integral) or panel.shards < 1:
        raise ValueError("the panel's shards must be a whole number from 1.")
    if np.ndim(panel.z) != 2:
        raise ValueError("the panel's z must have two axes, agents and periods.")
    shape = (len(panel.agents), panel.z.shape[1])
    kinds = {"z": "iu", "a": "iu", "times": "Obiuf"}
    masks = ("present", "acted", "score_observation", "score_choice", "informs")
    for name, kind in {**kinds, **dict.fromkeys(masks, "b")}.items():
        _require_shape(f"the panel's {name}", getattr(panel, name), shape, kind)
    _require_shape("the panel's entry", panel.entry, shape[:1], "iu")
    for name, values in panel.covariates.items():
        _require_shape(f"the covariate {name!r}", values, shape, "biuf")
    _check_rows(panel)


def _check_rows(panel: Panel) -> None:
    """Refuse what no way into a panel lets through, for the rest of the package relies on it."""
    present, acted = panel.present, panel.acted
    first = present[:, :1].all() and not (present[:, 1:] & ~present[:, :-1]).any()
    if not first or (acted & ~present).any() or (panel.continues & ~acted).any():
        raise ValueError("the panel's rows have holes, or actions where there are no rows.")
    if (panel.z < 0)[present].any() or (panel.a < 0)[acted].any() or (panel.entry < 0).any():
        raise ValueError("the panel's observations, actions or epochs are negative.")
    if not all(np.isfinite(values[present]).all() for values in panel.covariates.values()):
        raise ValueError("the panel's covariates are not finite.")
    if len(set(panel.agents)) < len(panel.agents):
        raise ValueError("the panel names an agent twice.")


def require_same_parameters(path: Path, model: Any, estimate: Estimate) -> None:
    """Refuse a model whose parameters differ from the stored ones in name, shape or labels."""
    if not isinstance(model, Model | MDP):
        raise EstimationError(
            f"the model must be a pf.Model or a baselines.MDP, not {model!r:.80}."
        )
    stored, found = dict(estimate.space.parameters), dict(model.space().parameters)
    prior = estimate.setting.prior
    states = getattr(model, "state_labels", lambda: None)()
    if prior is not None and states is not None:
        found |= prior.space(states).parameters
    elif prior is not None:
        found |= {n: stored[n] for n in prior.space(("",)).parameters if n in stored}
    for name in dict.fromkeys([*stored, *found]):
        if name not in stored or name not in found:
            where = "model" if name in found else "file"
            raise EstimationError(
                f"{path} was made with another model: only the {where} has a parameter {name!r}."
            )
        file_has, model_has = stored[name].entry_names(name), found[name].entry_names(name)
        if file_has.shape != model_has.shape or (file_has != model_has).any():
            raise EstimationError(
                f"{path} was made with another model: there {name!r} has the entries "
                f"{', '.join(file_has.flat)}, but in the model {', '.join(model_has.flat)}."
            )
