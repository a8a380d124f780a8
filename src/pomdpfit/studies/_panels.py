"""Panels of a study: empty ones to be simulated into, and full ones made as large as the largest.

A program is compiled for one shape of panel. Agents that are seen once and do nothing, and periods
that nobody lives to see, add exactly nothing to a likelihood and its derivatives: with them the
panels of all cells of a small study share one program.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pomdpfit._panel import Panel
from pomdpfit._types import Theta
from pomdpfit.baselines import MDP

_TABLES = ("a", "acted", "score_observation", "score_choice", "informs", "times")


def empty_panel(model: Any, theta: Theta, agents: int, periods: int, z0: Sequence[int]) -> Panel:
    """So many agents and choices, and a last z; agents take the first observations in turn."""
    z = np.zeros((agents, periods + 1), dtype=int)
    z[:, 0] = np.resize(np.asarray(z0, dtype=int), agents)
    panel = Panel.from_arrays(z, np.zeros((agents, periods), dtype=int))
    if isinstance(model, MDP):
        return panel
    panel = panel.with_covariates(**{n: float(theta[n]) for n in model.space().covariates})
    return dataclasses.replace(panel, groups=model.group_labels() or ())


def padded(panel: Panel, agents: int, columns: int) -> Panel:
    """The panel with agents who are seen once, and columns in which nobody is seen."""
    N, T = panel.z.shape
    more = ((0, agents - N), (0, columns - T))
    widened: dict[str, Any] = {name: np.pad(getattr(panel, name), more) for name in _TABLES}
    z, present = np.pad(panel.z, more), np.pad(panel.present, more)
    z[N:, 0], present[N:, 0] = panel.z[0, 0], True
    return dataclasses.replace(
        panel,
        **widened,
        z=z,
        present=present,
        entry=np.pad(panel.entry, more[0]),
        agents=tuple(range(agents)),
        covariates={n: np.pad(v, more, mode="edge") for n, v in panel.covariates.items()},
    )
