"""fit(): from a panel to an estimate, with its rivals and its doubts."""

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._entries import free_entries
from pomdpfit._errors import (
    ConvergenceWarning,
    EstimationError,
    ModelError,
    Result,
    SolveError,
)
from pomdpfit._estimate import Estimate
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, silent
from pomdpfit._restrictions import Restrictions, parse_restrictions
from pomdpfit._schemes import AbstractScheme
from pomdpfit._setting import Setting
from pomdpfit._types import ArrayLike, Theta
from pomdpfit._version import __version__
from pomdpfit.estimators import _modes
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._joint import Joint
from pomdpfit.estimators._paths import Path, run_paths
from pomdpfit.estimators._starts import draw_starts, feasible, off_the_bounds
from pomdpfit.inference._information import Information, information_at
from pomdpfit.solvers import AbstractSolver

_DEFAULT_STARTS = 5  # for a model with hidden states
_FLAT = 1e-10  # eigenvalue of the information in units of its diagonal


@in_float64
def fit(
    model: Any,
    panel: Panel,
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
    n_jobs: int = 1,
    skip_hessian: bool = False,
    progress: Progress | None = None,
) -> Estimate:
    """Estimate a model (with hidden states, or a fully observed `baselines.MDP`) from a panel.

    estimator    pf.Joint() (default), pf.TwoStage() or pf.SoftPolicyGradient()
    start        where to start; the model's example if not given, missing leaves likewise
    starts       how many points to start from in all (5 with hidden states, else 1), drawn far and
                 wide; or points of your own, a list or a mapping from a name, tried beside `start`
    fixed, free  parameters held at a value (a leaf, or an entry such as "cost[good]"), and fixed
                 ones let go (the discount)
    constraints  linear equations such as "cost[good] = cost[bad]"
    n_jobs       processes for the starts, as in joblib; `seed` draws them; `progress` hears of them
    skip_hessian no second derivatives, which cost two gradients a parameter: standard errors are
                 then those of outer products, and that this is a maximum rests on the gradient

    What came out of every start is in `modes` and `starts` of the result.
    """
    began = time.perf_counter()
    tell = silent if progress is None else progress
    estimator = Joint() if estimator is None else estimator
    if not isinstance(estimator, AbstractEstimator):
        raise EstimationError(
            f"the estimator must be an object such as pf.TwoStage(), not {estimator!r}."
        )
    setting = Setting(model, panel, prior, grid, solver, estimator)
    likelihood, restrictions = prepare(setting, fixed or {}, free, constraints)
    estimator.check(likelihood, restrictions)
    space = likelihood.space
    if all(p.fixed for p in space.parameters.values()):
        raise EstimationError("every parameter is fixed: there is nothing to estimate.")
    paths = _starting_points(likelihood, restrictions, start, starts, seed)
    labels = model.state_labels() if hasattr(model, "state_labels") else None
    orders = []
    if labels is not None and len(paths) > 1:
        orders = _modes.symmetries(
            likelihood, draw_starts(space, paths[0].theta, 1, seed)[0], labels
        )
    stages = estimator.stages(likelihood)

    def merge(moved: Sequence[Path], k: int) -> list[Path]:
        if not moved:
            return []
        best = max(moved, key=lambda path: path.climbs[-1].value)
        if orders:
            near = lambda path: _modes.align(space, path.theta, best.theta, orders, labels)
            moved = [dataclasses.replace(p, theta=near(p), warm=None) for p in moved]
        leaves = {leaf for stage in stages[: k + 1] for leaf in stage.leaves}
        return _modes.join_equal(space, moved, sorted(leaves))

    ended = run_paths(likelihood, estimator, paths, restrictions, merge, n_jobs, tell)
    alive = [path for path in ended if path.alive]
    if not alive:
        raise EstimationError(_nothing_found(likelihood, paths))
    ranked = sorted(alive, key=lambda path: _rank(path, estimator), reverse=True)
    ranked = _reference_labels(space, ranked, orders, labels, paths[0].theta)
    tell("standard errors", 0, 1)
    estimate = _finish(
        likelihood, setting, restrictions, ranked, ended, paths, hessian=not skip_hessian
    )
    estimate = dataclasses.replace(
        estimate,
        fixed=tuple(fixed or ()),
        freed=tuple(free),
        seed=seed,
        seconds=time.perf_counter() - began,
        version=__version__,
    )
    tell("standard errors", 1, 1)
    for doubt in estimate.doubts:
        warnings.warn(doubt, ConvergenceWarning, stacklevel=2)
    return estimate


def prepare(
    setting: Setting,
    fixed: Mapping[str, ArrayLike | float] = {},
    free: Sequence[str] = (),
    constraints: str | Sequence[str] = (),
) -> tuple[AbstractLikelihood, Restrictions | None]:
    """The likelihood with its space, and the restrictions over all its entries."""
    likelihood = setting.likelihood()
    space = likelihood.space.free(*free)
    leaves = {name: value for name, value in fixed.items() if name in space.parameters}
    single = [f"{name} = {float(value)!r}" for name, value in fixed.items() if name not in leaves]
    space = space.fix(leaves)
    texts = [constraints] if isinstance(constraints, str) else list(constraints)
    likelihood = setting.likelihood(space)
    if not (texts or single):
        return likelihood, None
    restrictions = parse_restrictions([*texts, *single], space.names)
    free_entry = [not p.fixed for n, p in space.parameters.items() for _ in p.entry_names(n).flat]
    for row, text in zip(restrictions.matrix, restrictions.texts, strict=True):
        if not row[np.array(free_entry)].any():
            raise EstimationError(
                f"the restriction {text!r} names fixed parameters alone: let one go with "
                "free=[...], or give its value in fixed={...}."
            )
    return likelihood, restrictions


def _starting_points(
    likelihood: AbstractLikelihood,
    restrictions: Restrictions | None,
    start: Theta | None,
    starts: int | Sequence[Theta] | Mapping[str, Theta] | None,
    seed: int,
) -> list[Path]:
    space = likelihood.space
    example = space.example()

    def whole(theta: Theta) -> dict[str, np.ndarray]:
        """Leaves that are not given are the example's; fixed ones stay what they are fixed at."""
        unknown = {**example, **theta}
        for name, p in space.parameters.items():
            if p.fixed:
                unknown[name] = example[name]
        checked = space.check(unknown)
        return feasible(space, off_the_bounds(space, checked), restrictions)

    named: dict[str, Theta] = {"start" if start is not None else "example": start or {}}
    count = _DEFAULT_STARTS if likelihood.states > 1 else 1
    if isinstance(starts, Mapping):
        named.update(starts)
    elif isinstance(starts, int | np.integer):
        count = int(starts)
        if count < 1:
            raise EstimationError(f"starts must be at least 1, but it is {starts}.")
    elif starts is not None:
        named.update({f"yours {k + 1}": theta for k, theta in enumerate(starts)})
    paths = [Path((name,), whole(theta)) for name, theta in named.items()]
    drawn = draw_starts(space, paths[0].theta, count, seed, restrictions)[: count - 1]
    return paths + [Path((f"drawn {k + 1}",), theta) for k, theta in enumerate(drawn)]


def _rank(path: Path, estimator: AbstractEstimator) -> tuple[float, ...]:
    """Two-stage estimates by their first stage first: that is their definition."""
    values = _modes.stage_values(path)
    if not estimator.by_stages:
        return values[-1:]
    return tuple(round(value / _modes._SAME_VALUE) for value in values)


def _reference_labels(
    space: ParameterSpace,
    ranked: list[Path],
    orders: list[tuple[int, ...]],
    labels: tuple[str, ...] | None,
    reference: Theta,
) -> list[Path]:
    """Where labels are arbitrary, those of the estimate are the nearest to the start's."""
    if not orders:
        return ranked
    turned = [_modes.align(space, path.theta, reference, orders, labels) for path in ranked]
    return [
        dataclasses.replace(p, theta=theta, warm=None)
        for p, theta in zip(ranked, turned, strict=True)
    ]


def _finish(
    likelihood: AbstractLikelihood,
    setting: Setting,
    restrictions: Restrictions | None,
    ranked: Sequence[Path],
    ended: Sequence[Path],
    begun: Sequence[Path],
    *,
    hessian: bool,
) -> Estimate:
    space, best = likelihood.space, ranked[0]
    leaves = [name for name, p in space.parameters.items() if not p.fixed]
    entries = free_entries(space, leaves, best.theta, restrictions)
    phi = entries.flatten(best.theta)
    bound = entries.at_bound(phi)
    # Entries further back follow from those before them: the last of a row is the derived one.
    chart = entries.chart(phi, held=bound, priority=np.arange(len(phi), dtype=float))
    terms = likelihood.terms(best.theta, start=best.warm)
    first = None
    if setting.estimator.by_stages:
        moves = np.array([n in likelihood.dynamics for n, p in _owners(space, leaves)], dtype=bool)
        first = moves[chart.independent]
    information = information_at(
        likelihood, entries, best.theta, chart, first, terms.start, hessian=hessian
    )
    result, reason = _verdict(best, setting, information)
    dimension = len(entries.chart(phi).independent)
    own = likelihood.panel.agent_count * (likelihood.states - 1)
    by_agent = getattr(likelihood, "prior", None) is not None and likelihood.prior.by_agent
    return Estimate(
        setting=setting,
        theta={name: np.asarray(leaf) for name, leaf in best.theta.items()},
        space=space,
        restrictions=() if restrictions is None else restrictions.texts,
        terms=terms.parts(),
        information=information,
        boundary=tuple(entries.names[k] for k in np.flatnonzero(bound)),
        derived=tuple(entries.names[k] for k in chart.dependent),
        result=result,
        reason=reason,
        steps=sum(climb.steps for climb in best.climbs),
        gain=best.climbs[-1].gain,
        dimension=dimension,
        incidental=own if by_agent else 0,
        modes=_mode_table(likelihood, ranked),
        starts=_start_table(likelihood, ranked, ended, begun),
        traces=tuple((climb.trace, climb.norms) for climb in best.climbs),
        agent_priors=likelihood.priors(best.theta) if by_agent else None,
    )


def _owners(space: ParameterSpace, leaves: Sequence[str]) -> list[tuple[str, str]]:
    """(leaf, entry) of all entries of these leaves, in order."""
    return [(n, e) for n in leaves for e in space.parameters[n].entry_names(n).flat]


def _verdict(path: Path, setting: Setting, information: Information) -> tuple[Result, str]:
    """How the search ended, after a look at the Hessian; and a sentence on it."""
    climbs = path.climbs if setting.estimator.by_stages else path.climbs[-1:]
    for number, climb in enumerate(climbs, 1):
        if not climb.converged:
            stage = f"stage {number}: " if len(climbs) > 1 else ""
            return climb.result, (
                f"{stage}stopped after {climb.steps} steps with a promised gain of "
                f"{climb.gain:.2g}. {climb.result.advice()}"
            )
    if not np.isfinite(information.scores).all():
        return Result.NOT_FINITE, "scores are not finite. " + Result.NOT_FINITE.advice()
    if len(information.names) == 0:
        return Result.CONVERGED, "every parameter is on its boundary."
    if information.hessian is None:
        return Result.CONVERGED, f"promised gain {climbs[-1].gain:.1e}; no Hessian was asked for."
    if not np.isfinite(information.hessian).all():
        return Result.NOT_FINITE, "the Hessian is not finite. " + Result.NOT_FINITE.advice()
    values, vectors = information.eigenvalues()
    direction = ", ".join(
        f"{vectors[k, 0]:+.2f} {information.names[k]}"
        for k in np.argsort(-np.abs(vectors[:, 0]))[:3]
    )
    if values[0] < -_FLAT * 1e4:
        return Result.NOT_A_MAXIMUM, f"along {direction} (scaled). {Result.NOT_A_MAXIMUM.advice()}"
    if values[0] < _FLAT:
        return Result.FLAT, f"along {direction} (scaled). {Result.FLAT.advice()}"
    return Result.CONVERGED, f"promised gain {climbs[-1].gain:.1e}; the Hessian is definite."


def _mode_table(likelihood: AbstractLikelihood, ranked: Sequence[Path]) -> pd.DataFrame:
    """One row for each maximum: log-likelihood and its parts, how many starts, parameters."""
    rows = []
    for path in ranked:
        try:
            parts = likelihood.terms(path.theta, start=path.warm).parts().sum(axis=0)
        except SolveError:
            parts = np.full(2, np.nan)
        rows.append(
            {
                "llf": parts.sum(),
                "observation": parts[0],
                "choice": parts[1],
                "starts": len(path.origins),
                "converged": all(climb.converged for climb in path.climbs),
                **likelihood.space.to_series(path.theta).to_dict(),
            }
        )
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="mode"))


def _start_table(
    likelihood: AbstractLikelihood,
    ranked: Sequence[Path],
    ended: Sequence[Path],
    begun: Sequence[Path],
) -> pd.DataFrame:
    """One row for each start: the mode it led to (0 for none), and where it began."""
    mode = {origin: k for k, path in enumerate(ranked, 1) for origin in path.origins}
    how = {
        origin: path.climbs[-1].result.name.lower().replace("_", " ")
        for path in ended
        for origin in path.origins
    }
    rows = [
        {
            "mode": mode.get(path.origins[0], 0),
            "result": how.get(path.origins[0], "lost"),
            **likelihood.space.to_series(path.theta).to_dict(),
        }
        for path in begun
    ]
    return pd.DataFrame(rows, index=pd.Index([path.origins[0] for path in begun], name="start"))


def _nothing_found(likelihood: AbstractLikelihood, paths: Sequence[Path]) -> str:
    """Why no start has a likelihood, in the words of the likelihood itself."""
    try:
        likelihood.terms(paths[0].theta)
    except (ModelError, SolveError, ValueError) as error:
        return f"no start has a finite likelihood. At the first one: {error}"
    return "no start could be climbed to a finite likelihood."
