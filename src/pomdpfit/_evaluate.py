"""The likelihood of a panel, its gradient and its per-agent scores, as users call them."""

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit import _likelihood
from pomdpfit._bellman import refuse_if_too_large
from pomdpfit._best_priors import best_priors
from pomdpfit._complete_information import complete_information
from pomdpfit._curvature import curvature
from pomdpfit._entries_of_leaves import count_entries, entries_along, entries_of, leaf_by_leaf
from pomdpfit._errors import ImpossibleObservationError, ModelError, PanelError
from pomdpfit._impossible import explain_impossible
from pomdpfit._kernel import Kernel
from pomdpfit._last_point import KeptMoves, KeptScores, KeptSlope, LastPoint
from pomdpfit._log_likelihood import LogLikelihood, MovableLikelihood, Part
from pomdpfit._model import Model, checked_primitives, require_model
from pomdpfit._moves import find_moves
from pomdpfit._names_read import names_read
from pomdpfit._on_device import on_device
from pomdpfit._panel import Panel
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._params import ParameterSpace
from pomdpfit._point import Point, make_ground
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, StationaryPrior, labels_of, prior_or_default
from pomdpfit._problem import Ground, Problem
from pomdpfit._refused_terms import refuse_lost, refuse_not_finite
from pomdpfit._scene import Scene, make_scene, stacked_kernel
from pomdpfit._schemes import AbstractScheme
from pomdpfit._score_panel import Terms
from pomdpfit._shards import filled, spread
from pomdpfit._simulate_paths import simulate_paths
from pomdpfit._solve import (
    checked_grid,
    finite_derivative,
    prepare_solve,
    solve_contexts,
)
from pomdpfit._sound import prepare_sound, sound_primitives
from pomdpfit._stage import Data, Value
from pomdpfit._types import Array, Bool, Float, Int, Theta
from pomdpfit._unit_moves import SharedMoves, UnitMoves, joined, unit_moves
from pomdpfit.programs import can_prepare, program, tracing_many
from pomdpfit.solvers import AbstractSolver, Newton, make_plan

# With so few entries the value is moved forward in less time than multipliers take, and a small
# panel is no matter: slopes are then sums of scores, which are often asked for next.
_FEW = 4


class Likelihood(MovableLikelihood):
    """The log-likelihood of one panel as a function of theta, compiled once.

    Results carry `start`; handing it to the next call saves most of the work of the solver.
    """

    prior: AbstractPrior

    @in_float64
    def __init__(
        self,
        model: Model,
        panel: Panel,
        *,
        prior: AbstractPrior | None = None,
        grid: AbstractScheme | None = None,
        solver: AbstractSolver | None = None,
        space: ParameterSpace | None = None,
    ) -> None:
        if not isinstance(panel, Panel):
            raise PanelError(f"panel must be a pf.Panel, not {type(panel)}: see Panel.from_frame.")
        require_model(model)
        self.model = model
        given = model.space() if space is None else space
        own = given.only(model.parameters())
        self._own = own
        sketch = checked_primitives(model, own.example(), own)
        self.prior = prior_or_default(prior, sketch.states)
        self.space = own | self.prior.space(labels_of(model, sketch.states)).as_in(given)
        self.prior.check(sketch)
        self.grid = checked_grid(sketch, grid)
        self._solver = Newton(coarse_first=False) if solver is None else solver
        self._sketch = sketch
        self._problem = Problem(model, self.prior.rule(), self.grid, make_plan(sketch.kernel))
        self._shared_moves: SharedMoves | None = None
        self._read(panel, None)

    def _read(self, panel: Panel, contexts: Mapping[str, Float[np.ndarray, "C"]] | None) -> None:
        """Take the panel in, after all checks; its rows are numbered by these contexts."""
        self.panel = panel
        panel.check(self._sketch, self.model)
        groups = self.model.group_labels()
        self._covariates, context = panel.contexts(self._own.covariates, groups, contexts)
        refuse_if_too_large(self._sketch, self.grid, contexts=len(self._context_rows))
        data = Data(
            panel.arrays(context),
            self.prior.data(panel.agents, self.states),
            {name: on_device(values) for name, values in self._covariates.items()},
        )
        self._data = spread(data, panel.shards)
        self._successors: list[np.ndarray] | None = None
        self._last: LastPoint | None = None

    def __getstate__(self) -> dict:
        """Without what was found at the last theta: other processes find their own."""
        return self.__dict__ | {"_last": None}

    def forget(self) -> None:
        """Let go what was found at the last theta, and its memory."""
        self._last = None

    def on(
        self, panel: Panel, contexts: Mapping[str, Float[np.ndarray, "C"]] | None = None
    ) -> "Likelihood":
        """The same likelihood of another panel, with what is compiled.

        Such likelihoods share what they find at a theta about the model alone.
        """
        other = copy.copy(self)
        if other._shared_moves is None:
            self._shared_moves = other._shared_moves = SharedMoves()
        other._read(panel, contexts)
        return other

    @property
    def states(self) -> int:
        """|S|."""
        return self._sketch.states

    @functools.cached_property
    def dynamics(self) -> frozenset[str]:
        """What the kernel and the prior read."""
        prior = set(self.space.parameters) - set(self._own.parameters)
        return names_read(self.model.kernel, self._own.example()) | prior

    def prepare(self, theta: Theta, parts: Iterable[Part]) -> None:
        """Have programs for these parts compiled side by side; nothing is said of a bad theta."""
        if not can_prepare() or self.prior.by_agent or self.prior.needs_policy:
            return
        with tracing_many(), contextlib.suppress(ModelError, ImpossibleObservationError):
            theta, problem = self.space.checked_numbers(theta), self._problem
            primitives = [prepare_sound(self.model, each) for each in self._in_contexts(theta)]
            moves = _find_moves.prepare([here.kernel for here in primitives], self._data.panel)
            data = self._data._replace(moves=moves)
            weights = self._filled(np.ones((self.panel.agent_count, 2)))
            for with_choices in sorted({Part.CHOICE in part for part in parts}):
                ground = make_ground.prepare(problem, theta, data, with_choices)
                value: Any = None  # its shape
                if with_choices:
                    value = prepare_solve(ground.operators, self._solver, problem.plan)
                point = Point(problem, theta, value, data, ground)
                _likelihood.prepare(point, self._free(()), weights)

    def __call__(self, theta: Theta, *, start: Array | None = None) -> LogLikelihood:
        """The terms at theta."""
        return self.terms(theta, start=start)

    def terms(
        self, theta: Theta, *, part: Part = Part.BOTH, start: Array | None = None
    ) -> LogLikelihood:
        """The terms at theta."""
        point = self._at(theta, part, start)
        result = self._result(point, _likelihood.evaluate(point))
        if not self.prior.needs_policy:
            return result
        half = _prior_on_half_the_cells(point.problem, point.ground, point.value, point.data)
        gap = np.abs(np.asarray(half)[: self.panel.agent_count] - result.belief[:, 0])
        error = float(np.where(np.isnan(gap), np.inf, gap).max())
        return dataclasses.replace(result, prior_error=error)

    def pull(
        self,
        theta: Theta,
        weights: Float[np.ndarray, "N 2"],
        names: tuple[str, ...],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
    ) -> tuple[LogLikelihood, dict[str, np.ndarray]]:
        """The terms and the gradient of their weighted sum, in reverse mode; or from scores."""
        point, free = self._at(theta, part, start), self._free(names)
        counts = (weights != 0).any(axis=1)
        if point.value is not None and self._few(point.theta, names):
            each = {name: np.ones((1, *np.shape(point.theta[name]))) for name in names}
            wanted = entries_of(self._along(point, free, each))
            terms, by_entry = self._scores(point, free, wanted)
            result = self._result(point, terms, counts)
            slopes = finite_derivative(_likelihood.weighted_scores(by_entry, weights))
            leaves = leaf_by_leaf(slopes, point.halves(free)[0])
            return result, {name: leaves[name] for name in names}
        pulled = _likelihood.pull(point, free, self._filled(weights))
        if point.value is None:  # small, and asked for next where a search begins
            point.pulled = KeptSlope(weights.copy(), pulled.stage, pulled.back)
        result = self._result(point, pulled.terms, counts)
        return result, {name: finite_derivative(pulled.gradient[name]) for name in names}

    def complete_information(
        self,
        theta: Theta,
        weights: Float[np.ndarray, "N 2"],
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        *,
        part: Part = Part.BOTH,
    ) -> Float[np.ndarray, "p p"] | None:
        """Of the observation terms alone, where no policy stands behind the prior."""
        if part != Part.OBSERVATION or self.prior.needs_policy:
            return None
        point, free = self._at(theta, part, None), self._free(tuple(directions))
        known, point.pulled = point.pulled, None
        if known is None or not np.array_equal(known.weights, weights):
            pulled = _likelihood.pull(point, free, self._filled(weights))
            known = KeptSlope(weights, pulled.stage, pulled.back)
        along = self._along(point, free, directions)
        wanted = entries_of(along)
        moves = joined(self._moves(point, free, wanted), wanted).moves.stage
        return complete_information(known.stage, known.back, moves, along)

    def push(
        self,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
        among: Bool[np.ndarray, "N"] | None = None,
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N 2 p"]]:
        """The terms and every agent's derivatives: the value forward, the panel in reverse mode."""
        point, free = self._at(theta, part, start), self._free(tuple(directions))
        along = self._along(point, free, directions)
        terms, by_entry = self._scores(point, free, entries_of(along))
        derivatives = _along_each(along, by_entry)
        result = self._result(point, terms, among)
        if among is not None:
            derivatives = np.where(among[:, None, None], derivatives, 0.0)
        return result, finite_derivative(derivatives)

    def push_rows(
        self,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        *,
        part: Part = Part.BOTH,
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N T 2 p"]]:
        """The terms, and the derivative of every single one of them along each direction."""
        point, free = self._at(theta, part, None), self._free(tuple(directions))
        along = self._along(point, free, directions)
        wanted = entries_of(along)
        moves = self._moves(point, free, wanted)
        terms, by_entry = _likelihood.row_scores(point, wanted, moves)
        derivatives = _along_each(along, by_entry[:, : self.panel.agent_count])
        return self._result(point, terms), finite_derivative(derivatives)

    def curvature(
        self,
        theta: Theta,
        weights: Float[np.ndarray, "N 2"],
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        steps: Mapping[int, float],
        *,
        part: Part = Part.BOTH,
        start: Array | None = None,
    ) -> Float[np.ndarray, "p k"]:
        """Differences of the gradient of a Lagrangian, which need no solution but the one here."""
        point, free = self._at(theta, part, start), self._free(tuple(directions))
        moved = None
        if point.value is not None:
            wanted = entries_of(self._along(point, free, directions))
            moved = self._moved_value(point, free, wanted)
        arguments = self._seen_at, self._filled(weights), directions, steps
        return curvature(point, free, moved, *arguments)

    def _scores(
        self, point: LastPoint, free: tuple[str, ...], wanted: Bool[np.ndarray, "e"]
    ) -> _likelihood.Scores:
        """By entry, for agents that there are; of small panels they are kept."""
        if point.scores is not None and point.scores.serve(free, wanted):
            return point.scores.found
        moves = self._moves(point, free, wanted)
        (terms, by_entry), moved = _likelihood.scores(point, wanted, moves)
        scores = _likelihood.Scores(terms, by_entry[:, : self.panel.agent_count])
        point.moved = None if moved is None else KeptMoves(free, moved)
        if self.panel.z.size <= _likelihood.SMALL_PANEL:
            point.scores = KeptScores(free, wanted, scores)
        return scores

    def _few(self, theta: Theta, names: tuple[str, ...]) -> bool:
        """Whether all scores in these leaves are had in less time than one slope."""
        entries = count_entries(theta[name] for name in names)
        return entries <= _FEW and self.panel.z.size <= _likelihood.SMALL_PANEL

    def _moves(
        self, point: Point, free: tuple[str, ...], wanted: Bool[np.ndarray, "e"]
    ) -> Iterable[UnitMoves]:
        """Moves along entries; found once a theta for all panels that share them."""
        if self._shared_moves is None or self.prior.needs_policy:  # x0 then moves panel by panel
            return unit_moves(point, free, wanted)
        return self._shared_moves.at(point, free, wanted)

    def _moved_value(
        self, point: LastPoint, free: tuple[str, ...], wanted: Bool[np.ndarray, "e"]
    ) -> _likelihood.MovedValue:
        """How the value moves along entries; handed on by the scores that were taken here."""
        known, point.moved = point.moved, None  # large, and of no use elsewhere
        if known is not None and known.serve(free, wanted):
            return known.found
        return _likelihood.moved_value(unit_moves(point, free, wanted))

    def gradient(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, pd.Series]:
        """The terms and the gradient of the total in the free natural parameters."""
        weights = np.ones((self.panel.agent_count, 2))
        result, gradient = self.pull(theta, weights, self.space.free_leaves, start=start)
        vector = np.asarray(self.space.gradient_vector(gradient))
        return result, pd.Series(vector, self.space.free_names, name="score")

    def scores(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, pd.DataFrame]:
        """The terms and each agent's score (rows) in the free natural parameters (columns)."""
        result, derivatives = self.push(theta, self._directions, start=start)
        index = pd.Index(self.panel.agents, name="agent", tupleize_cols=False)
        return result, pd.DataFrame(derivatives.sum(axis=1), index, self.space.free_names)

    def choice_probabilities(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N T A"]]:
        """The terms (with the beliefs) and pi(. | z, x) in every row; NaN after the last epoch."""
        terms = self.terms(theta, start=start)
        scene = self._at(theta, Part.BOTH, terms.start).stage.scene
        assert scene is not None
        belief = filled(jnp.asarray(terms.belief), self._data.panel.z.shape[0])
        choices = np.array(_choices(scene, self._data.panel, belief))[: self.panel.agent_count]
        if self._sketch.horizon is not None:
            choices[self.panel.epochs >= self._sketch.horizon] = np.nan
        return terms, choices

    def simulate(self, theta: Theta, seed: int) -> Panel:
        """A panel with the same agents, lengths, first observations and covariates."""
        point = self._at(theta, Part.BOTH, None)
        scene, panel = point.stage.scene, point.data.panel
        assert scene is not None
        x0 = jnp.broadcast_to(point.stage.x0, (panel.z.shape[0], self.states))
        first, key = panel.z[:, 0], jax.random.key(seed)
        z, a, _, _ = simulate_paths(scene, x0, first, panel.context, panel.epoch, key)
        there = self.panel.agent_count
        return self.panel.replaced(np.asarray(z)[:there, :-1], np.asarray(a)[:there], seed)

    def _filled(self, weights: Float[np.ndarray, "N 2"]) -> Float[Array, "M 2"]:
        """Weights of all rows of the data: nobody, who fills up the devices, has none."""
        more = self._data.panel.z.shape[0] - len(weights)
        return on_device(np.pad(weights, ((0, more), (0, 0))))

    def _free(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """All leaves that are free, whichever are asked for: so that a fit compiles once."""
        return tuple(sorted({*self.space.free_leaves, *names}))

    @staticmethod
    def _along(
        point: Point,
        free: tuple[str, ...],
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
    ) -> Float[np.ndarray, "p e"]:
        return entries_along(directions, point.halves(free)[0])

    @functools.cached_property
    def _directions(self) -> dict[str, np.ndarray]:
        return self.space.free_directions()

    def _look_up_moves(self, kernels: list[Kernel]) -> None:
        """Find each row's matrix, unless the successors are still those of the theta before."""
        successors = [np.asarray(kernel.successors) for kernel in kernels]
        if self._successors is None or not all(map(np.array_equal, self._successors, successors)):
            self._successors = successors
            self._data = self._data._replace(moves=_find_moves(kernels, self._data.panel))

    def _seen_at(self, theta: Theta, value: Array | None) -> Data:
        """The data; where each agent has a prior of its own, with the best one at this theta."""
        if not self.prior.by_agent:
            return self._data
        return self._data._replace(prior=best_priors(self._problem, theta, value, self._data))

    def _at(self, theta: Theta, part: Part, start: Array | None) -> LastPoint:
        """theta after all checks, and the value there if a part needs it."""
        theta = self.space.checked_numbers(theta)
        with_choices = Part.CHOICE in part or self.prior.needs_policy
        last = self._last
        if last is not None and last.answers(theta, start, with_choices=with_choices):
            return last
        self._last = None  # two at a time would be too many
        point = self._solved(self._checked(theta), start, with_choices=with_choices)
        self._last = point  # another thread may put its own there
        return point

    def _solved(
        self, theta: dict[str, np.ndarray], start: Array | None, *, with_choices: bool
    ) -> LastPoint:
        """Context by context."""
        if not with_choices:
            return LastPoint(self._problem, theta, self._seen_at(theta, None))
        ground = make_ground(self._problem, theta, self._data, True)
        plan = self._problem.plan
        value, worst = solve_contexts(ground.operators, self._solver, plan, start)
        data = self._seen_at(theta, value)
        known = ground if data is self._data else None  # x0 is a part of it
        return LastPoint(
            self._problem,
            theta,
            data,
            value=value,
            residual=float(worst.residual),
            steps=int(worst.steps),
            start=start,
            ground=known,
        )

    def _checked(self, theta: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """theta, if it makes a model in every context; and each row's matrix is looked up."""
        primitives = [sound_primitives(self.model, each) for each in self._in_contexts(theta)]
        self._look_up_moves([here.kernel for here in primitives])
        return theta

    def _in_contexts(self, theta: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
        """The model's own leaves, with the covariates of each context."""
        own = {name: theta[name] for name in self._own.parameters}
        contexts = [dict(zip(self._covariates, row, strict=True)) for row in self._context_rows]
        # What is read from the panel has not been checked with theta.
        return [self._own.checked_numbers({**own, **w}) if w else own for w in contexts]

    @property
    def _context_rows(self) -> list[tuple]:
        return list(zip(*self._covariates.values(), strict=True)) if self._covariates else [()]

    def _result(
        self, point: LastPoint, terms: Terms, weighed: np.ndarray | None = None
    ) -> LogLikelihood:
        """The terms, refused where an agent that counts has none."""
        there = self.panel.agent_count
        observation, choice, belief = (np.asarray(part)[:there] for part in terms)
        counts = np.ones(there, dtype=bool) if weighed is None else weighed
        refuse_lost(self.panel, belief, counts)
        if np.isneginf(observation[counts]).any():
            theta = point.theta
            why = lambda: self._explain(theta, observation, belief, counts)
            raise ImpossibleObservationError(why)
        refuse_not_finite(self.panel, observation, choice, counts)
        return LogLikelihood(
            observation,
            choice,
            belief,
            self.panel,
            point.residual,
            point.steps,
            point.value,
        )

    def _explain(
        self, theta: Theta, observation: np.ndarray, belief: np.ndarray, counts: np.ndarray
    ) -> str:
        observation = np.where(counts[:, None], observation, 0.0)
        i, t = np.argwhere(np.isneginf(observation))[0]
        k = int(self._data.panel.context[i, t])
        here = dict(zip(self._covariates, self._context_rows[k], strict=True))
        at = {name: jnp.asarray(leaf) for name, leaf in theta.items()}
        primitives = self.model.primitives({**at, **here})
        return explain_impossible(primitives, self.panel, observation, belief)


def _along_each(
    along: Float[np.ndarray, "p e"], by_entry: Float[np.ndarray, "e N *T 2"]
) -> Float[np.ndarray, "N *T 2 p"]:
    return np.ascontiguousarray(np.moveaxis(np.tensordot(along, by_entry, 1), 0, -1))


@program
def _prior_on_half_the_cells(
    problem: Problem, ground: Ground, value: Value, data: Data
) -> Float[Array, "N S"]:
    assert isinstance(problem.prior, StationaryPrior)
    assert value is not None
    scene, _ = make_scene(ground.operators, value)
    return problem.prior.on_cells(2, data.panel, scene)


@program(light=True)
def _find_moves(kernels: list[Kernel], panel: PanelArrays) -> Int[Array, "T N"]:
    side_by_side = jax.tree.map(lambda *leaves: jnp.stack(leaves), *kernels)
    return find_moves(stacked_kernel(side_by_side), panel)


@eqx.filter_jit
def _choices(scene: Scene, panel: PanelArrays, belief: Array) -> Float[Array, "N T A"]:
    epoch = scene.epoch(panel.epoch)
    return jnp.exp(scene.log_choice(panel.context, panel.z, belief, epoch))
