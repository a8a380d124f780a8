"""Which rows of a panel are meant: masks as arrays, or as agents and times."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pomdpfit._errors import PanelError
from pomdpfit._types import ArrayLike, Bool

if TYPE_CHECKING:
    from pomdpfit._panel import Panel


def mask(panel: "Panel", given: ArrayLike | None) -> Bool[np.ndarray, "N T"]:
    """The mask, refused unless it is one; everything where none is given."""
    if given is None:
        return np.ones_like(panel.present)
    found = np.asarray(given)
    if found.shape != panel.z.shape or found.dtype != bool:
        raise PanelError(
            f"a mask must be a boolean array of shape {panel.z.shape}, but it has type "
            f"{found.dtype} and shape {found.shape}."
        )
    return found


def transitions(panel: "Panel", where: ArrayLike | pd.DataFrame) -> Bool[np.ndarray, "N T"]:
    """A mask from a mask, or from a frame with columns `agent` and `time`."""
    if not isinstance(where, pd.DataFrame):
        return mask(panel, where)
    number = {agent: i for i, agent in enumerate(panel.agents)}
    found = np.zeros_like(panel.present)
    for agent, time in zip(where["agent"], where["time"], strict=True):
        i = number.get(agent)
        rows = np.flatnonzero(panel.times[i] == time) if i is not None else np.zeros(0, int)
        if len(rows) == 0:
            raise PanelError(f"the panel has no row for agent {agent!r} at time {time!r}.")
        found[i, rows[0]] = True
    return found
