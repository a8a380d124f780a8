"""Distances between beliefs, and how much of them one step of Bayes' rule can leave.

Beliefs come as logarithms, so that nothing underflows; -inf is a zero. Substochastic matrices
P(z', z, a) come as they are, with hidden states s in rows and s' in columns.
"""

from collections.abc import Callable

import numpy as np

from pomdpfit._types import Bool, Float


def _log_ratio(
    log_x: Float[np.ndarray, "*b S"], log_y: Float[np.ndarray, "*b S"]
) -> tuple[Float[np.ndarray, "*b S"], Bool[np.ndarray, "*b S"]]:
    """log x(s) / y(s), and where it is defined: not where both are zero."""
    defined = np.isfinite(log_x) | np.isfinite(log_y)
    with np.errstate(invalid="ignore"):
        ratio = np.asarray(log_x) - np.asarray(log_y)
    return np.where(defined, ratio, 0.0), defined


def total_variation(
    log_x: Float[np.ndarray, "*b S"], log_y: Float[np.ndarray, "*b S"]
) -> Float[np.ndarray, "*b"]:
    """max_A |x(A) - y(A)| = sum_s |x(s) - y(s)| / 2."""
    return np.abs(np.exp(log_x) - np.exp(log_y)).sum(axis=-1) / 2


def hilbert(
    log_x: Float[np.ndarray, "*b S"], log_y: Float[np.ndarray, "*b S"]
) -> Float[np.ndarray, "*b"]:
    """log of the largest ratio x(s)/y(s) over the smallest; infinite if one alone has a zero."""
    ratio, defined = _log_ratio(log_x, log_y)
    high = np.max(np.where(defined, ratio, -np.inf), axis=-1)
    low = np.min(np.where(defined, ratio, np.inf), axis=-1)
    with np.errstate(invalid="ignore"):  # of no belief at all
        return np.maximum(high - low, 0.0)


def paper_distance(
    log_x: Float[np.ndarray, "*b S"], log_y: Float[np.ndarray, "*b S"]
) -> Float[np.ndarray, "*b"]:
    """The paper's D(x, y) = max{d(x, y), d(y, x)}, d(x, y) = 1 - min{x(s)/y(s): y(s) > 0}."""
    return np.maximum(_one_sided(log_x, log_y), _one_sided(log_y, log_x))


def _one_sided(log_x: np.ndarray, log_y: np.ndarray) -> np.ndarray:
    ratio, _ = _log_ratio(log_x, log_y)
    smallest = np.min(np.where(np.isfinite(log_y), ratio, np.inf), axis=-1)
    return np.abs(np.expm1(np.minimum(smallest, 0.0)))


def bound_total_variation(h: Float[np.ndarray, "*b"]) -> Float[np.ndarray, "*b"]:
    """tanh(h/4): no two beliefs at Hilbert distance h are further apart in total variation."""
    return np.tanh(np.asarray(h) / 4)


def bound_paper_distance(h: Float[np.ndarray, "*b"]) -> Float[np.ndarray, "*b"]:
    """1 - exp(-h): no two beliefs at Hilbert distance h are further apart in the paper's D."""
    return -np.expm1(-np.asarray(h))


def _log_rows(P: Float[np.ndarray, "*b S S"]) -> tuple[np.ndarray, Bool[np.ndarray, "*b S"]]:
    """log P with each row normalised, and which rows can produce z' at all."""
    mass = P.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(P / mass), mass[..., 0] > 0


def _widest(
    P: Float[np.ndarray, "*b S S"], distance: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Float[np.ndarray, "*b"]:
    """The largest distance between two rows that can produce z'; 0 where there is only one."""
    rows, can = _log_rows(np.asarray(P, dtype=float))
    rows = np.where(can[..., None], rows, 0.0)
    apart = distance(rows[..., :, None, :], rows[..., None, :, :])
    return np.where(can[..., :, None] & can[..., None, :], apart, 0.0).max(axis=(-2, -1))


def eta(P: Float[np.ndarray, "*b S S"]) -> Float[np.ndarray, "*b"]:
    """The paper's coefficient: max over i, j of D(lambda(e_i), lambda(e_j)).

    It bounds D after one step. It is not submultiplicative: eta(PQ) can exceed eta(P) eta(Q).
    """
    return _widest(P, paper_distance)


def diameter(P: Float[np.ndarray, "*b S S"]) -> Float[np.ndarray, "*b"]:
    """Delta = max over i, j, k, l of log P_ik P_jl / (P_il P_jk): how far apart x P and y P can be.

    States that cannot produce z' (rows of zeros) and states that z' rules out (columns of zeros)
    drop out. A zero beside a positive entry of its column makes Delta infinite.
    """
    return _widest(P, hilbert)


def birkhoff(P: Float[np.ndarray, "*b S S"]) -> Float[np.ndarray, "*b"]:
    """tanh(Delta/4): h(x P, y P) <= birkhoff(P) h(x, y), for all beliefs that can produce z'."""
    return np.tanh(diameter(P) / 4)
