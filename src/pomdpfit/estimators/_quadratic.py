"""The best step of a quadratic model between bounds."""

import numpy as np
from scipy.linalg import lapack, qr

_SOUND = 1e-10  # reciprocal condition, far above the floor under the eigenvalues in `_search`
_GUESSES = 10
_MANY = 10  # bounds
_OFF = 1e-8  # of the way back to the bounds: more is left where bounds all but coincide
_APART = 1e-14  # of the order of rounding
_NONE = 1e-300  # no more than this is no curvature, and no unit: in its root squares overflow
_UNIT = 1e50  # in which entries without curvature are measured


def bounded_quadratic(
    B: np.ndarray, g: np.ndarray, jacobian: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """argmax g d - d B d / 2 with low <= jacobian d <= high, where d = 0 is allowed.

    There is one such d. It is guessed which bounds hold, and searched for where that fails.
    """
    curvature = B.diagonal()
    curved = curvature > _NONE
    scale = np.where(curved, 1.0 / np.sqrt(np.where(curved, curvature, 1.0)), _UNIT)
    B, g, moves = B * (scale[:, None] * scale), scale * g, jacobian * scale
    d = _guess(B, g, moves, low, high)
    return scale * (_search(B, g, moves, low, high) if d is None else d)


def _guess(
    B: np.ndarray, g: np.ndarray, moves: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """The step by a primal-dual active-set method, or None where it does not find it soon.

    Where the rows J of `moves` lie on their bounds b, d = B^-1 (g - J' mu) with multipliers mu that
    solve (J B^-1 J') mu = J B^-1 g - b. The next guess drops bounds whose multipliers pull inwards
    and adds those that d oversteps. A guess that stays is the maximum, for nothing else obeys the
    conditions of Kuhn and Tucker; but that guesses come to stay is not certain.

    The matrices are so small that most of the time would go into numpy's calls: hence LAPACK's.
    """
    root, failed = lapack.dpotrf(B, lower=1)
    # The diagonal of B is one, so that no norm of it exceeds its length.
    if failed or not lapack.dpocon(root, len(B), uplo="L")[0] > _SOUND:
        return None
    free = lapack.dpotrs(root, g, lower=1)[0]
    ahead = moves @ free
    least, most = low - _APART, high + _APART
    side = np.subtract(
        ahead > most, ahead < least, dtype=int
    )  # 1 on the upper bound, -1 on the lower
    if not side.any():
        return free
    for _ in range(_GUESSES):
        on = side.nonzero()[0]
        if not len(on):
            break  # the guess before the first one again
        sign, rows = side[on], moves[on]
        bound = np.where(sign > 0, high[on], low[on])
        over = ahead[on] - bound
        back = lapack.dpotrs(root, rows.T, lower=1)[0]
        gram, pull, failed = lapack.dposv(rows @ back, over, lower=1)
        if failed:  # an entry and what follows from it (p, 1 - p)
            break
        d = free - back @ pull
        here = moves @ d
        new = np.subtract(here > most, here < least, dtype=int)
        new[on] = np.where(pull * sign < 0, 0, sign)
        if (new == side).all():
            gap = here[on] - bound
            if np.abs(gap).max() > _OFF * np.abs(over).max():
                break
            return d - back @ lapack.dpotrs(gram, gap, lower=1)[0]  # rounding taken back
        side = new
    return None


def _held_at_start(
    B: np.ndarray, g: np.ndarray, moves: np.ndarray, low: np.ndarray, high: np.ndarray
) -> dict[int, float]:
    """Of many bounds that hold at d = 0, those that the best step with all held pushes against.

    With these the search begins; few are found as soon one by one.
    """
    at = np.flatnonzero((low >= 0) | (high <= 0))
    if len(at) < _MANY:
        return {}
    side = np.where(high[at] <= 0, 1.0, -1.0)
    _, triangle, order = qr(moves[at].T, mode="economic", pivoting=True)
    size = np.abs(triangle.diagonal())
    keep = np.sort(order[: np.count_nonzero(size > 1e-8 * size[0])])  # that do not follow
    at, side = at[keep], side[keep]
    basis, triangle = np.linalg.qr(moves[at].T, mode="complete")
    free = basis[:, len(at) :]
    step = free @ np.linalg.solve(free.T @ B @ free, free.T @ g)
    pull = np.linalg.solve(triangle[: len(at)], basis[:, : len(at)].T @ (g - B @ step))
    return {int(k): float(s) for k, s, each in zip(at, side, pull, strict=True) if each * s >= 0}


def _search(
    B: np.ndarray, g: np.ndarray, moves: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The step by a primal active-set method, with a floor under the eigenvalues of B.

    The entries of `active` lie on the bound of that sign. Where more bounds meet than there are
    directions (a vertex of a simplex) it could go in circles; bounds moved outwards by unequal
    amounts of the order of rounding do not meet.
    """
    apart = _APART * np.arange(1, len(low) + 1)
    exact, low, high = (low, high), low - apart, high + apart
    values, vectors = np.linalg.eigh(B)
    values = np.maximum(values, 1e-12 * values[-1])
    free = vectors @ ((g @ vectors) / values)
    ahead = moves @ free
    if (ahead >= exact[0]).all() and (ahead <= exact[1]).all():  # most often no bound is in the way
        return free
    B = (vectors * values) @ vectors.T
    d = np.zeros(len(g))
    active = _held_at_start(B, g, moves, *exact)
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
    return d + np.linalg.lstsq(moves[on], bound - moves[on] @ d, rcond=None)[0]
