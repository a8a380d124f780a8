"""Terms that are no numbers: which agent they belong to, and why."""

import numpy as np

from pomdpfit._errors import SolveError
from pomdpfit._panel import Panel
from pomdpfit._types import Float


def refuse_lost(panel: Panel, belief: Float[np.ndarray, "N T S"], counts: np.ndarray) -> None:
    """Refuse agents that count and begin where a stationary prior says nothing."""
    lost = counts & np.isnan(belief[:, 0]).any(axis=1)
    if lost.any():
        i = int(np.argmax(lost))
        raise SolveError(
            f"agent {panel.agents[i]!r} starts at z={panel.z[i, 0]}, where (z, x) has no "
            "stationary law at this theta: it never comes back there, or falls apart into chains "
            "that never meet (as when a hidden state never changes), or mixes too slowly. Agents "
            f"concerned: {int(lost.sum())}. Use pf.KnownPrior or pf.CommonPrior."
        )


def refuse_not_finite(
    panel: Panel,
    observation: Float[np.ndarray, "N T"],
    choice: Float[np.ndarray, "N T"],
    counts: np.ndarray,
) -> None:
    """Refuse agents that count and have a term that is no number."""
    finite = np.isfinite(observation) & np.isfinite(choice)
    if not finite[counts].all():
        i, t = np.argwhere(~finite & counts[:, None])[0]
        raise SolveError(
            f"agent {panel.agents[i]!r}, time {panel.times[i, t]}: the likelihood is not a number. "
            "Check theta for extreme values."
        )
