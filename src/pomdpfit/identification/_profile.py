"""Profile likelihood: the best log-likelihood for each value of one parameter."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
from scipy.special import chdtri

from pomdpfit._errors import ConvergenceWarning, EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._types import ArrayLike
from pomdpfit.estimators import Joint, fit


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """The profile of one parameter: a row for each value, with all the others at their best."""

    name: str
    estimate: float
    llf: float
    table: pd.DataFrame
    bounds: tuple[float, float] = (-np.inf, np.inf)  # where the values tried were cut off

    @property
    def curve(self) -> pd.Series:
        """The log-likelihood by value, those that converged."""
        return self.table.loc[self.table["converged"], "llf"]

    def conf_int(self, alpha: float = 0.05) -> tuple[float, float]:
        """The values that a likelihood-ratio test does not reject.

        On a side where the profile ends before it has fallen enough, the parameter's bound if that
        is what ended it, else infinite. Between points the root of the fall is taken as straight,
        as it is for a parabola.
        """
        level = self.llf - 0.5 * chdtri(1, alpha)
        x, y = self.curve.index.to_numpy(), self.curve.to_numpy()
        below, above = x < self.estimate, x > self.estimate
        lower = -_crossing(-x[below][::-1], y[below][::-1], -self.estimate, self.llf, level)
        upper = _crossing(x[above], y[above], self.estimate, self.llf, level)
        return max(lower, self.bounds[0]), min(upper, self.bounds[1])

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
        failed = int((~self.table["converged"]).sum())
        if failed:
            found.append(f"{failed} of {len(self.table)} points did not converge and are left out.")
        return tuple(found)

    def summary(self) -> str:
        """The interval and the warnings."""
        lower, upper = self.conf_int()
        lines = [
            f"{self.name} = {self.estimate:.6g}; 95 % by likelihood ratio: [{lower:.6g}, "
            f"{upper:.6g}] ({len(self.curve)} points)."
        ]
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

    By default `points` values within three standard errors, inside the parameter's bounds. After
    two stages the profile is that of the whole likelihood, whose maximum is found first.
    """
    if name not in estimate.params.index:
        raise EstimationError(
            f"there is no estimated parameter {name!r}; there are "
            f"{', '.join(estimate.params.index)}."
        )
    tell = callback(progress)
    best = _joint(estimate)
    centre = float(best.params[name])
    bounds = (-np.inf, np.inf)
    if values is None:
        grid, bounds = _values(best, name, points)
    else:
        grid = np.sort(np.ravel(values))
    grid = np.asarray([v for v in grid if v != centre], dtype=float)
    if not len(grid):
        raise EstimationError(f"there are no values of {name} to try beside the estimate.")
    rows, done = {}, 0
    for side in (grid[grid < centre][::-1], grid[grid > centre]):
        theta = best.theta  # outwards from the estimate, each from its neighbour
        for value in side:
            tell(f"profile of {name}", done, len(grid))
            at = _fit_at(best, theta, {name: float(value)})
            theta, done = at.theta, done + 1
            rows[float(value)] = {"llf": at.llf, "converged": at.converged, **at.params.to_dict()}
    tell(f"profile of {name}", len(grid), len(grid))
    rows[centre] = {"llf": best.llf, "converged": best.converged, **best.params.to_dict()}
    table = pd.DataFrame.from_dict(rows, orient="index").sort_index().rename_axis(name)
    return Profile(name, centre, best.llf, table, bounds)


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
            free=estimate.freed,
            constraints=estimate.restrictions,
            grid=setting.grid,
            solver=setting.solver,
            skip_hessian=not hessian,
        )


def _values(estimate: Estimate, name: str, points: int) -> tuple[np.ndarray, tuple[float, float]]:
    """Within three standard errors, and not beyond the bounds; and the bounds that cut it short."""
    if points < 3:
        raise EstimationError(f"a profile needs at least 3 points, not {points}.")
    centre, se = float(estimate.params[name]), float(estimate.bse[name])
    if not np.isfinite(se) or se <= 0:
        raise EstimationError(
            f"{name} has no standard error to space the values by: give them, values=[...]."
        )
    low, high = next(
        p.constraint.bounds()
        for leaf, p in estimate.space.parameters.items()
        if name in p.entry_names(leaf).ravel()
    )
    margin = 1e-3 * se
    grid = centre + se * np.linspace(-3, 3, points)
    cut = (
        low if grid[0] <= low + margin else -np.inf,
        high if grid[-1] >= high - margin else np.inf,
    )
    return grid[(grid > low + margin) & (grid < high - margin)], cut
