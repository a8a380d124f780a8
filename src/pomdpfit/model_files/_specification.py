"""A model with where to start, what is held, and the prior: all that a fit needs but the data."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pomdpfit._model import built_reward
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, labels_of
from pomdpfit.baselines import MDP


@dataclasses.dataclass(frozen=True, eq=False)
class Specification:
    """What a model file says; `fit_options()` hands it to `pf.fit`.

    `start` has the leaves that were given, `fixed` leaves or entries with their values, `free`
    parameters let go, `constraints` linear equations. `prior` is None where none was named.
    """

    model: Any
    start: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, np.ndarray | float] = dataclasses.field(default_factory=dict)
    free: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    prior: AbstractPrior | None = None
    path: Path | None = None

    @property
    def space(self) -> ParameterSpace:
        """The parameters of the model and of its prior."""
        return full_space(self.model, self.prior)

    @property
    def theta(self) -> dict[str, np.ndarray]:
        """The whole tree: what is fixed at its value, start values, else the model's example."""
        space = self.space
        leaves = {n: v for n, v in self.fixed.items() if n in space.parameters}
        theta = as_arrays({**space.example(), **self.start, **leaves})
        entries = {n: float(v) for n, v in self.fixed.items() if n not in leaves}
        return space.from_series({**space.to_series(theta), **entries}) if entries else theta

    def fit_options(self) -> dict[str, Any]:
        """Keywords of `pf.fit`: `pf.fit(spec.model, panel, **spec.fit_options())`."""
        return {
            "start": dict(self.start) or None,
            "fixed": dict(self.fixed),
            "free": self.free,
            "constraints": self.constraints,
            "prior": self.prior,
        }


def as_arrays(theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """theta as plain arrays."""
    return {name: np.asarray(leaf, dtype=float) for name, leaf in theta.items()}


@in_float64
def states_of(model: Any) -> int:
    """|S|, without computing anything; 1 where nothing is hidden."""
    if isinstance(model, MDP):
        return 1
    reward = jax.eval_shape(lambda theta: built_reward(model, theta), model.example())
    return int(reward.shape[1])


def full_space(model: Any, prior: AbstractPrior | None) -> ParameterSpace:
    """The parameters of a model, and those that its prior adds."""
    if prior is None or isinstance(model, MDP):
        return model.space()
    return model.space() | prior.space(labels_of(model, states_of(model)))
