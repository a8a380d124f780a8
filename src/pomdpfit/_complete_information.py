"""What the panel would tell of the dynamics if the hidden states were seen: EM as a metric.

By Fisher's identity the slope of the observation terms in the kernel counts hidden moves:
n(z, s, a, z', s') = P dl/dP is how often the agents are expected to have made that move, given all
that is seen. With N(z, s, a) of them leaving a state, complete data would have the information
sum N dP_j dP_k / P, and a step by it along the slope is a step of the EM algorithm: exact where
entries are probabilities of their own, n / N. Such steps rise from wherever they start, which steps
by the outer product of the scores do near the maximum only.
"""

import numpy as np

from pomdpfit._stage import Stage
from pomdpfit._types import Float


def complete_information(
    stage: Stage, back: Stage, moves: Stage, along: Float[np.ndarray, "p e"]
) -> Float[np.ndarray, "p p"] | None:
    """From the slope `back` of the observation terms, and moves by entry; None if not finite."""
    tables = (
        (stage.kernel.probability, back.kernel.probability, moves.kernel.probability, (-3, -1)),
        (stage.x0, back.x0, moves.x0, (-1,)),
    )
    total = np.zeros((len(along), len(along)))
    for chances, slopes, by_entry, axes in tables:
        P, slope = np.asarray(chances), np.asarray(slopes)
        moved = np.tensordot(along, np.asarray(by_entry), 1)
        moved = np.broadcast_to(moved, (len(along), *P.shape)).reshape(len(along), -1)
        total += (moved * _per_chance(P, slope, axes).reshape(-1)) @ moved.T
    return total if np.isfinite(total).all() else None


def _per_chance(P: np.ndarray, slope: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """N / P, with the chances of one state along these axes; none is smaller than one in N."""
    count = np.where(P > 0, np.maximum(P * slope, 0.0), 0.0).sum(axis=axes, keepdims=True)
    return count / np.maximum(P, 1.0 / np.maximum(count, 1.0))
