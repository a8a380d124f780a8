"""What is asked of `choose_states`, checked before anything is fitted."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pomdpfit._engine import find_engine
from pomdpfit._errors import EstimationError
from pomdpfit._panel import Panel
from pomdpfit._priors import AbstractPrior, CommonPrior
from pomdpfit._schemes import AbstractScheme
from pomdpfit._setting import Setting
from pomdpfit.estimators import Joint
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.identification.states._state_fits import Starts

ModelOf = Callable[[int], Any]
PriorOf = Callable[[int], AbstractPrior | None]
GridOf = Callable[[int], AbstractScheme | None]


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A setting for each number of states, and how much is to be done."""

    settings: dict[int, Setting]
    starts: Starts
    folds: tuple[np.ndarray, ...]  # which agents are left out
    bootstrap: int
    seed: int
    n_jobs: int | None


def make_plan(
    model: ModelOf,
    panel: Panel,
    states: Sequence[int],
    prior: PriorOf | None,
    estimator: AbstractEstimator | None,
    grid: GridOf | None,
    starts: int,
    folds: int,
    bootstrap: int,
    seed: int,
    n_jobs: int | None,
) -> Plan:
    """Everything checked, and the agents in their folds."""
    numbers = list(states)
    if len(numbers) < 2 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise EstimationError(f"states must count up by one, as in (1, 2, 3), not {states}.")
    for name, value, least in (
        ("starts", starts, 1),
        ("bootstrap", bootstrap, 0),
        ("seed", seed, 0),
    ):
        if value < least:
            raise EstimationError(f"{name} must be at least {least}, but it is {value}.")
    find_engine(n_jobs)  # which refuses what makes no sense
    if folds != 0 and not 2 <= folds <= panel.agent_count:
        raise EstimationError(
            f"folds must be 0 or from 2 to the number of agents, {panel.agent_count}, not {folds}."
        )
    estimator = Joint() if estimator is None else estimator
    settings = {}
    for k in numbers:
        own = (CommonPrior() if k > 1 else None) if prior is None else prior(k)
        if folds and own is not None and own.by_agent:
            raise EstimationError(
                "agents that were left out have no prior of their own to be judged by: use "
                "folds=0, or pf.CommonPrior()."
            )
        scheme = None if grid is None else grid(k)
        settings[k] = _checked(Setting(model(k), panel, own, scheme, None, estimator), k)
    return Plan(
        settings, Starts(starts, seed), _left_out(panel, folds, seed), bootstrap, seed, n_jobs
    )


def _checked(setting: Setting, states: int) -> Setting:
    found = setting.likelihood().states
    if found != states:
        raise EstimationError(
            f"model({states}) must have {states} hidden states, but it has {found}: is its "
            "argument used, as in lambda k: EngineReplacement(conditions=k)?"
        )
    return setting


def _left_out(panel: Panel, folds: int, seed: int) -> tuple[np.ndarray, ...]:
    """A mask over the agents for each fold, drawn by the seed."""
    if folds == 0:
        return ()
    order = np.random.default_rng(seed).permutation(panel.agent_count)
    return tuple(
        np.isin(np.arange(panel.agent_count), part) for part in np.array_split(order, folds)
    )
