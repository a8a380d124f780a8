"""The likelihood of a panel, its gradient and its per-agent scores, as users call them."""

import dataclasses

import numpy as np
import pandas as pd

from pomdpfit import _likelihood
from pomdpfit._errors import ImpossibleObservationError, ModelError, PanelError, SolveError
from pomdpfit._fixed_point import cold_start
from pomdpfit._impossible import explain_impossible
from pomdpfit._model import Model, checked_primitives
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, prior_or_default
from pomdpfit._schemes import AbstractScheme
from pomdpfit._solve import checked_grid, outcome, plan_for
from pomdpfit._types import Array, Float, Theta
from pomdpfit.solvers import AbstractSolver, Newton, SolverState


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
        self._model_names = tuple(own.parameters)
        sketch = checked_primitives(model, own.example(), own)
        self.prior = prior_or_default(prior, sketch.states)
        self.space = own | self.prior.space(sketch.states)
        self._data = self.prior.data(panel.agents, sketch.states)
        panel.check(sketch)
        self._arrays = panel.arrays()
        self.grid = checked_grid(sketch, grid)
        solver = Newton() if solver is None else solver
        self._problem = _likelihood.Problem(
            model, self.prior.rule(), self.grid, solver, plan_for(sketch)
        )
        self._cold = cold_start(sketch, self.grid)

    def __call__(self, theta: Theta, *, start: Array | None = None) -> LogLikelihood:
        """The terms at theta."""
        theta = self._checked(theta)
        state = self._solved(theta, start)
        terms = _likelihood.evaluate(
            self._problem, theta, state.coefficients, self._arrays, self._data
        )
        return self._result(theta, state, terms)

    def gradient(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, pd.Series]:
        """The terms and the gradient of the total in the free natural parameters."""
        theta = self._checked(theta)
        free = {n: theta[n] for n, p in self.space.parameters.items() if not p.fixed}
        fixed = {n: theta[n] for n, p in self.space.parameters.items() if p.fixed}
        state = self._solved(theta, start)
        terms, gradient = _likelihood.gradient(
            self._problem, free, fixed, state.coefficients, self._arrays, self._data
        )
        vector = np.asarray(self.space.gradient_vector(gradient))
        series = pd.Series(vector, self.space.free_names, name="score")
        return self._result(theta, state, terms), series

    def scores(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, pd.DataFrame]:
        """The terms and each agent's score (rows) in the free natural parameters (columns)."""
        theta = self._checked(theta)
        state, directions = self._solved(theta, start), self.space.directions()
        terms, scores = _likelihood.scores(
            self._problem, directions, theta, state.coefficients, self._arrays, self._data
        )
        frame = pd.DataFrame(
            np.asarray(scores),
            index=pd.Index(self.panel.agents, name="agent"),
            columns=self.space.free_names,
        )
        return self._result(theta, state, terms), frame

    def _solved(self, theta: Theta, start: Array | None) -> SolverState:
        """The value at theta, or an error that says how far the solver came."""
        finite = self.model.horizon() is not None
        if start is None or finite:
            start = self._cold
        if start.shape != self._cold.shape:
            raise ModelError(f"start must have shape {self._cold.shape}, not {start.shape}.")
        state = _likelihood.solve(self._problem, theta, start)
        if not finite:
            outcome(state, self._problem.solver, throw=True)
        return state

    def _checked(self, theta: Theta) -> dict[str, Array]:
        theta = self.space.check(theta)
        own = {name: theta[name] for name in self._model_names}
        checked_primitives(
            self.model, own, ParameterSpace({n: self.space.parameters[n] for n in own})
        )
        return theta

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
