"""Recovered rewards over the belief, beside the straight line that a reward must be."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pomdpfit._errors import ModelError
from pomdpfit.identification.rewards._reward_inversion import RewardInversion
from pomdpfit.plots._palette import colour, marker, plain


def inverted_rewards(
    inversion: RewardInversion,
    action: str | int,
    *,
    observations: Sequence[int] | None = None,
    epoch: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """r(z, x, action) against the belief for some z, and the line between its ends (dashed).

    For two hidden states. Where points leave their line no reward explains the choices, or the
    choice probabilities are noisy. With a finite horizon, of one `epoch` (the first if not given).
    """
    if len(inversion.states) != 2:
        raise ModelError(
            "recovered rewards can be drawn over the belief for two hidden states, not for "
            f"{len(inversion.states)}."
        )
    ax = plt.gca() if ax is None else ax
    a = inversion.actions.index(action) if isinstance(action, str) else action
    table = inversion.at_nodes
    if table.ndim == 4:
        table = table[0 if epoch is None else epoch]
    if observations is None:
        observations = np.unique(np.linspace(0, len(table) - 1, 4).astype(int)).tolist()
    belief = inversion.nodes[:, 1]
    names = [plain(f"z = {name}") for name in inversion.observations]
    for k, z in enumerate(observations):
        reward, ink = table[z, :, a], colour(k)
        ax.plot(belief, reward, marker(k), markersize=3, color=ink, label=names[z])
        ax.plot([0, 1], reward[[0, -1]], "--", linewidth=1, color=ink)
    ax.set_xlabel(plain(f"belief x({inversion.states[1]})"))
    ax.set_ylabel(plain(f"recovered r(z, x, {inversion.actions[a]})"))
    ax.legend(fontsize=8)
    return ax
