"""Whether a panel lies in the range of a model: its observations, actions and epochs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._labels import panel_labels
from pomdpfit._model import Primitives

if TYPE_CHECKING:
    from pomdpfit._panel import Panel

_LISTED = 20  # codes that a message lists in full


def check_range(panel: "Panel", primitives: Primitives) -> None:
    """Raise an error naming agent and period where the panel does not fit the model."""
    Z, A = primitives.observations, primitives.actions
    _refuse(panel, panel.present, panel.z, "observation", Z)
    _refuse(panel, panel.acted, panel.a, "action", A, lambda: seem_swapped(panel, Z, A))
    if primitives.available is not None:
        barred = panel.acted & ~np.asarray(primitives.available)[panel.z, panel.a]
        if barred.any():
            i, t = np.argwhere(barred)[0]
            raise PanelError(
                f"agent {panel.agents[i]!r} at time {panel.times[i, t]}: action {panel.a[i, t]} "
                f"is not available at z={panel.z[i, t]}."
            )
    if primitives.horizon is not None:
        epoch = panel.epochs
        late = panel.score_choice & (epoch >= primitives.horizon)
        if late.any():
            i, t = np.argwhere(late)[0]
            raise PanelError(
                f"agent {panel.agents[i]!r} acts at epoch {epoch[i, t]}, but the horizon "
                f"has only the epochs 0..{primitives.horizon - 1}."
            )


def counting_from_one(panel: "Panel", kind: str, count: int) -> str | None:
    """What to say to codes that look as if they counted from 1; None where they do not."""
    codes = panel.z[panel.present] if kind == "observation" else panel.a[panel.acted]
    if panel_labels(panel, kind) or len(codes) == 0 or codes.min() < 1 or codes.max() != count:
        return None
    listed = ", ".join(map(str, range(1, count + 1))) if count <= _LISTED else f"1, ..., {count}"
    return f"codes seem to count from 1: say {kind}s=[{listed}]"


def seem_swapped(panel: "Panel", Z: int, A: int) -> str | None:
    """What to say where observations and actions look as if each stood for the other.

    There are more different actions than the model has, all of them within its observations, and
    all observations are within its actions. One odd action among sound ones is not enough.
    """
    z, a = panel.z[panel.present], panel.a[panel.acted]
    fit = (a >= 0).all() and (a < Z).all() and (z >= 0).all() and (z < A).all()
    if len(np.unique(a)) <= A or not fit:
        return None
    return "the columns of observations and actions seem swapped"


def _refuse(
    panel: "Panel",
    there: np.ndarray,
    values: np.ndarray,
    kind: str,
    count: int,
    hint: Callable[[], str | None] = lambda: None,
) -> None:
    bad = there & ((values < 0) | (values >= count))
    if bad.any():
        i, t = np.argwhere(bad)[0]
        mend = counting_from_one(panel, kind, count) or hint()
        raise PanelError(
            f"agent {panel.agents[i]!r} at time {panel.times[i, t]}: {kind} {values[i, t]} is "
            f"not one of the model's 0..{count - 1} ({int(bad.sum())} such rows)"
            + ("." if mend is None else f"; {mend}.")
        )
