"""The best step of a quadratic model between bounds."""

import numpy as np


def bounded_quadratic(
    B: np.ndarray, g: np.ndarray, jacobian: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """argmax g d - d B d / 2 with low <= jacobian d <= high, where d = 0 is allowed.

    A primal active-set method: the entries of `active` lie on the bound of that sign. Where more
    bounds meet than there are directions (a vertex of a simplex) it could go in circles; bounds
    moved outwards by unequal amounts of the order of rounding do not meet.
    """
    apart = 1e-14 * np.arange(1, len(low) + 1)
    exact, low, high = (low, high), low - apart, high + apart
    scale = 1.0 / np.sqrt(np.maximum(np.diag(B), 1e-300))
    values, vectors = np.linalg.eigh(B * (scale[:, None] * scale))
    values = np.maximum(values, 1e-12 * values[-1])
    g, moves = scale * g, jacobian * scale
    free = vectors @ ((g @ vectors) / values)
    ahead = moves @ free
    if (ahead >= exact[0]).all() and (ahead <= exact[1]).all():  # most often no bound is in the way
        return scale * free
    B = (vectors * values) @ vectors.T
    d = np.zeros(len(g))
    active: dict[int, float] = {}
    for _ in range(20 * len(moves)):
        on = list(active)
        basis, triangle = np.linalg.qr(moves[on].T, mode="complete")
        free = basis[:, len(on) :]
        step = free @ np.linalg.solve(free.T @ B @ free, free.T @ (g - B @ d))
        move, here = moves @ step, moves @ d
        move[on] = 0.0
        move[np.abs(move) <= 1e-14 * np.abs(moves) @ np.abs(step)] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(move > 0, (high - here) / move, (low - here) / move)
        share = np.where(move == 0, np.inf, np.maximum(share, 0.0))
        first = int(np.argmin(share))
        d = d + min(1.0, share[first]) * step
        if share[first] < 1:
            active[first] = float(np.sign(move[first]))
            continue
        force = basis[:, : len(on)].T @ (g - B @ d)
        try:
            pull = np.linalg.solve(triangle[: len(on)], force)
        except np.linalg.LinAlgError:  # an entry and what follows from it (p, 1 - p) both active
            pull = np.linalg.lstsq(triangle[: len(on)], force, rcond=None)[0]
        inward = [k for k, each in zip(on, pull, strict=True) if each * active[k] < 0]
        if not inward:
            break
        del active[min(inward)]  # Bland: the first one, so that it ends
    on = list(active)
    bound = np.where([active[k] > 0 for k in on], exact[1][on], exact[0][on])
    return scale * (d + np.linalg.lstsq(moves[on], bound - moves[on] @ d, rcond=None)[0])
