"""Following a direction that the data cannot tell apart, to another theta that fits as well.

A step along the direction (predictor) changes probabilities to second order; Gauss and Newton's
steps across it (corrector) bring them back. What comes out has the same probability of every
sequence as theta has, and differs from it by a finite amount.
"""

from collections.abc import Callable

import numpy as np

from pomdpfit._errors import EstimationError, ModelError
from pomdpfit._types import Float
from pomdpfit.identification.rank._local_rank import singular

_STEPS = 8  # of the whole way: the corrector converges fast, so few will do
_CORRECTIONS = 8
_WORST = 1e-6  # of log-probabilities, weighted: the belief grid's error where choices count

# log-probabilities at a point, their slopes there, both with rows weighted
Law = Callable[[np.ndarray], tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n p"]]]


def walk(
    law: Law,
    start: Float[np.ndarray, "p"],
    direction: Float[np.ndarray, "p"],
    distance: float,
    tolerance: float,
) -> Float[np.ndarray, "p"]:
    """The point about `distance` away (by its largest entry) in a direction without effect."""
    target, slope = law(start)
    unit = singular(slope)[2]  # columns in units of what is told, as the rank has them
    point, heading = start, direction / np.abs(direction).max()
    for _ in range(_STEPS):
        null = _null(slope * unit, tolerance)
        heading = unit * (null @ (null.T @ (heading / unit)))  # it turns as the point moves
        size = np.abs(heading).max()
        if size < 1e-6:
            raise EstimationError(
                "the direction ends here: what the data cannot tell apart at theta, they can tell "
                f"apart a distance of {np.abs(point - start).max():.3g} away."
            )
        heading = heading / size
        try:
            ahead = point + heading * distance / _STEPS
            point, slope, gap = _corrected(law, ahead, target, unit, tolerance)
        except ModelError as error:
            raise EstimationError(
                "the path leaves the parameter space after a distance of "
                f"{np.abs(point - start).max():.3g}: {error} Go less far, or the other way (a "
                "negative distance)."
            ) from error
    if gap > _WORST:
        raise EstimationError(
            f"the path was lost: log-probabilities at its end are off by {gap:.2g}. Go less far, "
            "or use a finer grid."
        )
    return point


def _null(slope: np.ndarray, tolerance: float) -> np.ndarray:
    _, values, vectors = np.linalg.svd(slope, full_matrices=True)
    rank = int((values > tolerance * values[0]).sum())
    return vectors[rank:].T


def _corrected(
    law: Law, point: np.ndarray, target: np.ndarray, unit: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """The nearest point with the probabilities of the target, the slopes there, what is left."""
    value, slope = law(point)
    gap = value - target
    for _ in range(_CORRECTIONS):
        next_point = point - unit * (np.linalg.pinv(slope * unit, rcond=tolerance) @ gap)
        next_value, next_slope = law(next_point)
        next_gap = next_value - target
        if np.abs(next_gap).max() > 0.5 * np.abs(gap).max():  # rounding is all that is left
            break
        point, slope, gap = next_point, next_slope, next_gap
    return point, slope, float(np.abs(gap).max())
