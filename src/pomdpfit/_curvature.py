"""Second derivatives of the log-likelihood from a single solution of the model.

With multipliers lambda the Lagrangian log l + lambda' (T(theta, v) - v) has no derivative in v at
the solution v(theta). So the second derivatives of log l(theta, v(theta)) are those of the
Lagrangian along the directions (theta_k, dv/dtheta_k): the second derivatives of v drop out. They
are central differences of its exact gradient; nothing is solved again.
"""

from collections.abc import Callable, Mapping

import numpy as np

from pomdpfit import _likelihood
from pomdpfit._entries_of_leaves import entries_along
from pomdpfit._likelihood import MovedValue
from pomdpfit._point import Point
from pomdpfit._stage import Data, Value
from pomdpfit._types import Array, Float, Theta


def curvature(
    point: Point,
    free: tuple[str, ...],
    moved: MovedValue | None,
    data_at: Callable[[Theta, Value], Data],
    weights: Array,
    directions: Mapping[str, Float[np.ndarray, "p *shape"]],
    steps: Mapping[int, float],
) -> Float[np.ndarray, "p k"]:
    """A column for each of steps[k] along direction k; NaN where that has no likelihood.

    moved  how the value moves along each entry of `free` that a direction has
    """
    along = entries_along(directions, point.halves(free)[0])
    by = _likelihood.multipliers(point, weights)
    moves = None if moved is None else moved.along(along)
    here = None if point.value is None else np.asarray(point.value)

    def slope(k: int, step: float) -> Float[np.ndarray, "p"]:
        shifted = {name: point.theta[name] + step * leaf[k] for name, leaf in directions.items()}
        theta = point.theta | shifted
        value = None if here is None or moves is None else here + step * moves[k]
        there = Point(point.problem, theta, value, data_at(theta, value))
        in_theta, in_value = _likelihood.lagrangian_slope(there, free, weights, by)
        total = along @ np.concatenate([np.ravel(in_theta[name]) for name in sorted(free)])
        if moves is None or in_value is None:
            return total
        return total + moves.reshape(len(moves), -1) @ np.ravel(in_value)

    columns = [(slope(k, step) - slope(k, -step)) / (2 * step) for k, step in steps.items()]
    hessian = np.stack(columns, axis=1) if columns else np.zeros((len(along), 0))
    return np.where(np.isfinite(hessian).all(axis=0), hessian, np.nan)
