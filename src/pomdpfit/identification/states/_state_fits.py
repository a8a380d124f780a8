"""Fits of one number of hidden states: to the panel, to part of its agents, to simulated panels.

All fits of a number start in the same way, on the data and on simulated panels: then what is
simulated is the statistic that was computed, and a maximum that the starts miss costs power, but
does not make the test wrong.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pomdpfit._errors import EstimationError, ImpossibleObservationError, PomdpfitError
from pomdpfit._estimate import Estimate
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._setting import Setting
from pomdpfit._types import Bool, Theta
from pomdpfit._version import __version__
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._finish import finish
from pomdpfit.estimators._modes import rank
from pomdpfit.estimators._naming import Naming, align_paths, find_naming
from pomdpfit.estimators._paths import Path, run_path
from pomdpfit.estimators._race import run_paths
from pomdpfit.estimators._starts import draw_starts, off_the_bounds
from pomdpfit.identification.states._split_state import Split, beside, split_state

MISSED = -1e-6  # a likelihood ratio below this means that a maximum was missed
_NEAR = 0.05  # a split that misses the smaller model's primitives by more is no start of its own
_SHARE = 0.2  # of the way from a split to a drawn point


@dataclasses.dataclass(frozen=True)
class Starts:
    """How every climb of a model starts: `count` points far and wide, beside the splits."""

    count: int
    seed: int

    def paths(
        self,
        likelihood: AbstractLikelihood,
        splits: Sequence[Split] = (),
        first: Theta | None = None,
    ) -> list[Path]:
        """`first` (or the example), drawn points around it, and points beside the splits."""
        space = likelihood.space
        own = off_the_bounds(space, space.check(space.example() if first is None else first))
        name = "example" if first is None else "first"
        # What has no bounds (a cost, say) is drawn around the smaller model's estimate.
        centre = off_the_bounds(space, splits[0].theta) if splits else own
        count = self.count if likelihood.states > 1 else 1
        drawn = draw_starts(space, centre, count, self.seed)[: count - 1]
        beside_them = (
            beside(likelihood, off_the_bounds(space, split.theta), _SHARE, self.seed + k)
            for k, split in enumerate(splits)
        )
        return [
            Path((name,), own),
            *(Path((f"drawn {k + 1}",), theta) for k, theta in enumerate(drawn)),
            *(Path((f"split {k + 1}",), theta) for k, theta in enumerate(beside_them)),
        ]

    def more(self) -> "Starts":
        """Twice as many, others."""
        return Starts(2 * self.count, self.seed + 1)


def splits_of(
    small: AbstractLikelihood, theta: Theta, large: AbstractLikelihood
) -> tuple[Split, ...]:
    """Each state of the smaller model split in two, where the larger model can do it."""
    found = (split_state(small, theta, large, state) for state in range(small.states))
    return tuple(split for split in found if split is not None and split.gap < _NEAR)


def height(path: Path, estimator: AbstractEstimator) -> float:
    """The log-likelihood at the end of a path."""
    return float(sum(climb.value for climb in path.decisive(estimator)))


def _lift(low: Path, high: Path, estimator: AbstractEstimator) -> float:
    """2 (l_high - l_low), of two stages that of the first: negative only if one was missed."""
    first, second = (path.decisive(estimator)[0].value for path in (low, high))
    return 2 * (second - first)


def climb_all(
    likelihood: AbstractLikelihood,
    estimator: AbstractEstimator,
    paths: Sequence[Path],
    names: Naming | None = None,
) -> list[Path]:
    """Where the paths have led, the highest first, those that were lost last."""
    names = Naming() if names is None else names
    ended = run_paths(likelihood, estimator, paths, None, names, 1, lambda *_: None)
    alive = [path for path in ended if path.alive]
    if not alive:
        raise EstimationError("no start could be climbed to a finite likelihood.")
    alive.sort(key=lambda path: rank(path, estimator), reverse=True)
    return alive + [path for path in ended if not path.alive]


def fit_states(setting: Setting, paths: Sequence[Path], seed: int) -> Estimate:
    """The estimate from these starts, with its other maxima."""
    began = time.perf_counter()
    likelihood, estimator = setting.likelihood(), setting.estimator
    estimator.check(likelihood, None)
    names = Naming()
    if len(paths) > 1:
        names = find_naming(likelihood, draw_starts(likelihood.space, paths[0].theta, 1, seed)[0])
    ended = climb_all(likelihood, estimator, paths, names)
    ranked = [path for path in ended if path.alive]
    ranked = align_paths(likelihood.space, ranked, paths[0].theta, names)
    estimate = finish(likelihood, setting, None, ranked, ended, paths, hessian=True)
    seconds = time.perf_counter() - began
    return dataclasses.replace(estimate, seed=seed, seconds=seconds, version=__version__)


# ---- simulated panels --------------------------------------------------------------------------


def replicate(
    small: Estimate, large: Estimate, starts: Starts, b: int, seed: int
) -> dict[str, Any]:
    """The likelihood ratio of a panel drawn at the smaller model's estimate, and how it was had."""
    began = time.perf_counter()
    states = small.setting.likelihood(small.space).states
    row: dict[str, Any] = {"states": states, "replicate": b, "lr": np.nan}
    try:
        drawn = int(np.random.default_rng([seed, states, b]).integers(2**31))
        row |= simulated_ratio(small, large, starts, drawn)
    except PomdpfitError as error:  # one bad panel must not cost the others
        row |= {"converged": False, "reason": f"{type(error).__name__}: {error}"}
    return row | {"seconds": time.perf_counter() - began}


def simulated_ratio(small: Estimate, large: Estimate, starts: Starts, seed: int) -> dict[str, Any]:
    """2 (l_large - l_small) on a panel drawn at the smaller estimate."""
    panel = small.simulate(seed)
    first = small.setting.likelihood(small.space, panel)
    second = large.setting.likelihood(large.space, panel)
    return ratio(first, second, small.setting.estimator, starts, small.theta)[0]


def ratio(
    first: AbstractLikelihood,
    second: AbstractLikelihood,
    estimator: AbstractEstimator,
    starts: Starts,
    start: Theta | None = None,
) -> tuple[dict[str, Any], Path]:
    """2 (l_second - l_first), and the path to the smaller model's maximum.

    `start` is where that path begins. If a maximum of the larger model was missed it is tried
    again from more starts. Two-stage estimates maximise the likelihood of the observations first,
    so that is where a miss shows.
    """
    low = climb_all(first, estimator, starts.paths(first, first=start))[0]
    splits = splits_of(first, low.theta, second)
    high = climb_all(second, estimator, starts.paths(second, splits))[0]
    if _lift(low, high, estimator) < MISSED:
        again = climb_all(second, estimator, starts.more().paths(second, splits))[0]
        high = max(high, again, key=lambda path: rank(path, estimator))
    climbs = (*low.decisive(estimator), *high.decisive(estimator))
    bad = [climb.result.name for climb in climbs if not climb.converged]
    if _lift(low, high, estimator) < MISSED:
        bad.append("MISSED MAXIMUM")
    told = {
        "lr": 2 * (height(high, estimator) - height(low, estimator)),
        "converged": not bad,
        "reason": ", ".join(bad).lower().replace("_", " "),
    }
    return told, low


# ---- some of the agents ------------------------------------------------------------------------


def held_out(
    estimate: Estimate, points: Sequence[Theta], out: Bool[np.ndarray, "N"]
) -> dict[str, Any]:
    """The log-likelihood of agents that a fit to the others has not seen; -inf where it has none.

    The fit starts from every maximum found with all agents.
    """
    began = time.perf_counter()
    likelihood = estimate.setting.likelihood(estimate.space)
    estimator = estimate.setting.estimator
    paths = []
    for point in points:
        start = Path(("maximum",), off_the_bounds(estimate.space, point))
        paths.append(run_path(likelihood, estimator, start, None, (~out).astype(float)))
    alive = [path for path in paths if path.alive]
    terms = np.full(int(out.sum()), -np.inf)
    reason = "no likelihood"
    if alive:
        best = max(alive, key=lambda path: rank(path, estimator))
        bad = [climb.result.name for climb in best.decisive(estimator) if not climb.converged]
        reason = ", ".join(bad).lower().replace("_", " ")
        try:
            terms = likelihood.terms(best.theta).parts().sum(axis=1)[out]
        except ImpossibleObservationError as error:
            reason = f"held-out agents are impossible: {error}"
    return {"terms": terms, "reason": reason, "seconds": time.perf_counter() - began}
