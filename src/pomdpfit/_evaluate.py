"""The likelihood of a panel, its gradient and its per-agent scores, as users call them."""

import dataclasses
import functools

import numpy as np
import pandas as pd

from pomdpfit import _likelihood
from pomdpfit._errors import ImpossibleObservationError, PanelError, SolveError
from pomdpfit._impossible import explain_impossible
from pomdpfit._model import Model, checked_primitives
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, prior_or_default
from pomdpfit._schemes import AbstractScheme
from pomdpfit._solve import checked_grid, finite_derivative, outcome, solved_state
from pomdpfit._types import Array, Float, Theta
from pomdpfit.solvers import AbstractSolver, Newton, SolverState, make_plan


@dataclasses.dataclass(frozen=True, eq=False)
class LogLikelihood:
    """Terms by agent and period: `observation[i, t]` scores z_{t+1}, `choice[i, t]` scores a_t."""

    observation: Float[np.ndarray, "N T"]
    choice: Float[np.ndarray, "N T"]
    belief: Float[np.ndarray, "N T S"]
    panel: Panel
    residual: float
    steps: int
    start: Array = dataclasses.field(repr=False)

    @property
    def total(self) -> float:
        """The log-likelihood."""
        return float(self.observation.sum() + self.choice.sum())

    @property
    def by_agent(self) -> pd.DataFrame:
        """Observation part, choice part and their sum for each agent."""
        frame = pd.DataFrame(
            {"observation": self.observation.sum(axis=1), "choice": self.choice.sum(axis=1)},
            index=pd.Index(self.panel.agents, name="agent"),
        )
        return frame.assign(total=frame.sum(axis=1))

    def to_frame(self) -> pd.DataFrame:
        """The panel's rows with their terms and beliefs."""
        beliefs = {f"x({s})": self.belief[..., s] for s in range(self.belief.shape[-1])}
        return self.panel.to_frame(
            log_observation=self.observation, log_choice=self.choice, **beliefs
        )


class Likelihood:
    """The log-likelihood of one panel as a function of theta, compiled once.

    Results carry `start`; handing it to the next call saves most of the work of the solver.
    """

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
        self.model, self.panel = model, panel
        own = model.space() if space is None else space
        self._own = own
        sketch = checked_primitives(model, own.example(), own)
        self.prior = prior_or_default(prior, sketch.states)
        self.space = own | self.prior.space(sketch.states)
        self._data = self.prior.data(panel.agents, sketch.states)
        panel.check(sketch)
        self._arrays = panel.arrays()
        self.grid = checked_grid(sketch, grid)
        self._solver = Newton() if solver is None else solver
        self._problem = _likelihood.Problem(
            model, self.prior.rule(), self.grid, make_plan(sketch.kernel)
        )

    def __call__(self, theta: Theta, *, start: Array | None = None) -> LogLikelihood:
        """The terms at theta."""
        theta, state = self._solved(theta, start)
        terms = _likelihood.evaluate(
            self._problem, theta, state.coefficients, self._arrays, self._data
        )
        return self._result(theta, state, terms)

    def gradient(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, pd.Series]:
        """The terms and the gradient of the total in the free natural parameters."""
        theta, state = self._solved(theta, start)
        free = {n: theta[n] for n, p in self.space.parameters.items() if not p.fixed}
        fixed = {n: theta[n] for n, p in self.space.parameters.items() if p.fixed}
        terms, gradient = _likelihood.gradient(
            self._problem, free, fixed, state.coefficients, self._arrays, self._data
        )
        vector = finite_derivative(self.space.gradient_vector(gradient))
        series = pd.Series(vector, self.space.free_names, name="score")
        return self._result(theta, state, terms), series

    def scores(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, pd.DataFrame]:
        """The terms and each agent's score (rows) in the free natural parameters (columns)."""
        theta, state = self._solved(theta, start)
        terms, scores = _likelihood.scores(
            self._problem,
            self._directions,
            theta,
            state.coefficients,
            self._arrays,
            self._data,
        )
        frame = pd.DataFrame(
            finite_derivative(scores),
            index=pd.Index(self.panel.agents, name="agent"),
            columns=self.space.free_names,
        )
        return self._result(theta, state, terms), frame

    @functools.cached_property
    def _directions(self) -> dict[str, np.ndarray]:
        return self.space.directions()

    def _solved(self, theta: Theta, start: Array | None) -> tuple[dict[str, Array], SolverState]:
        """theta after all checks, and the value there."""
        theta = self.space.check(theta)
        own = {name: theta[name] for name in self._own.parameters}
        primitives = checked_primitives(self.model, own, self._own)
        state = solved_state(primitives, self.grid, self._solver, self._problem.plan, start)
        outcome(state, self._solver, throw=True)
        return theta, state

    def _result(self, theta: Theta, state: SolverState, terms: _likelihood.Terms) -> LogLikelihood:
        observation = np.asarray(terms.observation)
        if np.isneginf(observation).any():
            raise ImpossibleObservationError(self._explain(theta, terms))
        choice = np.asarray(terms.choice)
        if not (np.isfinite(observation).all() and np.isfinite(choice).all()):
            i, t = np.argwhere(~(np.isfinite(observation) & np.isfinite(choice)))[0]
            raise SolveError(
                f"agent {self.panel.agents[i]!r}, time {self.panel.times[i, t]}: the likelihood is "
                "not a number. Check theta for extreme values."
            )
        return LogLikelihood(
            observation,
            choice,
            np.asarray(terms.belief),
            self.panel,
            float(state.residual),
            int(state.steps),
            state.coefficients,
        )

    def _explain(self, theta: Theta, terms: _likelihood.Terms) -> str:
        primitives = self.model.primitives(theta)
        return explain_impossible(
            primitives, self.panel, np.asarray(terms.observation), np.asarray(terms.belief)
        )


def log_likelihood(
    model: Model,
    theta: Theta,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
) -> LogLikelihood:
    """The log-likelihood of a panel at theta, by agent and period."""
    return Likelihood(model, panel, prior=prior, grid=grid, solver=solver)(theta)


def score(
    model: Model,
    theta: Theta,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    space: ParameterSpace | None = None,
) -> pd.Series:
    """The gradient of the log-likelihood in the free natural parameters."""
    likelihood = Likelihood(model, panel, prior=prior, grid=grid, solver=solver, space=space)
    return likelihood.gradient(theta)[1]


def score_obs(
    model: Model,
    theta: Theta,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    space: ParameterSpace | None = None,
) -> pd.DataFrame:
    """Each agent's contribution to the score: one row an agent, one column a free parameter."""
    likelihood = Likelihood(model, panel, prior=prior, grid=grid, solver=solver, space=space)
    return likelihood.scores(theta)[1]
