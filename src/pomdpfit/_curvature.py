"""Second derivatives of the log-likelihood from a single solution of the model.

With multipliers lambda the Lagrangian log l + lambda' (T(theta, v) - v) has no derivative in v at
the solution v(theta). So the second derivatives of log l(theta, v(theta)) are those of the
Lagrangian along the directions (theta_k, dv/dtheta_k): the second derivatives of v drop out. They
are central differences of its exact gradient; nothing is solved again.
"""

from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np

from pomdpfit import _likelihood
from pomdpfit._problem import Problem
from pomdpfit._stage import Data, Value
from pomdpfit._types import Array, Float, Theta


def curvature(
    problem: Problem,
    free: dict,
    fixed: dict,
    value: Value,
    data_at: Callable[[Theta, Value], Data],
    weights: Array,
    directions: Mapping[str, Float[np.ndarray, "p *shape"]],
    steps: Mapping[int, float],
    by_entry: Value,
) -> Float[np.ndarray, "p k"]:
    """A column for each of steps[k] along direction k; NaN where that has no likelihood.

    by_entry  how the value moves along each entry of `free` that a direction has
    """
    data = data_at(free | fixed, value)
    along = _likelihood.entries_along(directions, free)
    by = _likelihood.multipliers(problem, free | fixed, value, data, weights)
    moves = None if by_entry is None else np.tensordot(along, np.asarray(by_entry), 1)

    def slope(k: int, step: float) -> Float[np.ndarray, "p"]:
        moved = {name: free[name] + step * leaf[k] for name, leaf in directions.items()}
        then = None if value is None or moves is None else jnp.asarray(value + step * moves[k])
        seen = data_at({**free, **moved, **fixed}, then)
        in_theta, in_value = _likelihood.lagrangian_slope(
            problem, {**free, **moved}, fixed, then, seen, weights, by
        )
        total = along @ np.concatenate([np.ravel(in_theta[name]) for name in sorted(free)])
        if moves is None or in_value is None:
            return total
        return total + moves.reshape(len(moves), -1) @ np.ravel(in_value)

    columns = [(slope(k, step) - slope(k, -step)) / (2 * step) for k, step in steps.items()]
    hessian = np.stack(columns, axis=1) if columns else np.zeros((len(along), 0))
    return np.where(np.isfinite(hessian).all(axis=0), hessian, np.nan)
