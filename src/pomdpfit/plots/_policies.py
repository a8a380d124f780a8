"""What an agent does at each belief, and what one simulated agent believed."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pomdpfit._errors import ModelError
from pomdpfit._model import Model
from pomdpfit._simulate import Simulation
from pomdpfit._solve import Solution


def policy(
    solution: Solution, action: int, *, model: Model | None = None, ax: Axes | None = None
) -> Axes:
    """P(action | z, x) over all observations and beliefs, for two hidden states."""
    if solution.primitives.states != 2:
        raise ModelError(
            "a policy can be drawn over the belief for two hidden states, not for "
            f"{solution.primitives.states}."
        )
    ax = plt.gca() if ax is None else ax
    belief = np.linspace(0.0, 1.0, 201)
    z = np.arange(solution.primitives.observations)
    x = np.stack([1 - belief, belief], axis=-1)
    chosen = np.asarray(solution.policy(z[None, :], x[:, None, :]))[..., action]
    image = ax.pcolormesh(z, belief, chosen, cmap="viridis", shading="nearest", rasterized=True)
    lines = ax.contour(z, belief, chosen, levels=[0.01, 0.05, 0.25, 0.5], colors="white")
    ax.clabel(lines, fmt="%g", fontsize=8)
    ax.figure.colorbar(image, ax=ax, label=f"P({_label(model, 'action', action)} | z, x)")
    ax.set_xlabel("observation z")
    ax.set_ylabel(f"belief x({_label(model, 'state', 1)})")
    return ax


def beliefs(
    simulation: Simulation,
    agent: int = 0,
    state: int = 1,
    *,
    model: Model | None = None,
    ax: Axes | None = None,
) -> Axes:
    """What one simulated agent believed, what was true, and when it acted (action > 0)."""
    ax = plt.gca() if ax is None else ax
    time = np.arange(simulation.s.shape[1])
    name = _label(model, "state", state)
    true = simulation.s[agent] == state
    ax.fill_between(
        time, 0, 1, where=true, step="mid", alpha=0.15, color="tab:red", label=f"truly {name}"
    )
    belief = simulation.belief[agent, :, state]
    ax.plot(time, belief, color="black", label=f"belief x({name})")
    panel = simulation.panel
    acted = np.flatnonzero(panel.acted[agent] & (panel.a[agent] > 0))
    for k, t in enumerate(acted):
        action = _label(model, "action", int(panel.a[agent, t])) if k == 0 else None
        ax.axvline(float(t), color="tab:blue", linestyle="--", label=action)
    ax.set_ylim(0, 1)
    ax.set_xlabel("period")
    ax.set_ylabel("belief")
    ax.legend(loc="lower right", fontsize=8)
    return ax


def _label(model: Model | None, kind: str, code: int) -> str:
    labels = None if model is None else getattr(model, f"{kind}_labels")()
    return f"{kind} {code}" if labels is None else labels[code]
