"""Many likelihoods in one compiled program.

Members share the model, the prior's data and the shapes; they differ in theta, in the weights of
their agents, in the value that their solve starts from and, where panels are simulated, in the
panel. Programs are compiled for a fixed number of members, whatever the number of climbs: calls
with fewer are padded. A member that has no likelihood is told by its flag and does not touch the
others.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._agent_scores import agent_scores
from pomdpfit._bellman import memory_needed
from pomdpfit._engine import find_engine
from pomdpfit._errors import EstimationError
from pomdpfit._evaluate import Likelihood
from pomdpfit._fixed_point import cold_start, solve_infinite
from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._panel import Panel
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._plain_score import plain_pull_score
from pomdpfit._problem import Problem
from pomdpfit._score_panel import Terms, pull_score, push_score, weighted_sum
from pomdpfit._sound import sound
from pomdpfit._stage import Data
from pomdpfit._types import Array, Bool, Float, Theta
from pomdpfit.solvers import AbstractSolver
from pomdpfit.solvers._base import enough, size

_MEMBERS = "members"
_FEWEST = 3  # searches
_ON_DEVICE = 9  # at most 2^9 members: half of a thousand think while the others are computed
_COPIES, _PER_ROW = 4, 4_000  # of the operator, and bytes for a row of the panel with derivatives


class Members(NamedTuple):
    """What the members of a batch differ in, stacked."""

    theta: dict[str, Float[np.ndarray, "m *shape"]]
    weights: Float[np.ndarray, "m N"]
    start: Float[Array, "m Z n c"]
    panel: PanelArrays | None = None  # None where all see the same


class Answers(NamedTuple):
    """One answer a member, the values that were solved for, and which members have any."""

    answer: tuple[Array, ...] | Array
    start: Float[Array, "m Z n c"]
    sound: Bool[Array, "m"]


def can_batch(likelihood: AbstractLikelihood) -> bool:
    """Whether one program can serve many members: one context, an infinite horizon, plain priors.

    A stationary prior or a prior for each agent is found by an iteration of its own, contexts and
    finite horizons by a loop: there the members of a batch would wait for one another.
    """
    return (
        isinstance(likelihood, Likelihood)
        and likelihood.panel.shards == 1
        and not likelihood.space.covariates
        and likelihood.model.horizon() is None
        and not (likelihood.prior.by_agent or likelihood.prior.needs_policy)
    )


def chosen_width(
    likelihood: AbstractLikelihood, climbs: int, n_jobs: int | None, batch: int | None
) -> int:
    """How many climbs to answer at a time; 1 for one after the other.

    What was asked for, where it can be had. Else 1 in several processes, for few climbs and on a
    CPU, where the program for a batch takes longer to compile than it saves (benchmarks/
    batches.py); on other devices what half their memory holds.
    """
    if batch is not None:
        if batch < 1:
            raise EstimationError(f"batch must be at least 1, but it is {batch}.")
        if batch > 1 and not can_batch(likelihood):
            raise EstimationError(
                "only likelihoods with hidden states, an infinite horizon, no covariates and a "
                "prior that is known or common are answered in batches: leave batch=None."
            )
        return batch
    if climbs < _FEWEST or not can_batch(likelihood) or not find_engine(n_jobs).here:
        return 1
    assert isinstance(likelihood, Likelihood)
    device, rows = jax.devices()[0], likelihood.panel.z.size
    if device.platform == "cpu":
        return 1
    primitives = likelihood.model.primitives(likelihood.space.example())
    member = _COPIES * memory_needed(primitives, likelihood.grid) + _PER_ROW * rows
    room = 0.5 * (device.memory_stats() or {}).get("bytes_limit", 8e9)
    return int(2 ** np.clip(np.floor(np.log2(room / member)), 0, _ON_DEVICE))


class Batch:
    """Slopes and outer products of scores for `width` members at a time."""

    def __init__(self, likelihood: AbstractLikelihood, width: int) -> None:
        assert isinstance(likelihood, Likelihood)
        self.likelihood, self.width = likelihood, width
        self._problem, self._solver = likelihood._problem, likelihood._solver
        # Which matrix moves each row's belief is for the program to find: what the likelihood has
        # found belongs to its own panel, and to the successors at one theta. Where members share
        # both it is found once for all of them.
        self._data = likelihood._data._replace(moves=None)
        primitives = likelihood.model.primitives(likelihood.space.example())
        self.cold = cold_start(primitives, likelihood.grid)

    def arrays(self, panel: Panel) -> PanelArrays:
        """Another panel of the same shape, as members have it."""
        return panel.arrays(np.asarray(self._data.panel.context))

    def slopes(self, part: Part, leaves: Sequence[str], members: Members) -> Answers:
        """Each member's weighted part of the log-likelihood and its gradient in these leaves."""
        free = {name: members.theta[name] for name in leaves}
        fixed = {name: leaf for name, leaf in members.theta.items() if name not in free}
        return _slopes(self._problem, self._solver, part, free, fixed, members, self._data)

    def outers(self, part: Part, directions: Theta, members: Members) -> Answers:
        """Each member's sum_i w_i s_i s_i', with scores along its own directions (m, p, ...)."""
        return _outers(self._problem, self._solver, part, directions, members, self._data)


def _solved(
    problem: Problem, solver: AbstractSolver, part: Part, theta: Theta, start: Array
) -> tuple[Array | None, Array, Array]:
    """The value at theta if the part needs it, what the next solve starts from, and whether all
    is well."""
    primitives = problem.model.primitives(theta)
    fine = sound(primitives)
    if Part.CHOICE not in part:
        return None, start, fine
    state = solve_infinite(primitives, problem.grid, solver, problem.plan, start)
    fine = fine & enough(state.residual, size(state.coefficients), solver.tolerance)
    # The linear systems behind the derivatives of what was not solved end at once at a NaN; the
    # others would have to wait for them.
    value = jnp.where(fine, state.coefficients, jnp.nan)
    return value[None], state.coefficients, fine


def _wanted(part: Part) -> Array:
    return jnp.array([Part.OBSERVATION in part, Part.CHOICE in part], dtype=float)


def _over_members(one, theta, members: Members, *more):  # type: ignore[no-untyped-def]
    axis = None if members.panel is None else 0
    axes = (0, 0, 0, axis, *(0 for _ in more))
    each = jax.vmap(one, in_axes=axes, axis_name=_MEMBERS)
    return each(theta, members.weights, members.start, members.panel, *more)


def _plain_first(plain: Callable, careful: Callable) -> Callable:
    """What the plain filter finds, unless numbers of some member are too small for it.

    The careful one is a branch for all members: each by itself would go through both.
    """

    def run(*args: Any) -> Any:
        *found, lost = plain(*args)
        some = jax.lax.psum(lost.astype(int), _MEMBERS) > 0
        return jax.lax.cond(some, lambda: careful(*args), lambda: tuple(found))

    return run


_pull_score = _plain_first(plain_pull_score, pull_score)
_push_score = _plain_first(agent_scores, functools.partial(push_score, parts=Terms.by_part))


@eqx.filter_jit
def _slopes(problem, solver, part, free, fixed, members, data):  # type: ignore[no-untyped-def]
    def one(theta: dict, weights: Array, start: Array, panel: PanelArrays | None) -> Answers:
        free, fixed = theta
        solved, start, fine = _solved(problem, solver, part, free | fixed, start)
        seen: Data = data if panel is None else data._replace(panel=panel)
        counts = weights[:, None] * _wanted(part)
        ground = problem.ground(free | fixed, seen, with_choices=solved is not None)
        terms, back = _pull_score(problem.stage(ground, solved, seen), seen, counts)
        by = None
        if solved is not None:
            to_value = problem.pull_value(ground, solved, seen, back)
            by = problem.multipliers(ground, solved, to_value)
        gradient = problem.pull(free, fixed, solved, seen, back, by)
        value = weighted_sum(terms.by_part(), counts)
        for leaf in (value, *jax.tree.leaves(gradient)):
            fine = fine & jnp.all(jnp.isfinite(leaf))
        return Answers((value, gradient), start, fine)

    return _over_members(one, (free, fixed), members)


@eqx.filter_jit
def _outers(problem, solver, part, directions, members, data):  # type: ignore[no-untyped-def]
    def one(theta, weights, start, panel, directions):  # type: ignore[no-untyped-def]
        solved, start, fine = _solved(problem, solver, part, theta, start)
        seen = data if panel is None else data._replace(panel=panel)

        moves = problem.mover(theta, directions, solved, seen)(directions).stage
        ground = problem.ground(theta, seen, with_choices=solved is not None)
        stage = problem.stage(ground, solved, seen)
        _, parts = _push_score(stage, moves, seen)
        scores = jnp.where(weights > 0, parts @ _wanted(part), 0.0)
        outer = (scores * weights) @ scores.T
        return Answers(outer, start, fine & jnp.all(jnp.isfinite(outer)))

    return _over_members(one, members.theta, members, directions)


def stacked_panels(panels: Sequence[PanelArrays]) -> PanelArrays | None:
    """Panels of one shape, one after the other along a new first axis; None of none."""
    if not panels:
        return None
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *panels)
