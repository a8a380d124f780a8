"""What is drawn: choices and values at any (z, x), with the model's own names for things."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pomdpfit._errors import EstimationError, ModelError
from pomdpfit._estimate import Estimate
from pomdpfit._labels import model_labels, names_of, observation_names
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._solve import Solution, solve
from pomdpfit._types import ArrayLike
from pomdpfit.baselines import MDP
from pomdpfit.baselines._fixed_point import solve as solve_mdp
from pomdpfit.baselines._mdp import checked_tables

Read = Callable[[ArrayLike, ArrayLike], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """policy(z, x) with actions last, value(z, x), and labels; `where` names context and epoch."""

    policy: Read
    value: Read
    observations: int
    states: tuple[str, ...]
    actions: tuple[str, ...]
    where: str = ""
    readings: tuple[str, ...] = ()  # names of the observations

    def action(self, given: str | int | None) -> int:
        """The number of an action; the last one if none is given."""
        last = len(self.actions) - 1
        return last if given is None else number_of("action", given, self.actions)

    def at(self, z: int) -> str:
        """An observation in words."""
        return f"z = {self.readings[z] if self.readings else z}"

    def state(self, given: str | int) -> int:
        """The number of a hidden state."""
        return number_of("state", given, self.states)


def number_of(kind: str, given: str | int, labels: Sequence[str]) -> int:
    """The number of what is given by its label or its number."""
    if isinstance(given, str) and given in labels:
        return list(labels).index(given)
    if isinstance(given, int | np.integer) and 0 <= given < len(labels):
        return int(given)
    raise ModelError(
        f"there is no {kind} {given!r}: there are {', '.join(map(str, labels))} "
        f"(0..{len(labels) - 1})."
    )


def subject_of(
    source: Solution | Estimate,
    *,
    model: Any = None,
    covariates: Mapping[str, float] | None = None,
    t: int | None = None,
    panel: Panel | None = None,
) -> Subject:
    """What a solution, or the model at an estimate, does and is worth.

    model       gives a solution its labels; an estimate has its own
    panel       gives a solution labels of z where the model has none; likewise
    covariates  of an estimate whose model reads some; those of the panel's first context if not
                given
    t           the epoch, with a finite horizon; the first if not given
    """
    words: list[str] = []
    if isinstance(source, Estimate):
        model, panel = model_of(source), source.panel
        if isinstance(model, MDP):
            return _of_mdp(source)
        here = contexts_of(source)[0] if covariates is None else dict(covariates)
        solution = solution_at(source, here)
        words += [context_in_words(model, here)] if here else []
    elif isinstance(source, Solution):
        solution = source
    else:
        raise ModelError(f"give a pf.Solution or an estimate, not {type(source)}.")
    primitives = solution.primitives
    if primitives.horizon is not None:
        t = 0 if t is None else t
        words.append(f"epoch {t}")
    return Subject(
        policy=lambda z, x: np.asarray(solution.policy(z, x, t)),  # type: ignore[arg-type]
        value=lambda z, x: np.asarray(solution.value(z, x, t)),  # type: ignore[arg-type]
        observations=primitives.observations,
        states=labels(model, "state", primitives.states),
        actions=labels(model, "action", primitives.actions, panel),
        where=", ".join(words),
        readings=observation_names(model, primitives.observations, panel),
    )


def labels(model: Any, kind: str, count: int, panel: Panel | None = None) -> tuple[str, ...]:
    """The model's names of its states or actions, else the panel's, else "state 0" and so on."""
    own = model_labels(model, kind) if kind == "state" else names_of(kind, model, panel, count)
    return own or tuple(f"{kind} {k}" for k in range(count))


def model_of(estimate: Estimate) -> Any:
    """The model that was fitted, or an error where an estimate was loaded without it."""
    if estimate.model is None:
        raise EstimationError(
            "this estimate was loaded without its model: hand it over, as in "
            "pf.load(path, model=model)."
        )
    return estimate.model


def contexts_of(estimate: Estimate) -> list[dict[str, float]]:
    """The distinct covariates of the panel, as the model reads them; one empty row if it does not.

    The panel's first row has the first of them.
    """
    model, panel = model_of(estimate), estimate.panel
    if isinstance(model, MDP):
        return [{}]
    found, number = panel.contexts(model.space().covariates, model.group_labels())
    if not found:
        return [{}]
    first = int(number[0, 0])
    count = len(next(iter(found.values())))
    order = [first, *(k for k in range(count) if k != first)]
    return [{name: float(values[k]) for name, values in found.items()} for k in order]


def context_in_words(model: Model, here: Mapping[str, float]) -> str:
    """Covariates by name, the group by its label."""
    groups = model.group_labels()
    return ", ".join(
        f"group {groups[int(value)]}" if name == "group" and groups else f"{name} = {value:g}"
        for name, value in here.items()
    )


def solution_at(estimate: Estimate, covariates: Mapping[str, float]) -> Solution:
    """The model solved at an estimate, by the means of the fit."""
    model, setting = model_of(estimate), estimate.setting
    space = model.space()
    unknown = [name for name in covariates if name not in space.covariates]
    if unknown:
        told = ", ".join(space.covariates) or "none"
        raise ModelError(f"the model reads no covariate {unknown[0]!r}: it reads {told}.")
    theta = {name: estimate.theta[name] for name in space.parameters}
    theta |= {name: np.asarray(value) for name, value in covariates.items()}
    return solve(model, theta, grid=setting.grid, solver=setting.solver)


def _of_mdp(estimate: Estimate) -> Subject:
    """A fully observed model: one state, and a value relative to that at z = 0."""
    tables = checked_tables(estimate.model, estimate.theta, estimate.space)
    solved = solve_mdp(tables, None)
    return Subject(
        policy=lambda z, x: np.exp(solved.log_choice)[np.asarray(z)],
        value=lambda z, x: solved.V[np.asarray(z)],
        observations=tables.observations,
        states=("all observed",),
        actions=labels(estimate.model, "action", tables.actions, estimate.panel),
        readings=observation_names(estimate.model, tables.observations, estimate.panel),
    )
