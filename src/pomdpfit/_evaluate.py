"""The likelihood of a panel, its gradient and its per-agent scores, as users call them."""

import dataclasses

import jax
import numpy as np
import pandas as pd

from pomdpfit import _likelihood
from pomdpfit._errors import ImpossibleObservationError, ModelError, PanelError, SolveError
from pomdpfit._fixed_point import cold_start
from pomdpfit._model import Model, Primitives, checked_primitives
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, prior_or_default
from pomdpfit._schemes import AbstractScheme
from pomdpfit._solve import checked_grid, plan_for
from pomdpfit._types import Array, Float, Theta
from pomdpfit.solvers import AbstractSolver, Newton
from pomdpfit.solvers._base import enough


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
        terms = _likelihood.evaluate(self._problem, theta, *self._inputs(start))
        return self._result(theta, terms)

    def gradient(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, pd.Series]:
        """The terms and the gradient of the total in the free natural parameters."""
        theta = self._checked(theta)
        free = {n: theta[n] for n, p in self.space.parameters.items() if not p.fixed}
        fixed = {n: theta[n] for n, p in self.space.parameters.items() if p.fixed}
        terms, gradient = _likelihood.evaluate_with_gradient(
            self._problem, free, fixed, *self._inputs(start)
        )
        vector = np.asarray(self.space.gradient_vector(gradient))
        return self._result(theta, terms), pd.Series(vector, self.space.free_names, name="score")

    def scores(
        self, theta: Theta, *, start: Array | None = None
    ) -> tuple[LogLikelihood, pd.DataFrame]:
        """The terms and each agent's score (rows) in the free natural parameters (columns)."""
        theta = self._checked(theta)
        terms, scores = _likelihood.evaluate_with_scores(
            self._problem, self.space.directions(), theta, *self._inputs(start)
        )
        frame = pd.DataFrame(
            np.asarray(scores),
            index=pd.Index(self.panel.agents, name="agent"),
            columns=self.space.free_names,
        )
        return self._result(theta, terms), frame

    def _inputs(self, start: Array | None) -> tuple:
        if start is not None and start.shape != self._cold.shape:
            raise ModelError(f"start must have shape {self._cold.shape}, not {start.shape}.")
        return self._arrays, self._data, self._cold if start is None else start

    def _checked(self, theta: Theta) -> dict[str, Array]:
        theta = self.space.check(theta)
        own = {name: theta[name] for name in self._model_names}
        checked_primitives(
            self.model, own, ParameterSpace({n: self.space.parameters[n] for n in own})
        )
        return theta

    def _result(self, theta: Theta, terms: _likelihood.Terms) -> LogLikelihood:
        solver = self._problem.solver
        if not bool(enough(terms.residual, terms.coefficients, solver.tolerance)):
            raise SolveError(
                f"the soft Bellman equation was not solved at this theta: residual "
                f"{float(terms.residual):.3g} after {int(terms.steps)} steps."
            )
        observation = np.asarray(terms.observation)
        if np.isneginf(observation).any():
            raise ImpossibleObservationError(self._explain(theta, terms))
        return LogLikelihood(
            observation,
            np.asarray(terms.choice),
            np.asarray(terms.belief),
            self.panel,
            float(terms.residual),
            int(terms.steps),
            terms.coefficients,
        )

    def _explain(self, theta: Theta, terms: _likelihood.Terms) -> str:
        primitives = self.model.primitives(theta)
        return explain_impossible(
            primitives, self.panel, np.asarray(terms.observation), np.asarray(terms.belief)
        )


def explain_impossible(
    primitives: Primitives, panel: Panel, log_sigma: np.ndarray, belief: np.ndarray
) -> str:
    """Agent, period, and the probabilities that made the first impossible observation so."""
    bad = np.isneginf(log_sigma)
    i, t = np.argwhere(bad)[0]
    z, a, z_next = (jax.numpy.asarray(v) for v in (panel.z[i, t], panel.a[i, t], panel.z[i, t + 1]))
    matrix = np.asarray(primitives.kernel.transition(z, a, z_next))
    by_state = ", ".join(f"{p:.4g}" for p in matrix.sum(axis=1))
    x = ", ".join(f"{p:.4g}" for p in belief[i, t])
    agents = int(bad.any(axis=1).sum())
    return (
        f"agent {panel.agents[i]!r}, time {panel.times[i, t]}: the model gives probability zero to "
        f"z'={z_next} after z={z}, a={a}. P(z'|z, s, a) by hidden state is ({by_state}) and the "
        f"belief there is ({x}). Agents with such a transition: {agents}. Mend the data or the "
        "model, or leave such transitions out with "
        "panel.exclude_transitions(pf.impossible_transitions(model, theta, panel))."
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
    space: ParameterSpace | None = None,
) -> pd.Series:
    """The gradient of the log-likelihood in the free natural parameters."""
    return Likelihood(model, panel, prior=prior, grid=grid, space=space).gradient(theta)[1]


def score_obs(
    model: Model,
    theta: Theta,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    grid: AbstractScheme | None = None,
    space: ParameterSpace | None = None,
) -> pd.DataFrame:
    """Each agent's contribution to the score: one row an agent, one column a free parameter."""
    return Likelihood(model, panel, prior=prior, grid=grid, space=space).scores(theta)[1]


@in_float64
def impossible_transitions(model: Model, theta: Theta, panel: Panel) -> pd.DataFrame:
    """The transitions to which the model gives probability zero whatever the hidden state."""
    primitives = checked_primitives(model, theta)
    panel.check(primitives)
    i, t = np.nonzero(panel.continues & panel.acted)
    z, a, z_next = panel.z[i, t], panel.a[i, t], panel.z[i, t + 1]
    matrix = primitives.kernel.transition(*(jax.numpy.asarray(v) for v in (z, a, z_next)))
    bad = np.asarray(matrix).sum(axis=(1, 2)) == 0
    i, t = i[bad], t[bad]
    return pd.DataFrame(
        {
            "agent": [panel.agents[k] for k in i],
            "time": panel.times[i, t].tolist(),
            "z": z[bad],
            "a": a[bad],
            "z_next": z_next[bad],
        }
    )
