"""A world to be solved: the baseline's, or one in which something is different."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import ModelError
from pomdpfit._labels import action_names
from pomdpfit._model import Model, Primitives, checked_primitives
from pomdpfit._params import ParameterSpace
from pomdpfit._schemes import AbstractScheme, Linear
from pomdpfit._solve import Solution, solve_primitives
from pomdpfit._types import ArrayLike, Theta
from pomdpfit.counterfactuals._baseline import Baseline
from pomdpfit.counterfactuals._information import AbstractInformation, Starts
from pomdpfit.counterfactuals._law import Averaging, Shares, action_shares, shares_on
from pomdpfit.counterfactuals._wrapped import Restricted
from pomdpfit.solvers import Newton

Move = Mapping[str, ArrayLike | float] | Callable[[dict], Theta]

# Differences of values, and of their differences, are read: solve better than a likelihood needs.
_SOLVER = Newton(tolerance=1e-12)


@dataclasses.dataclass(frozen=True, eq=False)
class Change:
    """What is different: parameters, the actions that are left, what is seen."""

    theta: Move | None = None
    available: ArrayLike | Sequence | None = None
    information: AbstractInformation | None = None

    def __post_init__(self) -> None:
        known = self.information is None or isinstance(self.information, AbstractInformation)
        if not known:
            raise ModelError(
                "information must be pf.Sensor(...), pf.FullObservation() or pf.Inspection(), not "
                f"{type(self.information).__name__}."
            )

    def wrap(self, model: Model) -> Model:
        """The model with these actions and this information."""
        if self.available is not None:
            model = Restricted(model, self.available)
        return model if self.information is None else self.information.wrap(model)

    def words(self) -> tuple[str, ...]:
        """What is different, for a table."""
        found = []
        if isinstance(self.theta, Mapping):
            found += [f"{n} = {np.array2string(np.asarray(v))}" for n, v in self.theta.items()]
        elif self.theta is not None:
            found.append(f"theta by {getattr(self.theta, '__name__', 'a function')}")
        if self.available is not None:
            names = np.asarray(self.available)
            left = "by a mask" if names.dtype == bool else ", ".join(map(str, names.ravel()))
            found.append(f"actions left: {left}")
        if self.information is not None:
            found.append(f"information: {type(self.information).__name__}")
        return tuple(found)


class Scenario:
    """A baseline with a change, solved at any theta of the baseline.

    The first solution is where all later ones start: they do not depend on each other's order.
    Nor do shares: the grid of their law is the one that was fine enough for the first of them,
    with the error that was found there.
    """

    def __init__(self, baseline: Baseline, change: Change) -> None:
        self.baseline, self.change = baseline, change
        self.model = change.wrap(baseline.model)
        self._own = tuple(baseline.model.parameters())
        self._first: Solution | None = None
        self.law: Shares | None = None

    def theta(self, theta: Theta) -> dict[str, Any]:
        """theta after the change, checked."""
        return moved(self.baseline.space, theta, self.change.theta)

    def starts(self, theta: Theta) -> Starts:
        """Where agents begin, at theta after the change."""
        starts = self.baseline.starts(theta)
        information = self.change.information
        return starts if information is None else information.starts(starts)

    def solve(self, theta: Theta) -> Solution:
        """The solution at theta after the change."""
        primitives = checked_primitives(self.model, {name: theta[name] for name in self._own})
        grid = grid_for(primitives, self.baseline.grid)
        start = self._first if primitives.horizon is None else None
        solution = solve_primitives(primitives, grid, _SOLVER, start)
        if self._first is None:
            self._first = solution
        return solution

    def value(self, theta: Theta) -> tuple[float, float]:
        """The mean value at the start, and its annuity, at a theta of the baseline."""
        theta = self.theta(theta)
        return mean_value(self.solve(theta), self.starts(theta))

    def shares(self, theta: Theta, averaging: Averaging) -> np.ndarray:
        """How often each action is taken, at a theta of the baseline."""
        theta = self.theta(theta)
        return self._shares(self.solve(theta), self.starts(theta), averaging)

    def _shares(self, solution: Solution, starts: Starts, averaging: Averaging) -> np.ndarray:
        if self.law is not None:
            return shares_on(self.law.cells, solution, starts, averaging)
        self.law = action_shares(solution, starts, averaging)
        return self.law.share

    def outcomes(self, theta: Theta, averaging: Averaging) -> pd.Series:
        """Shares of actions, periods between them, value and annuity, at a baseline's theta."""
        theta = self.theta(theta)
        solution, starts = self.solve(theta), self.starts(theta)
        shares = self._shares(solution, starts, averaging)
        names = action_names(self.model, len(shares))
        found = {f"share[{a}]": share for a, share in zip(names, shares, strict=True)}
        if averaging.long_run(solution.primitives.horizon):
            with np.errstate(divide="ignore"):
                between = 1.0 / shares
            found |= {f"periods between[{a}]": b for a, b in zip(names, between, strict=True)}
        found["value"], found["value per period"] = mean_value(solution, starts)
        return pd.Series(found)


def mean_value(solution: Solution, starts: Starts) -> tuple[float, float]:
    """sum_i w_i V(z_i, x_i), and the constant reward a period that is worth as much."""
    primitives = solution.primitives
    t = None if primitives.horizon is None else np.zeros((), dtype=int)
    value = float(starts.weight @ np.asarray(solution.value(starts.z, starts.x, t)))
    return value, annuity(primitives) * value


def annuity(primitives: Primitives) -> float:
    """1 / (1 + beta + beta^2 + ...), over the horizon if there is one."""
    beta, horizon = float(primitives.discount), primitives.horizon
    if horizon is None:
        return 1.0 - beta
    return 1.0 / horizon if beta == 1.0 else (1.0 - beta) / (1.0 - beta**horizon)


def grid_for(primitives: Primitives, grid: AbstractScheme | None) -> AbstractScheme | None:
    """The grid asked for; where nothing is hidden there is but one belief, for any grid."""
    return Linear(grid.nodes) if grid is not None and primitives.states == 1 else grid


def moved(space: ParameterSpace, theta: Theta, move: Move | None) -> dict[str, Any]:
    """theta with some leaves or entries set ("cost", "cost[bad]"), or as a function of itself."""
    if move is None:
        return dict(space.check(theta))
    new = {name: np.array(leaf, dtype=float) for name, leaf in theta.items()}
    changes = move(dict(new)) if callable(move) else move
    if not isinstance(changes, Mapping):
        raise ModelError(
            "theta must be a mapping of names to values, or a function that returns one, but "
            f"{type(changes).__name__} came back."
        )
    space.require_once(changes, "the change")
    entries = dict(zip(space.names, space.owners, strict=True))
    for name, value in changes.items():
        if name in entries and name not in space.parameters:
            owner = entries[name]
            where = space.parameters[owner].entry_names(owner) == name
            new[owner] = np.where(where, float(value), new[owner])
        else:
            space.require_name(name, "the change")
            new[name] = np.asarray(value, dtype=float)
    return dict(space.check(new))
