"""Probabilities of one observed sequence, by listing every hidden path.

P[z, s, a, z1, s1] = P(z', s' | z, s, a). The prior is x0(s) = P(s_0 = s | z_0). A choice depends on
the hidden states only through the observed history, so its probability cancels from every ratio
below and the actions are treated as given.

A conditional probability given an event of probability zero is nan.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np


def _weighted_paths(
    P: np.ndarray, x0: np.ndarray, z: Sequence[int], a: Sequence[int]
) -> list[tuple[tuple[int, ...], float]]:
    """Every (s_0..s_T) with its weight x0(s_0) prod_t P(z_{t+1}, s_{t+1} | z_t, s_t, a_t)."""
    T = len(a)
    if len(z) != T + 1:
        raise ValueError("z must be one longer than a")
    paths = []
    for s in itertools.product(range(len(x0)), repeat=T + 1):
        weight = float(x0[s[0]])
        for t in range(T):
            weight *= float(P[z[t], s[t], a[t], z[t + 1], s[t + 1]])
        paths.append((s, weight))
    return paths


def _joint(P: np.ndarray, x0: np.ndarray, z: Sequence[int], a: Sequence[int]) -> float:
    """P(z_1..z_T | z_0, a_0..a_{T-1}): the sum of the weights of all hidden paths."""
    return math.fsum(weight for _, weight in _weighted_paths(P, x0, z, a))


def _state_at(
    P: np.ndarray, x0: np.ndarray, z: Sequence[int], a: Sequence[int], t: int
) -> np.ndarray:
    """P(s_t = k | z, a): the weight of the paths with s_t = k over the weight of all paths."""
    paths = _weighted_paths(P, x0, z, a)
    total = math.fsum(weight for _, weight in paths)
    if total == 0.0:
        return np.full(len(x0), np.nan)
    return np.array(
        [math.fsum(weight for s, weight in paths if s[t] == k) / total for k in range(len(x0))]
    )


def sequence_probabilities(
    P: np.ndarray, x0: np.ndarray, z: Sequence[int], a: Sequence[int]
) -> np.ndarray:
    """P(z_{t+1} | z_0..z_t, a_0..a_t) = joint(z_0..z_{t+1}) / joint(z_0..z_t), t = 0..T-1."""
    T = len(a)
    if len(z) != T + 1:
        raise ValueError("z must be one longer than a")
    out = np.full(T, np.nan)
    for t in range(T):
        before = _joint(P, x0, z[: t + 1], a[:t])
        after = _joint(P, x0, z[: t + 2], a[: t + 1])
        if before > 0.0:
            out[t] = after / before
    return out


def sequence_log_likelihood(
    P: np.ndarray, x0: np.ndarray, z: Sequence[int], a: Sequence[int]
) -> float:
    """log P(z_1..z_T | z_0, a_0..a_{T-1}); -inf where the sequence cannot happen."""
    joint = _joint(P, x0, z, a)
    return math.log(joint) if joint > 0.0 else -math.inf


def filtered(P: np.ndarray, x0: np.ndarray, z: Sequence[int], a: Sequence[int]) -> np.ndarray:
    """Row t is P(s_t | z_0..z_t, a_0..a_{t-1}), t = 0..T."""
    T = len(a)
    if len(z) != T + 1:
        raise ValueError("z must be one longer than a")
    return np.array([_state_at(P, x0, z[: t + 1], a[:t], t) for t in range(T + 1)])


def smoothed(P: np.ndarray, x0: np.ndarray, z: Sequence[int], a: Sequence[int]) -> np.ndarray:
    """Row t is P(s_t | z_0..z_T, a_0..a_{T-1}), t = 0..T."""
    return np.array([_state_at(P, x0, z, a, t) for t in range(len(a) + 1)])
