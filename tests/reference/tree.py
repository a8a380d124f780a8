"""Exact finite-horizon soft Q of a POMDP, by recursion over the tree of reachable beliefs."""

import math
from collections.abc import Callable

import numpy as np

Emax = Callable[[np.ndarray], float]


def gumbel_emax(scale: float) -> Emax:
    """E max_a {q(a) + eps(a)} = scale log sum_a exp(q(a) / scale), mean-zero Gumbel eps."""

    def emax(q: np.ndarray) -> float:
        top = float(np.max(q))
        return top + scale * math.log(math.fsum(math.exp((v - top) / scale) for v in q))

    return emax


def soft_q(
    P: np.ndarray,
    r: np.ndarray,
    beta: float,
    horizon: int,
    z: int,
    x: np.ndarray,
    emax: Emax,
    terminal: np.ndarray | None = None,
    available: np.ndarray | None = None,
) -> np.ndarray:
    """Q_0(z, x, .) of a problem with `horizon` decision epochs.

    Q_t(z, x, a) = sum_s x(s) r(z, s, a) + beta sum_z' sigma(z', z, x, a) V_{t+1}(z', x'),
    sigma = sum_{s'} y(s'), x' = y / sigma, y(s') = sum_s x(s) P(z', s' | z, s, a),
    V_t(z, x) = emax of Q_t over the available actions, V_horizon(z, x) = sum_s x(s) terminal(z, s).
    """
    if horizon < 1:
        raise ValueError("at least one decision epoch is needed")
    Z, S, A = r.shape
    if terminal is None:
        terminal = np.zeros((Z, S))
    if available is None:
        available = np.ones((Z, A), dtype=bool)

    q = np.full(A, -np.inf)
    for a in range(A):
        if not available[z, a]:
            continue
        q[a] = math.fsum(x[s] * r[z, s, a] for s in range(S))
        for z1 in range(Z):
            y = np.array(
                [math.fsum(x[s] * P[z, s, a, z1, s1] for s in range(S)) for s1 in range(S)]
            )
            sigma = math.fsum(y)
            if sigma == 0.0:
                continue
            x1 = y / sigma
            if horizon == 1:
                value = math.fsum(x1[s1] * terminal[z1, s1] for s1 in range(S))
            else:
                q1 = soft_q(P, r, beta, horizon - 1, z1, x1, emax, terminal, available)
                value = emax(q1[available[z1]])
            q[a] += beta * sigma * value
    return q
