"""invert_rewards(): what must they have wanted who choose like this?"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._errors import ModelError, SolveError
from pomdpfit._labels import action_names, observation_keys
from pomdpfit._model import Model, Primitives, checked_primitives
from pomdpfit._policy import ActionValues, checked_arguments
from pomdpfit._precision import in_float64
from pomdpfit._priors import labels_of
from pomdpfit._schemes import AbstractScheme
from pomdpfit._solve import Solution, checked_grid
from pomdpfit._types import Array, ArrayLike, Belief, Float, Int, Theta
from pomdpfit.identification.rewards._hotz_miller import Inverse, invert
from pomdpfit.identification.rewards._node_policy import Policy, log_choice_at_nodes
from pomdpfit.solvers import make_plan

_WORST_RESIDUAL = 1e-8  # relative to the value


@dataclasses.dataclass(frozen=True, eq=False)
class RewardInversion:
    """Rewards recovered from choice probabilities, given those of the reference action.

    `table` is r(z, s, a), read at the vertices of the belief simplex (with a finite horizon, the
    mean over epochs); NaN where an action is not available. `at_nodes` is r(z, x, a) at the beliefs
    `nodes`, epochs first with a finite horizon. Choice probabilities that some reward explains give
    an `at_nodes` that is linear in x and the same in every epoch: `nonlinearity` and `spread` say
    how far it is from that.
    """

    table: Float[np.ndarray, "Z S A"]
    nodes: Float[np.ndarray, "n S"]
    at_nodes: Float[np.ndarray, "*H Z n A"]
    values: ActionValues = dataclasses.field(repr=False)
    residual: float
    reference: int
    states: tuple[str, ...]
    actions: tuple[str, ...]
    reference_is_given: bool
    observations: tuple[str, ...] | tuple[int, ...]

    @property
    def reward(self) -> pd.DataFrame:
        """`table` with a row for each (z, state) and a column for each action."""
        index = pd.MultiIndex.from_product([self.observations, self.states], names=["z", "state"])
        columns = pd.Index(self.actions, name="action")
        return pd.DataFrame(self.table.reshape(-1, len(self.actions)), index, columns)

    @property
    def nonlinearity(self) -> pd.DataFrame:
        """max over x (and epochs) of |r(z, x, a) - sum_s x(s) r(z, s, a)|, by z and action.

        Each epoch has its own r(z, s, a) here, so that nonlinearity and spread are separate.
        """
        corner = self.at_nodes[..., _vertices(self.nodes), :]
        straight = np.einsum("ns,...zsa->...zna", self.nodes, corner)
        gap = np.abs(self.at_nodes - straight).max(axis=-2)
        return self._by_action(gap.reshape(-1, *gap.shape[-2:]).max(axis=0))

    @property
    def spread(self) -> pd.DataFrame | None:
        """max over epochs and states of |r_t(z, s, a) - r(z, s, a)|; None without a horizon."""
        if self.at_nodes.ndim == 3:
            return None
        corner = self.at_nodes[..., _vertices(self.nodes), :]
        return self._by_action(np.abs(corner - self.table).max(axis=(0, 2)))

    def _by_action(self, values: np.ndarray) -> pd.DataFrame:
        index = pd.Index(self.observations, name="z")
        return pd.DataFrame(values, index, pd.Index(self.actions, name="action"))

    def at(
        self, z: Int[ArrayLike, "*b"], x: Belief, t: Int[ArrayLike, "*b"] | None = None
    ) -> Float[np.ndarray, "*b A"]:
        """r(z, x, a) for all a as recovered, between the nodes by the grid's interpolation."""
        where = checked_arguments(self.values.primitives, z, x, t)
        return np.asarray(_read(self.values, *where))

    def summary(self) -> str:
        """What was recovered, what was taken as known, and whether a reward explains it all."""
        known = "given" if self.reference_is_given else "the model's own at theta"
        bent = _worst(self.nonlinearity)
        lines = [
            "Rewards recovered from choice probabilities",
            f"taken as known:  r(., ., {self.actions[self.reference]}) ({known}), the discount "
            f"{float(self.values.primitives.discount):.6g}, {_shocks(self.values.primitives)}",
            f"grid:            {self.values.scheme}, residual {self.residual:.1e}",
            f"not linear in x: at most {bent}",
        ]
        if self.spread is not None:
            lines.append(f"between epochs:  at most {_worst(self.spread)}")
        digits = lambda value: f"{value:.6g}"
        table = self.reward.to_string(max_rows=40, na_rep="--", float_format=digits)
        return "\n".join([*lines, "", table])


_read = eqx.filter_jit(lambda values, z, x, t: values.q(z, x, t))
_invert = eqx.filter_jit(invert)


@in_float64
def invert_rewards(
    model: Model,
    theta: Theta,
    *,
    reference: str | int,
    policy: Policy,
    reward_of_reference: Float[ArrayLike, "Z S"] | None = None,
    grid: AbstractScheme | None = None,
) -> RewardInversion:
    """The rewards r(z, s, a) that make a policy optimal (the paper's Theorem 6 and Corollary 1).

    Kernel, discount, shocks, availability, horizon and terminal value are those of the model at
    theta; its rewards are not used, but for those of the reference action if they are not given.

    reference            the action (its label or number) whose rewards are known
    policy               a `Solution`, or a function of (z, x), with a finite horizon (z, x, t),
                         that returns choice probabilities for arrays of z and x, as
                         `Solution.policy` does
    reward_of_reference  r(z, s, reference); None for the model's own at theta
    grid                 belief grid; that of the solution, or the model's default
    """
    primitives = checked_primitives(model, theta)
    actions = action_names(model, primitives.actions)
    a0 = action_number(reference, actions, primitives)
    if grid is None and isinstance(policy, Solution):
        grid = policy.grid
    grid = checked_grid(primitives, grid)
    known = primitives.reward[:, :, a0]
    if reward_of_reference is not None:
        known = _checked_rewards(reward_of_reference, known.shape)
    log_choice = log_choice_at_nodes(policy, primitives, grid)
    plan = make_plan(primitives.kernel)
    found: Inverse = _invert(primitives, log_choice, known, jnp.asarray(a0), grid, plan)
    _refuse_unsolved(found)
    at_nodes = np.moveaxis(np.asarray(found.reward[..., 0]), -2, -1)
    nodes = grid.beliefs(primitives.states)
    corner = at_nodes[..., _vertices(nodes), :]
    return RewardInversion(
        table=corner if primitives.horizon is None else corner.mean(axis=0),
        nodes=nodes,
        at_nodes=at_nodes,
        values=ActionValues(reward_table(found.reward), primitives, grid),
        residual=float(found.residual),
        reference=a0,
        states=labels_of(model, primitives.states),
        actions=actions,
        reference_is_given=reward_of_reference is not None,
        observations=observation_keys(model, primitives.observations),
    )


def reward_table(reward: Float[Array, "*H Z A n c"]) -> Float[Array, "*H Z m A"]:
    """Coefficients with actions last, as `ActionValues` reads them."""
    moved = jnp.moveaxis(reward, -3, -1)
    return moved.reshape(*moved.shape[:-3], -1, moved.shape[-1])


def action_number(reference: str | int, actions: tuple[str, ...], primitives: Primitives) -> int:
    """The number of an action that can be taken everywhere, from its label or number."""
    numbers: dict[str | int, int] = {a: a for a in range(len(actions))}
    numbers.update({label: a for a, label in enumerate(actions)})
    if isinstance(reference, bool) or reference not in numbers:
        raise ModelError(
            f"the reference action must be one of {', '.join(actions)} (or its number), but it is "
            f"{reference!r}."
        )
    a0 = numbers[reference]
    if primitives.available is not None:
        shut = ~np.asarray(primitives.available)[:, a0]
        if shut.any():
            raise ModelError(
                f"the reference action {actions[a0]!r} is not available at z={np.argmax(shut)} "
                f"({int(shut.sum())} such z): the value is solved along it, so choose one that "
                "can be taken everywhere."
            )
    return a0


def _checked_rewards(reward: ArrayLike, shape: tuple[int, ...]) -> Array:
    reward = np.asarray(reward, dtype=float)
    if reward.shape != shape or not np.isfinite(reward).all():
        raise ModelError(
            f"reward_of_reference must be finite numbers of shape (Z, S) = {shape}, but it has "
            f"shape {reward.shape} and {int((~np.isfinite(reward)).sum())} entries that are not."
        )
    return jnp.asarray(reward)


def _refuse_unsolved(found: Inverse) -> None:
    size = float(jnp.max(jnp.abs(found.value)))
    if not float(found.residual) <= _WORST_RESIDUAL * max(1.0, size):
        raise SolveError(
            f"the linear equation of the inversion was not solved: residual "
            f"{float(found.residual):.3g} for values up to {size:.3g}. Use fewer belief nodes, a "
            "lower discount, or an action that resets as the reference."
        )


def _shocks(primitives: Primitives) -> str:
    scale = getattr(primitives.shock, "scale", None)
    of = "" if scale is None else f" of scale {float(scale):.6g}"
    return f"{type(primitives.shock).__name__} shocks{of}"


def _vertices(nodes: np.ndarray) -> np.ndarray:
    """The node at which each state is certain."""
    return np.argmax(nodes, axis=0)


def _worst(table: pd.DataFrame) -> str:
    values = table.to_numpy()
    z, a = divmod(int(np.nanargmax(values)), values.shape[1])
    return f"{values[z, a]:.2g} (z = {table.index[z]}, {table.columns[a]})"
