"""Transitions that the model calls impossible: finding them, and saying why."""

import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._model import Model, Primitives, checked_primitives
from pomdpfit._panel import Panel
from pomdpfit._precision import in_float64
from pomdpfit._scene import for_each_context, stacked_kernel
from pomdpfit._types import Bool, Theta


def explain_impossible(
    primitives: Primitives, panel: Panel, log_sigma: np.ndarray, belief: np.ndarray
) -> str:
    """Agent, period, and the probabilities that made the first impossible observation so."""
    bad = np.isneginf(log_sigma)
    i, t = np.argwhere(bad)[0]
    z, a, z_next = panel.z[i, t], panel.a[i, t], panel.z[i, t + 1]
    tables = map(np.asarray, (primitives.kernel.successors, primitives.kernel.probability))
    successors, matrices = (table[z if len(table) > 1 else 0, a] for table in tables)
    by_state = ", ".join(f"{p:.4g}" for p in matrices[successors == z_next].sum(axis=(0, 2)))
    x = ", ".join(f"{p:.4g}" for p in belief[i, t])
    agents = int(bad.any(axis=1).sum())
    return (
        f"agent {panel.agents[i]!r}, time {panel.times[i, t]}: the model gives probability zero to "
        f"z'={z_next} after z={z}, a={a}. P(z'|z, s, a) by hidden state is ({by_state}) and the "
        f"belief there is ({x}). Agents with such a transition: {agents}. Mend the data or the "
        "model, or leave such transitions out with "
        "panel.exclude_transitions(pf.impossible_transitions(model, theta, panel))."
    )


@in_float64
def impossible_transitions(model: Model, theta: Theta, panel: Panel) -> pd.DataFrame:
    """The transitions to which the model gives probability zero whatever the hidden state."""
    panel.check(checked_primitives(model, theta), model)
    i, t = np.nonzero(never_follows(model, theta, panel))
    return pd.DataFrame(
        {
            "agent": [panel.agents[k] for k in i],
            "time": panel.times[i, t].tolist(),
            "z": panel.z[i, t],
            "a": panel.a[i, t],
            "z_next": panel.z[i, t + 1],
        }
    )


def never_follows(model: Model, theta: Theta, panel: Panel) -> Bool[np.ndarray, "N T"]:
    """Where z_{t+1} has probability zero after (z_t, a_t); the panel must fit the model."""
    covariates, context = panel.contexts(model.space().covariates, model.group_labels())
    each = {name: jnp.asarray(values) for name, values in covariates.items()}
    kernel = stacked_kernel(for_each_context(lambda here: model.kernel({**theta, **here}), each))
    i, t = np.nonzero(panel.continues & panel.acted)
    z, a, z_next = panel.z[i, t], panel.a[i, t], panel.z[i, t + 1]
    row = context[i, t] * kernel.observations + z
    matrix = kernel.transition(*(jnp.asarray(v) for v in (row, a, z_next)))
    bad = np.asarray(matrix).sum(axis=(1, 2)) == 0
    never = np.zeros(panel.z.shape, dtype=bool)
    never[i[bad], t[bad]] = True
    return never
