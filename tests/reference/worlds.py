"""What an agent gains by seeing more, and how often it acts: recursions and dense algebra.

P[z, s, a, z1, s1] = P(z', s' | z, s, a), r[z, s, a]; signal[s, y] = P(y | s).
"""

import itertools
from collections.abc import Callable

import numpy as np

Emax = Callable[[np.ndarray], float]
Policy = Callable[[int, np.ndarray], np.ndarray]


def value_with_signal(
    P: np.ndarray,
    r: np.ndarray,
    signal: np.ndarray,
    beta: float,
    horizon: int,
    z: int,
    x: np.ndarray,
    emax: Emax,
) -> float:
    """V_0(z, x) of `horizon` decision epochs, y being seen with z from the next epoch on.

    Q(z, x, a) = sum_s x(s) r(z, s, a) + beta sum_z' sum_y V'(z', m / |m|) |m|,
    m(s') = sum_s x(s) P(z', s' | z, s, a) signal(s', y); V after the last epoch is zero.
    """
    if horizon == 0:
        return 0.0
    Z, _, A = r.shape
    q = np.zeros(A)
    for a in range(A):
        q[a] = sum(x[s] * r[z, s, a] for s in range(len(x)))
        for z1, y in itertools.product(range(Z), range(signal.shape[1])):
            m = np.array([(x @ P[z, :, a, z1, s1]) * signal[s1, y] for s1 in range(len(x))])
            if m.sum() > 0:
                rest = value_with_signal(P, r, signal, beta, horizon - 1, z1, m / m.sum(), emax)
                q[a] += beta * m.sum() * rest
    return emax(q)


def expected_counts(
    P: np.ndarray, policy: Policy, periods: int, z: int, x: np.ndarray
) -> np.ndarray:
    """How often each action is expected in so many periods from (z, x), by listing all paths."""
    choice = policy(z, x)
    counts = np.array(choice, dtype=float)
    if periods == 1:
        return counts
    for a, z1 in itertools.product(range(len(choice)), range(P.shape[0])):
        m = x @ P[z, :, a, z1]
        if m.sum() > 0 and choice[a] > 0:
            rest = expected_counts(P, policy, periods - 1, z1, m / m.sum())
            counts = counts + choice[a] * m.sum() * rest
    return counts


def cycle_length(P: np.ndarray, policy: Policy, reset: int, z: int, x: np.ndarray) -> float:
    """Expected periods from (z, x) to the end of the one in which `reset` is taken.

    By listing all paths: there must be finitely many.
    """
    choice = policy(z, x)
    total = 1.0
    for a, z1 in itertools.product(range(len(choice)), range(P.shape[0])):
        m = x @ P[z, :, a, z1]
        if a != reset and m.sum() > 0 and choice[a] > 0:
            total += choice[a] * m.sum() * cycle_length(P, policy, reset, z1, m / m.sum())
    return total


def long_run_shares(P: np.ndarray, choice: np.ndarray) -> np.ndarray:
    """mu = mu M of a fully observed chain, M(z' | z) = sum_a choice(a | z) P(z' | z, a); mu choice.

    P[z, a, z1]; by least squares on mu (I - M) = 0 and sum mu = 1.
    """
    Z = len(P)
    M = np.einsum("za,zay->zy", choice, P)
    system = np.vstack([(np.eye(Z) - M).T, np.ones((1, Z))])
    mu = np.linalg.lstsq(system, np.append(np.zeros(Z), 1.0), rcond=None)[0]
    return mu @ choice


def seen_in_full(P: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P[(z, s), a, (z1, s1)] and r[(z, s), a]: the same world with s in plain sight."""
    Z, S, A = r.shape
    flat, reward = np.zeros((Z * S, A, Z * S)), np.zeros((Z * S, A))
    for z, s, a in itertools.product(range(Z), range(S), range(A)):
        reward[z * S + s, a] = r[z, s, a]
        for z1, s1 in itertools.product(range(Z), range(S)):
            flat[z * S + s, a, z1 * S + s1] = P[z, s, a, z1, s1]
    return flat, reward
