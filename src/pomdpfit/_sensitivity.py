"""How values and choice probabilities move with theta, at any observation and belief."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._fixed_point import attached_value
from pomdpfit._model import Model, checked_primitives, require_model
from pomdpfit._params import ParameterSpace
from pomdpfit._policy import action_values, checked_arguments
from pomdpfit._precision import in_float64
from pomdpfit._schemes import AbstractScheme
from pomdpfit._solve import finite_derivative, solve_primitives
from pomdpfit._types import Array, ArrayLike, Belief, Float, Theta
from pomdpfit.solvers import Plan, make_plan


@dataclasses.dataclass(frozen=True, eq=False)
class Sensitivity:
    """Derivatives in the free natural parameters, which are the last axis."""

    value: Float[np.ndarray, "*b p"]
    policy: Float[np.ndarray, "*b A p"]
    names: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """For a single (z, x): a row for each parameter, the value and each action as columns."""
        if self.value.ndim != 1:
            raise ValueError(f"a table is for one (z, x), not for {self.value.shape[:-1]} of them.")
        frame = pd.DataFrame({"value": self.value}, index=list(self.names))
        for a, row in enumerate(self.policy):
            frame[f"P(a={a})"] = row
        return frame


@in_float64
def sensitivity(
    model: Model,
    theta: Theta,
    z: ArrayLike,
    x: Belief,
    t: ArrayLike | None = None,
    *,
    grid: AbstractScheme | None = None,
    space: ParameterSpace | None = None,
) -> Sensitivity:
    """d V-bar(z, x) / d theta and d pi(a | z, x) / d theta, through the fixed point."""
    require_model(model)
    space = model.space() if space is None else space
    primitives = checked_primitives(model, theta, space)
    solution = solve_primitives(primitives, grid)
    where = checked_arguments(primitives, z, x, t)
    static = solution.grid, make_plan(primitives.kernel)
    value, policy = _push(
        model, space.check(theta), space.directions(), solution.coefficients, where, *static
    )
    value, policy = (np.moveaxis(finite_derivative(part), 0, -1) for part in (value, policy))
    return Sensitivity(value, policy, tuple(space.free_names))


@eqx.filter_jit
def _push(  # type: ignore[no-untyped-def]
    model: Model, theta, directions, solved: Array, where: tuple, grid: AbstractScheme, plan: Plan
):
    def at(theta: dict) -> tuple[Array, Array]:
        primitives = model.primitives(theta)
        values = action_values(primitives, grid, attached_value(primitives, solved, grid, plan))
        return values.value(*where), jnp.exp(values.log_choice(*where))

    return jax.vmap(lambda direction: jax.jvp(at, (theta,), (direction,))[1])(directions)
