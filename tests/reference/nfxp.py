"""Fully observed MDP with Gumbel shocks: nested fixed point by Newton-Kantorovich, dense algebra.

P[z, a, z1] = P(z' | z, a), r[z, a] the reward; shocks of the given scale with mean zero.
"""

import math
from collections.abc import Sequence

import numpy as np

CONTRACTION_STEPS = 5
MAX_NEWTON_STEPS = 100


def _q_values(
    P: np.ndarray, r: np.ndarray, beta: float, V: np.ndarray, available: np.ndarray
) -> np.ndarray:
    """Q(z, a) = r(z, a) + beta sum_z' P(z' | z, a) V(z'); -inf where a is not available."""
    Z, A = r.shape
    Q = np.full((Z, A), -np.inf)
    for z in range(Z):
        for a in range(A):
            if available[z, a]:
                Q[z, a] = r[z, a] + beta * (P[z, a] @ V)
    return Q


def _emax_and_choice(Q: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """scale log sum_a exp(Q(z, a) / scale), and its gradient in Q, the choice probabilities."""
    top = Q.max(axis=1, keepdims=True)
    weights = np.exp((Q - top) / scale)
    total = weights.sum(axis=1, keepdims=True)
    return (top + scale * np.log(total))[:, 0], weights / total


def solve_mdp(
    P: np.ndarray,
    r: np.ndarray,
    beta: float,
    scale: float = 1.0,
    available: np.ndarray | None = None,
    tol: float = 1e-13,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """V = Gamma(V), (Gamma V)(z) = emax_a Q(z, a), with Q and the choice probabilities.

    Newton: V <- V - (I - Gamma'(V))^{-1} (V - Gamma V), where
    Gamma'(V)[z, z'] = beta sum_a choice(a | z) P(z' | z, a).
    It stops when max |V - Gamma V| <= tol max(1, max |V|), and takes that last step as well.
    """
    Z, A = r.shape
    if available is None:
        available = np.ones((Z, A), dtype=bool)

    V = np.zeros(Z)
    for _ in range(CONTRACTION_STEPS):
        V, _ = _emax_and_choice(_q_values(P, r, beta, V, available), scale)

    for _ in range(MAX_NEWTON_STEPS):
        gamma, choice = _emax_and_choice(_q_values(P, r, beta, V, available), scale)
        jacobian = np.zeros((Z, Z))
        for z in range(Z):
            for a in range(A):
                if available[z, a]:
                    jacobian[z] += beta * choice[z, a] * P[z, a]
        residual = V - gamma
        close = np.max(np.abs(residual)) <= tol * max(1.0, float(np.max(np.abs(V))))
        V = V - np.linalg.solve(np.eye(Z) - jacobian, residual)
        if close:
            Q = _q_values(P, r, beta, V, available)
            return V, Q, _emax_and_choice(Q, scale)[1]
    raise RuntimeError("Newton did not converge")


def mdp_log_likelihood(
    P: np.ndarray,
    r: np.ndarray,
    beta: float,
    z: Sequence[int],
    a: Sequence[int],
    scale: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """log P(z_{t+1} | z_t, a_t) and log choice(a_t | z_t) = (Q - emax Q) / scale, t = 0..T-1."""
    if len(z) != len(a) + 1:
        raise ValueError("z must be one longer than a")
    _, Q, _ = solve_mdp(P, r, beta, scale)
    emax, _ = _emax_and_choice(Q, scale)
    observation = []
    choice = []
    for t in range(len(a)):
        p = float(P[z[t], a[t], z[t + 1]])
        observation.append(math.log(p) if p > 0.0 else -math.inf)
        choice.append((Q[z[t], a[t]] - emax[z[t]]) / scale)
    return np.array(observation), np.array(choice)
