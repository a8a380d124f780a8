"""Profile likelihood: the best log-likelihood for each value of one parameter."""

import dataclasses
import itertools
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtri

from pomdpfit._errors import ConvergenceWarning, EstimationError, PomdpfitError
from pomdpfit._estimate import Estimate
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._types import ArrayLike
from pomdpfit.estimators import Joint, fit

_LEVEL = float(chdtri(1, 0.05))  # of twice the fall, at the ends of a 95 % interval
_NEAR = 0.01  # of that level: an end is then known to a hundredth of a standard error
_HALVES = 12
_SHARES = (0.1, 0.01, 0.001, 0.0)  # of the distance to a bound that is left
_STEPS = 20  # fourfold each


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """The profile of one parameter: a row for each value, with all the others at their best."""

    name: str
    estimate: float
    llf: float
    table: pd.DataFrame
    bounds: tuple[float, float] = (-np.inf, np.inf)  # the ends of the parameter's own range

    @property
    def curve(self) -> pd.Series:
        """The log-likelihood by value, those that converged."""
        return self.table.loc[self.table["converged"], "llf"]

    def conf_int(self, alpha: float = 0.05) -> tuple[float, float]:
        """The values that a likelihood-ratio test does not reject.

        On a side where the profile has been evaluated up to the parameter's bound and has not
        fallen enough there, the bound; where it ends before that, infinite. Between points the
        root of the fall is taken as straight, as it is for a parabola.
        """
        level = self.llf - 0.5 * chdtri(1, alpha)
        x, y = self.curve.index.to_numpy(), self.curve.to_numpy()
        below, above = x < self.estimate, x > self.estimate
        lower = -_crossing(-x[below][::-1], y[below][::-1], -self.estimate, self.llf, level)
        upper = _crossing(x[above], y[above], self.estimate, self.llf, level)
        low, high = self.bounds
        if not np.isfinite(lower) and min([*x, self.estimate]) <= low:
            lower = low
        if not np.isfinite(upper) and max([*x, self.estimate]) >= high:
            upper = high
        return lower, upper

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the profile says against the estimate or its standard error."""
        found = []
        lower, upper = self.conf_int()
        if not np.isfinite([lower, upper]).all():
            found.append(
                f"the likelihood of {self.name} does not fall enough within the values tried: it "
                "is weakly told, or the range is too narrow."
            )
        if (self.curve > self.llf + 1e-4).any():
            best = float(self.curve.index.to_numpy()[self.curve.to_numpy().argmax()])
            found.append(
                f"at {self.name} = {best:.6g} the log-likelihood is higher than at the estimate: "
                "another maximum. Fit again from there."
            )
        failed = self.table.loc[~self.table["converged"], "reason"]
        found += [
            f"at {self.name} = {value:.6g} the fit did not converge and is left out: {reason}"
            for value, reason in failed.items()
        ]
        return tuple(found)

    def summary(self) -> str:
        """The interval, where it ends at a bound, and the warnings."""
        lower, upper = self.conf_int()
        lines = [
            f"{self.name} = {self.estimate:.6g}; 95 % by likelihood ratio: [{lower:.6g}, "
            f"{upper:.6g}] ({len(self.curve)} points)."
        ]
        for end, bound in zip((lower, upper), self.bounds, strict=True):
            if np.isfinite(bound) and end == bound:
                fall = max(0.0, 2 * (self.llf - self.table["llf"].to_dict()[bound]))
                lines.append(
                    f"{bound:.6g} is the parameter's bound: twice the fall is {fall:.3g} there, "
                    f"less than the {_LEVEL:.3g} that would reject it."
                )
        return "\n".join([*lines, *(f"! {warning}" for warning in self.warnings)])

    def __str__(self) -> str:
        return self.summary()


def _crossing(x: np.ndarray, y: np.ndarray, start: float, top: float, level: float) -> float:
    """Where a curve that leaves (start, top) to the right first falls to the level."""
    x, y = np.concatenate([[start], x]), np.concatenate([[top], y])
    low = np.flatnonzero(y < level)
    if not len(low):
        return np.inf
    k = int(low[0])
    # Signed roots of the fall are nearly straight where the profile is nearly a parabola.
    root = np.sqrt(np.maximum(top - y[k - 1 : k + 1], 0.0))
    share = (np.sqrt(top - level) - root[0]) / (root[1] - root[0])
    return float(x[k - 1] + share * (x[k] - x[k - 1]))


@long_running
def profile_likelihood(
    estimate: Estimate,
    name: str,
    values: ArrayLike | None = None,
    *,
    points: int = 9,
    progress: Progress | bool | None = None,
) -> Profile:
    """Fix an entry of `estimate.params` at each of some values and maximise over the rest.

    By default `points` values within three standard errors. Where the parameter's bound is nearer
    than that, points towards the bound until the profile has fallen enough for a 95 % interval,
    whose end is then found by bisection, or until the bound itself. An estimate on its bound has
    no standard error: points go away from the bound in growing steps, and the end is found in the
    same way. `values` of your own are the only ones tried; the bound may be among them.

    A value at which the fit fails is left out, and the profile's warnings say so. After two stages
    the profile is that of the whole likelihood, whose maximum is found first.
    """
    if name not in estimate.params.index:
        raise EstimationError(
            f"there is no estimated parameter {name!r}; there are "
            f"{', '.join(estimate.params.index)}."
        )
    report, best = callback(progress), _joint(estimate)
    bounds = _bounds(best, name)
    tried = _Tried(best, name, bounds)
    if values is None:
        grid = _default_values(tried, bounds, points)
    else:
        grid = np.ravel(np.asarray(values, dtype=float))
        outside = grid[~((grid >= bounds[0]) & (grid <= bounds[1]))]
        if len(outside):
            raise EstimationError(
                f"{name} lies between {bounds[0]:.6g} and {bounds[1]:.6g}, but values has "
                f"{outside[0]:.6g}."
            )
    grid = grid[grid != tried.centre]
    if values is not None and not len(grid):
        raise EstimationError(f"there are no values of {name} to try beside the estimate.")
    for k, value in enumerate(sorted(grid, key=lambda v: abs(v - tried.centre))):
        report(f"profile of {name}", k, len(grid))
        tried.fall(float(value))
    if values is None:
        for k, sign in enumerate((-1, 1)):
            report(f"ends of the profile of {name}", k, 2)
            if further := _further(tried, bounds, sign):
                tried.find_end(sign, further)
    report(f"profile of {name}", len(grid), len(grid))
    if len(tried.falls) == 1:
        value, row = next((v, row) for v, row in tried.rows.items() if v != tried.centre)
        raise EstimationError(
            f"no fit of the profile converged. At {name} = {value:.6g}: {row['reason']}"
        )
    table = pd.DataFrame.from_dict(tried.rows, orient="index").infer_objects()
    table = table.sort_index().rename_axis(name)
    return Profile(name, tried.centre, best.llf, table, bounds)


class _Tried:
    """The values at which the others were maximised, and how far the profile falls there."""

    def __init__(self, best: Estimate, name: str, bounds: tuple[float, float]) -> None:
        self.best, self.name = best, name
        self.centre = float(best.params[name])
        if name in best.boundary:  # a derived entry is there but for rounding
            self.centre = min(bounds, key=lambda bound: abs(bound - self.centre))
        self.rows = {self.centre: _row(best)}
        self.falls = {self.centre: 0.0}  # twice the fall, of those that converged
        self._thetas = {self.centre: best.theta}

    def fall(self, value: float) -> float:
        """Twice the fall of the log-likelihood at a value; NaN where the fit fails."""
        near = min(self._thetas, key=lambda other: abs(other - value))
        try:
            at = _fit_at(self.best, self._thetas[near], {self.name: value})
        except PomdpfitError as error:
            self.rows[value] = {"llf": np.nan, "converged": False, "reason": str(error)}
            return np.nan
        self.rows[value] = _row(at)
        if not at.converged:
            return np.nan
        self._thetas[value], self.falls[value] = at.theta, 2 * (self.best.llf - at.llf)
        return self.falls[value]

    def outwards(self, sign: int) -> list[float]:
        """The estimate and the values on one side of it that converged."""
        return sorted((v for v in self.falls if sign * (v - self.centre) >= 0), key=self._distance)

    def _distance(self, value: float) -> float:
        return abs(value - self.centre)

    def find_end(self, sign: int, further: Iterable[float]) -> None:
        """Where the profile has fallen enough on one side; beyond what was tried try `further`."""
        inside = self.centre
        for value in itertools.chain(self.outwards(sign)[1:], further):
            there = self.falls[value] if value in self.falls else self.fall(value)
            if there > _LEVEL:
                self._bisect(inside, value)
                return
            if np.isfinite(there):
                inside = value

    def _bisect(self, inside: float, outside: float) -> None:
        """Narrow the end down where the roots of the fall meet the level, or not far from there."""
        for _ in range(_HALVES):
            roots = np.sqrt(np.maximum([self.falls[inside], self.falls[outside]], 0.0))
            share = np.clip((np.sqrt(_LEVEL) - roots[0]) / (roots[1] - roots[0]), 0.1, 0.9)
            value = inside + float(share) * (outside - inside)
            there = self.fall(value)
            if not abs(there - _LEVEL) > _NEAR * _LEVEL:  # found, or the fit failed
                return
            inside, outside = (inside, value) if there > _LEVEL else (value, outside)


def _row(at: Estimate) -> dict[str, Any]:
    reason = "" if at.converged else at.reason
    values = {str(name): value for name, value in at.params.items()}
    return {"llf": at.llf, "converged": at.converged, "reason": reason, **values}


def _default_values(tried: _Tried, bounds: tuple[float, float], points: int) -> np.ndarray:
    """Within three standard errors, and inside the bounds; none for an estimate on its bound."""
    if points < 3:
        raise EstimationError(f"a profile needs at least 3 points, not {points}.")
    if tried.centre in bounds:
        return np.array([])
    se = float(tried.best.bse[tried.name])
    if not np.isfinite(se) or se <= 0:
        raise EstimationError(
            f"{tried.name} has no standard error to space the values by "
            f"({tried.best.status(tried.name)}): give them, values=[...]."
        )
    grid, margin = tried.centre + se * np.linspace(-3, 3, points), 1e-3 * se
    return grid[(grid > bounds[0] + margin) & (grid < bounds[1] - margin)]


def _further(tried: _Tried, bounds: tuple[float, float], sign: int) -> list[float]:
    """Values beyond those tried: towards a bound within three standard errors, or away from one."""
    bound, other = bounds if sign < 0 else bounds[::-1]
    if tried.centre == bound:
        return []
    if tried.centre == other:
        width = max(1.0, abs(other)) if np.isinf(bound) else abs(bound - other)
        steps = 1e-4 * width * 4.0 ** np.arange(_STEPS)
        inside = other + sign * steps[steps < abs(bound - other)]
        return [*inside, bound] if np.isfinite(bound) else [*inside]
    se = float(tried.best.bse[tried.name])
    if abs(bound - tried.centre) > 3 * se * (1 + 1e-3):
        return []
    last = tried.outwards(sign)[-1]
    return [bound + share * (last - bound) for share in _SHARES]


def _bounds(estimate: Estimate, name: str) -> tuple[float, float]:
    """The ends of an entry's range; an end that is left out is none that a profile can reach."""
    constraint = next(
        p.constraint
        for leaf, p in estimate.space.parameters.items()
        if name in p.entry_names(leaf).ravel()
    )
    low, high = constraint.bounds()
    return low, np.inf if getattr(constraint, "open_above", False) else high


def _joint(estimate: Estimate) -> Estimate:
    if isinstance(estimate.setting.estimator, Joint) and estimate.converged:
        return estimate
    return _fit_at(estimate, estimate.theta, {}, hessian=True)


def _fit_at(
    estimate: Estimate, theta: dict, values: dict[str, float], *, hessian: bool = False
) -> Estimate:
    """The fit again, jointly, from theta, with these entries held."""
    setting, fixed = estimate.setting, {n: estimate.theta[n] for n in estimate.fixed if n in theta}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by the profile itself
        return fit(
            setting.model,
            setting.panel,
            Joint(),
            prior=setting.prior,
            start={n: theta[n] for n in theta if n not in values},
            starts=1,
            fixed={**fixed, **values},
            free=[n for n in estimate.freed if n not in values],
            constraints=estimate.restrictions,
            grid=setting.grid,
            solver=setting.solver,
            skip_hessian=not hessian,
        )
