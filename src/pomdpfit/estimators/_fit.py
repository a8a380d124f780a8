"""fit(): from a panel to an estimate, with its rivals and its doubts."""

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, cast

import numpy as np
import pandas as pd

from pomdpfit._batch import chosen_width
from pomdpfit._errors import (
    ConvergenceWarning,
    EstimationError,
    ModelError,
    SolveError,
)
from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import fingerprint
from pomdpfit._fixed import refuse_fixed_and_free, split_fixed
from pomdpfit._identical_states import warn_of_identical_states
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._panel import Panel
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._restrictions import Restrictions, parse_restrictions
from pomdpfit._schemes import AbstractScheme
from pomdpfit._setting import Setting
from pomdpfit._types import ArrayLike, Theta
from pomdpfit._version import __version__
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._finish import finish
from pomdpfit.estimators._joint import Joint
from pomdpfit.estimators._kept_search import open_search
from pomdpfit.estimators._modes import rank
from pomdpfit.estimators._naming import Naming, align_paths, find_naming
from pomdpfit.estimators._paths import Path
from pomdpfit.estimators._race import run_paths
from pomdpfit.estimators._starts import draw_starts, starting_points
from pomdpfit.programs import preparing
from pomdpfit.solvers import AbstractSolver
from pomdpfit.streaming import PanelScan


@long_running
def fit(
    model: Any,
    panel: Panel | PanelScan,
    estimator: AbstractEstimator | None = None,
    *,
    prior: AbstractPrior | None = None,
    start: Theta | None = None,
    starts: int | Sequence[Theta] | Mapping[str, Theta] | None = None,
    fixed: Mapping[str, ArrayLike | float] | None = None,
    free: Sequence[str] = (),
    constraints: str | Sequence[str] = (),
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    batch: int | None = None,
    skip_hessian: bool = False,
    checkpoint: str | FilePath | None = None,
    progress: Progress | bool | None = None,
) -> Estimate:
    """Estimate a model (with hidden states, or a fully observed `baselines.MDP`) from a panel.

    estimator    pf.Joint() (default), pf.TwoStage() or pf.SoftPolicyGradient()
    start        where to start; the model's example if not given, missing leaves likewise; what it
                 gives for parameters in `fixed` is not used
    starts       how many points to start from in all (5 with hidden states, else 1), drawn far and
                 wide; or points of your own, a list or a mapping from a name, tried beside
                 `start` and the drawn ones
    fixed, free  parameters held at a value (a leaf, or an entry such as "cost[good]"), and fixed
                 ones let go (the discount)
    constraints  linear equations such as "cost[good] = cost[bad]"
    n_jobs       processes for the starts, as in `bootstrap`; `seed` draws them
    batch        in one process: how many starts one compiled program answers side by side. If not
                 given: 1 on a CPU (a program for batches takes longer to compile than it saves);
                 on other devices as many as memory holds
    skip_hessian no second derivatives, which cost two gradients a parameter: standard errors are
                 then those of outer products, and that this is a maximum rests on the gradient
    checkpoint   a folder that keeps climbs, finished and under way: after an interruption the same
                 call goes on from there, to the same estimate (but for the last digits where
                 starts are answered in batches); other data, model or options are refused
    progress     shown on the standard error if not given: a bar on a terminal or in a notebook,
                 elsewhere a line each ten seconds once the fit has lasted for five. False for
                 silence, or a callback that receives (what, done, total)

    What came out of every start is in `modes` and `starts` of the result.
    """
    began = time.perf_counter()
    tell = callback(progress)
    estimator = Joint() if estimator is None else estimator
    if not isinstance(estimator, AbstractEstimator):
        raise EstimationError(
            f"the estimator must be an object such as pf.TwoStage(), not {estimator!r}."
        )
    setting = Setting(model, cast(Panel, panel), prior, grid, solver, estimator)
    likelihood, restrictions = prepare(setting, fixed or {}, free, constraints)
    estimator.check(likelihood, restrictions)
    n_jobs = likelihood.take_jobs(n_jobs)
    space = likelihood.space
    if all(p.fixed for p in space.parameters.values()):
        held = [name for name in space.parameters if name not in space.covariates]
        raise EstimationError(
            "every parameter is fixed: there is nothing to estimate. Let one go with free=[...] "
            f"(--free NAME): {', '.join(held)}."
        )
    paths = starting_points(likelihood, restrictions, start, starts, seed, fixed or ())
    width = chosen_width(likelihood, len(paths), n_jobs, batch)
    given = {"start": start, "starts": starts, "fixed": fixed or {}, "free": list(free)}
    given |= {"constraints": [constraints] if isinstance(constraints, str) else list(constraints)}
    given |= {"seed": int(seed), "batch": batch}
    kept = None
    if checkpoint is not None:  # defaults are the same as what they stand for
        used = dataclasses.replace(setting, grid=getattr(likelihood, "grid", grid))
        own = isinstance(starts, Mapping | Sequence)
        asked = {**given, "start": {**model.example(), **(start or {})}, "batch": width}
        asked |= {"starts": starts if own else len(paths)}
        kept = open_search(checkpoint, used, asked, tell)
    drawn = lambda: draw_starts(space, paths[0].theta, 1, seed, restrictions)[0]
    warn_of_identical_states(likelihood, paths[0].theta, drawn)
    names = Naming()
    if len(paths) > 1 and restrictions is None:  # which might not hold under other names
        names = find_naming(likelihood, draw_starts(space, paths[0].theta, 1, seed)[0])
    with preparing():  # for the climbs and for second derivatives at their end
        ended = run_paths(
            likelihood, estimator, paths, restrictions, names, n_jobs, tell, width, kept
        )
        alive = [path for path in ended if path.alive]
        if not alive:
            raise EstimationError(_nothing_found(likelihood, paths))
        ranked = sorted(alive, key=lambda path: rank(path, estimator), reverse=True)
        ranked = align_paths(space, ranked, paths[0].theta, names)
        tell("standard errors", 0, 1)
        estimate = finish(
            likelihood, setting, restrictions, ranked, ended, paths, hessian=not skip_hessian
        )
    estimate = dataclasses.replace(
        estimate,
        fixed=tuple(fixed or ()),
        freed=tuple(free),
        seed=seed,
        arguments=plain(given | {"skip_hessian": skip_hessian}),
        seconds=time.perf_counter() - began,
        version=__version__,
        model_mark=fingerprint(model),
    )
    if likelihood.prior is not None and likelihood.prior.needs_policy:
        found = likelihood.terms(estimate.theta).prior_error
        estimate = dataclasses.replace(estimate, prior_error=found)
    tell("standard errors", 1, 1)
    for doubt in estimate.doubts:
        warnings.warn(doubt, ConvergenceWarning, stacklevel=3)  # past long_running
    return estimate


def plain(value: Any) -> Any:
    """Arguments as they were given, in lists, texts and numbers alone."""
    if isinstance(value, Mapping | pd.Series):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, str | None):
        return value
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return np.asarray(value).tolist()


def prepare(
    setting: Setting,
    fixed: Mapping[str, ArrayLike | float],
    free: Sequence[str],
    constraints: str | Sequence[str],
) -> tuple[AbstractLikelihood, Restrictions | None]:
    """The likelihood with its space, and the restrictions over all its entries."""
    likelihood = setting.likelihood()
    refuse_fixed_and_free(fixed, free)
    space = likelihood.space.free(*free)
    leaves, entries = split_fixed(space, fixed)
    single = [f"{name} = {value!r}" for name, value in entries.items()]
    space = space.fix(leaves)
    texts = [constraints] if isinstance(constraints, str) else list(constraints)
    if leaves or free:
        likelihood = setting.likelihood(space)
    if not (texts or single):
        return likelihood, None
    restrictions = parse_restrictions([*texts, *single], space.names)
    moves = np.isin(space.owners, space.free_leaves)
    for row, text in zip(restrictions.matrix, restrictions.texts, strict=True):
        if not row[moves].any():
            raise EstimationError(
                f"the restriction {text!r} names fixed parameters alone: let one go with "
                "free=[...], or give its value in fixed={...}."
            )
    return likelihood, restrictions


def _nothing_found(likelihood: AbstractLikelihood, paths: Sequence[Path]) -> str:
    """Why no start has a likelihood, in the words of the likelihood itself."""
    try:
        likelihood.terms(paths[0].theta)
    except (ModelError, SolveError, ValueError) as error:
        return f"no start has a finite likelihood. At the first one: {error}"
    return "no start could be climbed to a finite likelihood."
