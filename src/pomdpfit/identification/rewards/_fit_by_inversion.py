"""fit_by_inversion(): reward parameters from data without solving for a policy.

Dynamics from the observations alone, beliefs along the panel, flexible choice probabilities on
them, the inversion of those, and the model's reward parameters that come nearest.
"""

import dataclasses
import warnings
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._errors import ConvergenceWarning, EstimationError, PomdpfitError
from pomdpfit._evaluate import Likelihood
from pomdpfit._labels import action_names
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._model import Model, checked_primitives
from pomdpfit._panel import Panel
from pomdpfit._parallel import run_all
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._schemes import AbstractScheme
from pomdpfit._setting import Setting
from pomdpfit._track_beliefs import filter_beliefs
from pomdpfit._types import ArrayLike, Float, Theta
from pomdpfit.estimators import TwoStage
from pomdpfit.estimators._naming import Naming
from pomdpfit.estimators._paths import Path, run_path
from pomdpfit.estimators._race import run_paths
from pomdpfit.estimators._starts import starting_points
from pomdpfit.identification.rewards._first_stage import ChoiceLogit, Choices, PolynomialLogit
from pomdpfit.identification.rewards._inversion_estimate import InversionEstimate
from pomdpfit.identification.rewards._node_policy import log_choice_at_nodes
from pomdpfit.identification.rewards._projection import Projection, Recovery, project_rewards
from pomdpfit.identification.rewards._reward_inversion import action_number, invert_rewards
from pomdpfit.solvers import make_plan


@dataclasses.dataclass(frozen=True, eq=False)
class _Task:
    """Everything but theta and the weights of agents."""

    model: Model
    panel: Panel
    prior: AbstractPrior | None
    space: ParameterSpace
    rewards: tuple[str, ...]
    reference: int
    first_stage: PolynomialLogit
    grid: AbstractScheme

    def likelihood(self, theta: Theta) -> AbstractLikelihood:
        """The panel's, with the rewards held: of two stages only the first has leaves to move."""
        setting = Setting(self.model, self.panel, self.prior, self.grid)
        held = {n: theta[n] for n, p in self.space.parameters.items() if p.fixed}
        return setting.likelihood(self.space.fix({**held, **{n: theta[n] for n in self.rewards}}))


@long_running
def fit_by_inversion(
    model: Model,
    panel: Panel,
    *,
    reference: str | int,
    prior: AbstractPrior | None = None,
    first_stage: PolynomialLogit | None = None,
    dynamics: Theta | None = None,
    fixed: Mapping[str, ArrayLike | float] | None = None,
    start: Theta | None = None,
    starts: int | None = None,
    grid: AbstractScheme | None = None,
    replicates: int = 0,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> InversionEstimate:
    """Estimate reward parameters by inverting choice probabilities; nothing is solved for.

    reference    an action that can be taken everywhere; its reward need not be known if it follows
                 from the model's parameters, which are estimated, or is held by `fixed`
    first_stage  the flexible choice probabilities, pf.PolynomialLogit() if not given
    dynamics     theta whose dynamics are taken as known (another fit's `theta`, say); None to
                 estimate them from the observations alone, from `start` and `starts` as in pf.fit
    replicates   how many times to do all of it again on resampled agents, for standard errors;
                 dynamics that were given stay as they are
    n_jobs       processes for starts and replicates, as in pf.bootstrap
    """
    likelihood = Likelihood(model, panel, prior=prior, grid=grid)
    space = likelihood.space.fix(dict(fixed or {}))
    if space.covariates:
        raise EstimationError(
            f"the model reads {space.covariates[0]!r} from the panel: invert each of its values by "
            "itself, on the agents that have it."
        )
    TwoStage().check(likelihood, None)
    rewards = tuple(n for n in space.free_leaves if n not in likelihood.dynamics)
    if not rewards:
        raise EstimationError("the model has no free reward parameters: there is nothing to find.")
    theta: Theta = space.check({**space.example(), **(start or {}), **_arrays(fixed)})
    sketch = checked_primitives(model, {n: theta[n] for n in model.space().parameters})
    labels = action_names(model, sketch.actions)
    task = _Task(
        model,
        panel,
        prior,
        space,
        rewards,
        action_number(reference, labels, sketch),
        PolynomialLogit() if first_stage is None else first_stage,
        likelihood.grid,
    )
    if dynamics is not None:
        for n in sorted(likelihood.dynamics & dynamics.keys() & (fixed or {}).keys()):
            if not np.array_equal(dynamics[n], theta[n]):
                raise EstimationError(
                    f"dynamics and fixed give {n} different values: leave one out."
                )
        moved = {n: leaf for n, leaf in dynamics.items() if n not in (*rewards, *(fixed or {}))}
        theta = space.check({**theta, **moved})
    else:
        theta = _fit_dynamics(task, theta, starts, seed, n_jobs, progress)
    logit, choices, found = _from_dynamics(task, theta, None)
    known = dynamics is not None
    draws = _draws(task, found.theta, known, replicates, seed, n_jobs, progress)
    return _result(task, logit, choices, found, draws, known, seed)


def _arrays(fixed: Mapping[str, ArrayLike | float] | None) -> dict[str, np.ndarray]:
    return {name: np.asarray(value, dtype=float) for name, value in (fixed or {}).items()}


def _fit_dynamics(
    task: _Task,
    theta: Theta,
    starts: int | None,
    seed: int,
    n_jobs: int | None,
    progress: Progress | bool | None,
) -> dict[str, np.ndarray]:
    """theta with the dynamics that make the observations most likely."""
    likelihood = task.likelihood(theta)
    if not likelihood.space.free_leaves:
        return {name: np.asarray(leaf) for name, leaf in theta.items()}
    tell = callback(progress)
    paths = starting_points(likelihood, None, theta, starts, seed)
    ended = run_paths(likelihood, TwoStage(), paths, None, Naming(), n_jobs, tell)
    best = max(ended, key=lambda path: path.climbs[-1].value)
    if not best.alive:
        raise EstimationError(
            "no start has a finite likelihood of the observations: see pf.impossible_transitions."
        )
    last = best.climbs[-1]
    if not last.converged:
        doubt = f"the dynamics may not be the best ones. {last.result.advice()}"
        warnings.warn(doubt, ConvergenceWarning, stacklevel=4)  # past long_running
    return dict(best.theta)


def _from_dynamics(
    task: _Task, theta: Theta, weights: Float[np.ndarray, "N"] | None
) -> tuple[ChoiceLogit, Choices, Projection]:
    """Beliefs, choice probabilities, inversion and projection, at these dynamics."""
    own = {n: theta[n] for n in task.model.space().parameters}
    primitives = checked_primitives(task.model, own)
    choices = _choices(task, theta, primitives.horizon)
    each = np.ones(len(choices.a)) if weights is None else weights[choices.agent]
    logit = task.first_stage.fit(primitives, choices, each)
    where = (
        jnp.asarray(choices.z),
        jnp.asarray(choices.x),
        None if choices.t is None else jnp.asarray(choices.t),
    )
    recovery = Recovery(
        task.model,
        {n: jnp.asarray(leaf) for n, leaf in own.items()},
        log_choice_at_nodes(logit, primitives, task.grid),
        *where,
        logit.policy(*where),
        jnp.asarray(each),
        jnp.asarray(task.reference),
        task.grid,
        make_plan(primitives.kernel),
    )
    found = project_rewards(recovery, task.space, task.rewards)
    rest = {n: np.asarray(leaf) for n, leaf in theta.items()}
    return logit, choices, dataclasses.replace(found, theta={**rest, **found.theta})


def _choices(task: _Task, theta: Theta, horizon: int | None) -> Choices:
    """The scored choices with the agents' beliefs."""
    panel = task.panel
    beliefs = filter_beliefs(task.model, theta, panel, prior=task.prior)
    i, t = np.nonzero(panel.score_choice)
    epoch = None if horizon is None else panel.entry[i] + t
    return Choices(panel.z[i, t], beliefs.x[i, t], panel.a[i, t], epoch, i)


# ---- resampled agents --------------------------------------------------------------------------


def _draws(
    task: _Task,
    theta: Theta,
    known: bool,
    replicates: int,
    seed: int,
    n_jobs: int | None,
    progress: Progress | bool | None,
) -> pd.DataFrame | None:
    """The estimate on `replicates` resamples of agents, NaN where it could not be had."""
    if replicates == 0:
        return None
    if replicates < 2:
        raise EstimationError(f"standard errors need at least 2 replicates, not {replicates}.")
    tell = callback(progress)
    tasks = ((theta, known, seed, b) for b in range(replicates))
    heard = lambda done: tell("resamples of agents", done, replicates)
    rows = run_all(_replicate, (task,), tasks, n_jobs, heard)
    names = task.space.only(task.rewards).names
    return pd.DataFrame(rows, pd.RangeIndex(replicates, name="replicate"), names)


def _replicate(task: _Task, theta: Theta, known: bool, seed: int, b: int) -> np.ndarray:
    agents = task.panel.agent_count
    rng = np.random.default_rng([seed, b])
    weights = rng.multinomial(agents, np.full(agents, 1.0 / agents)).astype(float)
    rewards = task.space.only(task.rewards)
    try:
        if not known:
            start = Path((str(b),), {n: np.asarray(leaf) for n, leaf in theta.items()})
            theta = run_path(task.likelihood(theta), TwoStage(), start, None, weights).theta
        found = _from_dynamics(task, theta, weights)[2]
    except PomdpfitError:  # one bad resample must not cost the others; it is counted
        return np.full(len(rewards.names), np.nan)
    return rewards.to_series(found.theta).to_numpy()


def _result(
    task: _Task,
    logit: ChoiceLogit,
    choices: Choices,
    found: Projection,
    draws: pd.DataFrame | None,
    known: bool,
    seed: int,
) -> InversionEstimate:
    own = {n: found.theta[n] for n in task.model.space().parameters}
    inversion = invert_rewards(
        task.model, own, reference=task.reference, policy=logit, grid=task.grid
    )
    table = log_choice_at_nodes(logit, inversion.values.primitives, task.grid)[..., 0]
    return InversionEstimate(
        params=task.space.only(task.rewards).to_series(found.theta).rename("estimate"),
        theta={name: np.asarray(leaf) for name, leaf in found.theta.items()},
        inversion=inversion,
        first_stage=logit,
        method=task.first_stage,
        unexplained=found.unexplained,
        steps=found.steps,
        nobs=len(choices.a),
        least=float(jnp.exp(jnp.min(jnp.where(jnp.isneginf(table), 0.0, table)))),
        dynamics_known=known,
        draws=draws,
        seed=seed,
    )
