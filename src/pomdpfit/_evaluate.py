"""The likelihood of a panel, its gradient and its per-agent scores, as users call them."""

import contextlib
import copy
import functools
from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit import _likelihood
from pomdpfit._best_priors import best_priors
from pomdpfit._complete_information import complete_information
from pomdpfit._curvature import curvature
from pomdpfit._errors import ImpossibleObservationError, ModelError, PanelError, SolveError
from pomdpfit._impossible import explain_impossible
from pomdpfit._kernel import Kernel
from pomdpfit._log_likelihood import LogLikelihood, MovableLikelihood, Part
from pomdpfit._model import Model, Primitives, checked_primitives
from pomdpfit._moves import find_moves
from pomdpfit._names_read import names_read
from pomdpfit._own_code import require_instance
from pomdpfit._panel import Panel
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, labels_of, prior_or_default
from pomdpfit._problem import Moves, Problem
from pomdpfit._refused_terms import refuse_lost, refuse_not_finite
from pomdpfit._scene import Scene, stacked_kernel
from pomdpfit._schemes import AbstractScheme
from pomdpfit._score_panel import Terms
from pomdpfit._shards import filled, spread
from pomdpfit._simulate_paths import simulate_paths
from pomdpfit._solve import checked_grid, finite_derivative, outcome, prepare_solve, solved_state
from pomdpfit._sound import sound_primitives
from pomdpfit._stage import Data, Stage
from pomdpfit._types import Array, Bool, Float, Int, Theta
from pomdpfit._value_moves import SharedMoves, ValueMoves
from pomdpfit.programs import can_prepare, program
from pomdpfit.solvers import AbstractSolver, Newton, SolverState, make_plan

# With so few entries and rows, the value is moved forward in less time than multipliers take, and
# the panel is no matter: slopes are then sums of scores, which are often asked for next.
_FEW, _FEW_ROWS = 4, 20_000


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
        require_instance(model)
        self.model = model
        given = model.space() if space is None else space
        own = given.only(model.parameters())
        self._own = own
        sketch = checked_primitives(model, own.example(), own)
        self.prior = prior_or_default(prior, sketch.states)
        self.space = own | self.prior.space(labels_of(model, sketch.states)).as_in(given)
        self.prior.check(sketch)
        self.grid = checked_grid(sketch, grid)
        self._solver = Newton() if solver is None else solver
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
        data = Data(
            panel.arrays(context),
            self.prior.data(panel.agents, self.states),
            {name: jnp.asarray(values) for name, values in self._covariates.items()},
        )
        self._data = spread(data, panel.shards)
        self._successors: list[np.ndarray] | None = None
        self._moved: ValueMoves | None = None
        self._scored: tuple[ValueMoves, Terms, np.ndarray] | None = None
        self._pulled: tuple[dict, np.ndarray, Stage, Stage] | None = None

    def __getstate__(self) -> dict:
        """Without what was found at the last theta: other processes find their own."""
        return self.__dict__ | {"_moved": None, "_scored": None, "_pulled": None}

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
        with contextlib.suppress(ModelError, ImpossibleObservationError, SolveError):
            theta, primitives = self._checked(theta)
            free, fixed = self._free_and_fixed(theta, ())
            weights = self._filled(np.ones((self.panel.agent_count, 2)))
            for with_choices in sorted({Part.CHOICE in part for part in parts}):
                value = self._sketched_value(primitives) if with_choices else None
                _likelihood.prepare(self._problem, free, fixed, value, self._data, weights)

    def _sketched_value(self, primitives: list[Primitives]) -> jax.ShapeDtypeStruct:
        """The shape of the value, whose program is prepared."""
        one = prepare_solve(primitives[0], self.grid, self._solver, self._problem.plan)
        return jax.ShapeDtypeStruct((len(primitives), *one.shape), one.dtype)

    def __call__(self, theta: Theta, *, start: Array | None = None) -> LogLikelihood:
        """The terms at theta."""
        return self.terms(theta, start=start)

    def terms(
        self, theta: Theta, *, part: Part = Part.BOTH, start: Array | None = None
    ) -> LogLikelihood:
        """The terms at theta."""
        theta, value, state = self._solved(theta, part, start)
        data = self._with_priors(theta, value)
        terms = _likelihood.evaluate(self._problem, theta, value, data)
        return self._result(theta, value, state, terms)

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
        theta, value, state = self._solved(theta, part, start)
        free, fixed = self._free_and_fixed(theta, names)
        counts = (weights != 0).any(axis=1)
        if value is not None and self._few(theta, names):
            wanted = {name: np.ones((1, *np.shape(theta[name]))) for name in names}
            along = _likelihood.entries_along(wanted, free)
            terms, by_entry = self._scores(free, fixed, value, along)
            result = self._result(theta, value, state, terms, counts)
            slopes = finite_derivative(_likelihood.weighted_scores(by_entry, weights))
            leaves = _likelihood.leaf_by_leaf(slopes, free)
            return result, {name: leaves[name] for name in names}
        data = self._with_priors(theta, value)
        pulled = _likelihood.pull(self._problem, free, fixed, value, data, self._filled(weights))
        if value is None:  # small, and asked for next where a search begins
            self._pulled = theta, weights, pulled.stage, pulled.back
        result = self._result(theta, value, state, pulled.terms, counts)
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
        theta = self.space.checked_numbers(theta)
        if self._pulled is None or not _same(self._pulled, theta, weights):
            self.pull(theta, weights, tuple(directions), part=part)
        assert self._pulled is not None
        (_, _, stage, back), self._pulled = self._pulled, None
        data = self._with_priors(theta, None)
        free, fixed = self._free_and_fixed(theta, tuple(directions))
        along = _likelihood.entries_along(directions, free)
        moves = self._moves(self._problem, free, fixed, None, data, along).stage
        return complete_information(stage, back, moves, along)

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
        theta, value, state = self._solved(theta, part, start)
        free, fixed = self._free_and_fixed(theta, tuple(directions))
        along = _likelihood.entries_along(directions, free)
        terms, by_entry = self._scores(free, fixed, value, along)
        derivatives = _along_each(along, by_entry)
        result = self._result(theta, value, state, terms, among)
        if among is not None:
            derivatives = np.where(among[:, None, None], derivatives, 0.0)
        return result, finite_derivative(derivatives)

    def _scores(
        self, free: dict, fixed: dict, value: Array | None, along: Float[np.ndarray, "p e"]
    ) -> tuple[Terms, Float[np.ndarray, "e N 2"]]:
        """The terms, and agents' derivatives by entry; of small panels those found last are kept.

        A search asks for a slope, and often for the scores there next.
        """
        if self._scored is not None and self._scored[0].same(free, fixed, value, along):
            return self._scored[1:]
        data = self._with_priors(free | fixed, value)
        moves = self._moves(self._problem, free, fixed, value, data, along)
        self._moved = ValueMoves(free, fixed, value, along, moves.value)
        terms, by_entry = _likelihood.push(self._problem, free | fixed, value, data, moves)
        by_entry = by_entry[:, : self.panel.agent_count]
        if self.panel.z.size <= _FEW_ROWS:
            self._scored = ValueMoves(free, fixed, value, along, None), terms, by_entry
        return terms, by_entry

    def _few(self, theta: Theta, names: tuple[str, ...]) -> bool:
        """Whether all scores in these leaves are had in less time than one slope."""
        entries = sum(np.size(theta[name]) for name in names)
        return entries <= _FEW and self.panel.z.size <= _FEW_ROWS

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
        theta, value, _ = self._solved(theta, part, start)
        free, fixed = self._free_and_fixed(theta, tuple(directions))
        by_entry = None
        if value is not None:
            by_entry = self._value_moves(free, fixed, value, directions)
        arguments = self._with_priors, self._filled(weights), directions, steps, by_entry
        return curvature(self._problem, free, fixed, value, *arguments)

    def _moves(self, problem, free, fixed, value, data, along) -> Moves:  # type: ignore[no-untyped-def]
        """Moves along entries; found once a theta for all panels that share them."""
        here = problem, free, fixed, value, data, along
        if self._shared_moves is None or self.prior.needs_policy:  # x0 then moves panel by panel
            return _likelihood.unit_moves(*here)
        return self._shared_moves.at(*here)

    def _value_moves(
        self,
        free: dict[str, Array],
        fixed: dict[str, Array],
        value: Array,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
    ) -> Float[Array, "e C *H Z n c"] | None:
        """How the value moves along entries; handed on by the scores that were taken here."""
        along = _likelihood.entries_along(directions, free)
        known, self._moved = self._moved, None  # large, and of no use elsewhere
        if known is not None and known.serves(free, fixed, value, along):
            return known.by_entry
        data = self._with_priors(free | fixed, value)
        return _likelihood.unit_moves(self._problem, free, fixed, value, data, along).value

    def push_rows(
        self,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        *,
        part: Part = Part.BOTH,
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N T 2 p"]]:
        """The terms, and the derivative of every single one of them along each direction."""
        theta, value, state = self._solved(theta, part, None)
        data = self._with_priors(theta, value)
        free, fixed = self._free_and_fixed(theta, tuple(directions))
        along = _likelihood.entries_along(directions, free)
        here = (self._problem, free, fixed, value, data, along)
        moves = _likelihood.unit_moves(*here)
        terms, by_entry = _likelihood.push(self._problem, theta, value, data, moves, by_row=True)
        derivatives = _along_each(along, by_entry[:, : self.panel.agent_count])
        return self._result(theta, value, state, terms), finite_derivative(derivatives)

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
        """The terms (with the beliefs) and pi(. | z, x) in every row."""
        terms = self.terms(theta, start=start)
        theta = self.space.check(theta)
        assert terms.start is not None
        scene, _ = _scene_and_priors(self._problem, theta, terms.start, self._data)
        belief = filled(jnp.asarray(terms.belief), self._data.panel.z.shape[0])
        choices = np.asarray(_choices(scene, self._data.panel, belief))
        return terms, choices[: self.panel.agent_count]

    def simulate(self, theta: Theta, seed: int) -> Panel:
        """A panel with the same agents, lengths, first observations and covariates."""
        theta, value, _ = self._solved(theta, Part.BOTH, None)
        assert value is not None
        data = self._with_priors(theta, value)
        scene, x0 = _scene_and_priors(self._problem, theta, value, data)
        panel = data.panel
        first, key = panel.z[:, 0], jax.random.key(seed)
        z, a, _, _ = simulate_paths(scene, x0, first, panel.context, panel.epoch, key)
        there = self.panel.agent_count
        return self.panel.replaced(np.asarray(z)[:there, :-1], np.asarray(a)[:there], seed)

    def _filled(self, weights: Float[np.ndarray, "N 2"]) -> Float[Array, "M 2"]:
        """Weights of all rows of the data: nobody, who fills up the devices, has none."""
        more = self._data.panel.z.shape[0] - len(weights)
        return jnp.asarray(np.pad(weights, ((0, more), (0, 0))) if more else weights)

    def _free_and_fixed(self, theta: Theta, names: tuple[str, ...]) -> tuple[dict, dict]:
        """All leaves that are free, whichever are asked for: so that a fit compiles once."""
        free = {name: theta[name] for name in {*self.space.free_leaves, *names}}
        return free, {name: leaf for name, leaf in theta.items() if name not in free}

    @functools.cached_property
    def _directions(self) -> dict[str, np.ndarray]:
        return self.space.free_directions()

    def _look_up_moves(self, kernels: list[Kernel]) -> None:
        """Find each row's matrix, unless the successors are still those of the theta before."""
        successors = [np.asarray(kernel.successors) for kernel in kernels]
        if self._successors is None or not all(map(np.array_equal, self._successors, successors)):
            self._successors = successors
            self._data = self._data._replace(moves=_find_moves(kernels, self._data.panel))

    def _with_priors(self, theta: Theta, value: Array | None) -> Data:
        """The data; where each agent has a prior of its own, with the best one at this theta."""
        if not self.prior.by_agent:
            return self._data
        return self._data._replace(prior=best_priors(self._problem, theta, value, self._data))

    def _solved(
        self, theta: Theta, part: Part, start: Array | None
    ) -> tuple[dict[str, np.ndarray], Array | None, SolverState | None]:
        """theta after all checks, and the value of every context there (if a part needs it)."""
        theta, primitives = self._checked(theta)
        if Part.CHOICE not in part and not self.prior.needs_policy:
            return theta, None, None
        states = []
        for k, here in enumerate(primitives):
            warm = None if start is None else start[k]
            state = solved_state(here, self.grid, self._solver, self._problem.plan, warm)
            outcome(state, self._solver, throw=True)
            states.append(state)
        worst = max(states, key=lambda state: float(state.residual))
        return theta, jnp.stack([state.coefficients for state in states]), worst

    def _checked(self, theta: Theta) -> tuple[dict[str, np.ndarray], list[Primitives]]:
        """theta after all checks, and the primitives of every context there."""
        theta = self.space.checked_numbers(theta)
        own = {name: theta[name] for name in self._own.parameters}
        contexts = [dict(zip(self._covariates, row, strict=True)) for row in self._context_rows]
        # What is read from the panel has not been checked with theta.
        thetas = [self._own.checked_numbers({**own, **w}) if w else own for w in contexts]
        primitives = [sound_primitives(self.model, each) for each in thetas]
        self._look_up_moves([here.kernel for here in primitives])
        return theta, primitives

    @property
    def _context_rows(self) -> list[tuple]:
        return list(zip(*self._covariates.values(), strict=True)) if self._covariates else [()]

    def _result(
        self,
        theta: Theta,
        value: Array | None,
        state: SolverState | None,
        terms: Terms,
        weighed: np.ndarray | None = None,
    ) -> LogLikelihood:
        """The terms, refused where an agent that counts has none."""
        there = self.panel.agent_count
        observation, choice, belief = (np.asarray(part)[:there] for part in terms)
        counts = np.ones(there, dtype=bool) if weighed is None else weighed
        refuse_lost(self.panel, belief, counts)
        if np.isneginf(observation[counts]).any():
            why = lambda: self._explain(theta, observation, belief, counts)
            raise ImpossibleObservationError(why)
        refuse_not_finite(self.panel, observation, choice, counts)
        return LogLikelihood(
            observation,
            choice,
            belief,
            self.panel,
            0.0 if state is None else float(state.residual),
            0 if state is None else int(state.steps),
            value,
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


def _same(known: tuple, theta: Theta, weights: np.ndarray) -> bool:
    there, weighed = known[:2]
    same = all(np.array_equal(there[name], leaf) for name, leaf in theta.items())
    return same and np.array_equal(weighed, weights)


@program(scatters=True)
def _find_moves(kernels: list[Kernel], panel: PanelArrays) -> Int[Array, "T N"]:
    side_by_side = jax.tree.map(lambda *leaves: jnp.stack(leaves), *kernels)
    return find_moves(stacked_kernel(side_by_side), panel)


@eqx.filter_jit
def _scene_and_priors(
    problem: Problem, theta: Theta, value: Array, data: Data
) -> tuple[Scene, Float[Array, "N S"]]:
    stage = problem.stage(problem.ground(theta, data, with_choices=True), value, data)
    assert stage.scene is not None
    return stage.scene, jnp.broadcast_to(stage.x0, (data.panel.z.shape[0], stage.kernel.states))


@eqx.filter_jit
def _choices(scene: Scene, panel: PanelArrays, belief: Array) -> Float[Array, "N T A"]:
    epoch = scene.epoch(panel.epoch)
    return jnp.exp(scene.log_choice(panel.context, panel.z, belief, epoch))
