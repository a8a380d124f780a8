"""Which rows of a panel the pre-tests look at, and numbers for the cells they fall into."""

from collections.abc import Sequence

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._panel import Panel
from pomdpfit._types import Bool, Int


def usable(
    panel: Panel, actions: Sequence[int] | None, *, scored: bool = True
) -> Bool[np.ndarray, "N T"]:
    """Transitions after these actions (None for all), by default those that score and inform."""
    rows = panel.continues & panel.acted
    if scored:
        rows = rows & panel.informs & panel.score_observation
    if actions is None:
        return rows
    known = np.unique(panel.a[panel.acted])
    for a in actions:
        if a not in known:
            raise PanelError(f"nobody takes action {a!r}: the panel has the actions {known}.")
    return rows & np.isin(panel.a, list(actions))


def numbered(*columns: np.ndarray) -> Int[np.ndarray, "n"]:
    """Equal rows of these columns get equal numbers, counted from 0."""
    if len(columns[0]) == 0:
        return np.zeros(0, dtype=int)
    return np.unique(np.stack(columns, axis=-1), axis=0, return_inverse=True)[1].ravel()


def context(panel: Panel) -> Int[np.ndarray, "N T"]:
    """The number of each row's covariates: what differs in them is not compared."""
    if not panel.covariates:
        return np.zeros_like(panel.z)
    columns = [np.ravel(values) for values in panel.covariates.values()]
    return numbered(*columns).reshape(panel.z.shape)


def following(values: np.ndarray) -> np.ndarray:
    """The next row's values (of no meaning in the last column)."""
    return np.roll(values, -1, axis=1)
