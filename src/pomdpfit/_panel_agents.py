"""Panels of some of the agents, and one panel of the agents of several."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._types import ArrayLike

if TYPE_CHECKING:
    from pomdpfit._panel import Panel

_ROWS = ("z", "a", "present", "acted", "score_observation", "score_choice", "informs", "times")


def take(panel: "Panel", which: ArrayLike | Sequence[int]) -> "Panel":
    """These agents, by number or by mask; each at most once."""
    places = np.arange(panel.agent_count)[np.asarray(which)].ravel()
    if len(places) == 0 or len(np.unique(places)) < len(places):
        raise PanelError("agents must be taken once each, and at least one of them.")
    rows: dict[str, Any] = {name: getattr(panel, name)[places] for name in _ROWS}
    return dataclasses.replace(
        panel,
        **rows,
        entry=panel.entry[places],
        agents=tuple(panel.agents[i] for i in places),
        covariates={name: values[places] for name, values in panel.covariates.items()},
    )


def join(panels: Sequence["Panel"]) -> "Panel":
    """One after the other; labels, groups and names of covariates are the first one's."""
    T = max(panel.z.shape[1] for panel in panels)

    def every(rows: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.pad(each, ((0, 0), (0, T - each.shape[1]))) for each in rows])

    rows: dict[str, Any] = {
        name: every([getattr(panel, name) for panel in panels]) for name in _ROWS
    }
    return dataclasses.replace(
        panels[0],
        **rows,
        entry=np.concatenate([panel.entry for panel in panels]),
        agents=tuple(agent for panel in panels for agent in panel.agents),
        covariates={
            name: every([panel.covariates[name] for panel in panels])
            for name in panels[0].covariates
        },
        notes=tuple(dict.fromkeys(note for panel in panels for note in panel.notes)),
    )
