"""An estimator is a sequence of stages: which part is climbed, which leaves move, and how."""

import abc
import dataclasses
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from pomdpfit._entries import Entries
from pomdpfit._errors import EstimationError
from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._restrictions import Restrictions
from pomdpfit._types import Float
from pomdpfit.estimators._climb import climb
from pomdpfit.estimators._kept_climb import KeptClimb
from pomdpfit.estimators._objective import Objective
from pomdpfit.estimators._walk import Climb, Walk, attend

Tell = Callable[[int, float, float], None]


class AbstractOptimiser(abc.ABC):
    """A way up: a start in, a climb out; what it needs to know on its way it asks for."""

    @abc.abstractmethod
    def walk(
        self,
        entries: Entries,
        phi: Float[np.ndarray, "n"],
        agents: int,
        tell: Tell | None = None,
    ) -> Walk:
        """Climb from phi; `agents` is how many of them count: those without scored rows do not."""

    def run(
        self,
        objective: Objective,
        phi: Float[np.ndarray, "n"],
        tell: Tell | None = None,
        kept: KeptClimb | None = None,
    ) -> Climb:
        """Climb from phi, with all answers from one objective; kept on the way if asked for."""
        agents = int(np.count_nonzero(objective.agent_weights))
        agents = min(agents, objective.likelihood.panel.scored_agents)
        walk = self.walk(objective.entries, phi, agents, tell)
        return attend(objective, walk) if kept is None else kept.attended(objective, walk)


@dataclasses.dataclass(frozen=True)
class BHHH(AbstractOptimiser):
    """Scores, exact gradients and bounds: see `_climb`. The default.

    `tolerance` is the gain in log-likelihood that the quadratic model still promises at the end:
    1e-8 means within 0.00014 standard errors of the maximum.
    """

    tolerance: float = 1e-8
    max_steps: int = 200

    def walk(
        self,
        entries: Entries,
        phi: Float[np.ndarray, "n"],
        agents: int,
        tell: Tell | None = None,
    ) -> Walk:
        """Climb from phi."""
        return climb(
            entries,
            phi,
            agents,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
            tell=tell,
        )


@dataclasses.dataclass(frozen=True)
class Stage:
    """One climb."""

    part: Part
    leaves: tuple[str, ...]
    optimiser: AbstractOptimiser


class AbstractEstimator(abc.ABC):
    """A definition of the estimate, as stages to be climbed one after the other."""

    by_stages: ClassVar[bool]  # whether each stage has an objective of its own

    @abc.abstractmethod
    def stages(self, likelihood: AbstractLikelihood) -> tuple[Stage, ...]:
        """The stages, in order; the last climb of a leaf is the one that counts."""

    @abc.abstractmethod
    def check(self, likelihood: AbstractLikelihood, restrictions: Restrictions | None) -> None:
        """Raise where this estimator has no meaning."""


def split_leaves(likelihood: AbstractLikelihood) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Free leaves of the dynamics, and the others."""
    free, dynamics = likelihood.space.free_leaves, likelihood.dynamics
    return (
        tuple(name for name in free if name in dynamics),
        tuple(name for name in free if name not in dynamics),
    )


def refuse_two_stages(
    likelihood: AbstractLikelihood, restrictions: Restrictions | None, name: str
) -> None:
    """What no two-stage estimator can serve."""
    prior = likelihood.prior
    if prior is not None and prior.by_agent:
        raise EstimationError(
            f"{name} cannot estimate a prior for each agent: an agent's observation likelihood is "
            "linear in its x0, so the first stage would always put x0 on a vertex, whatever the "
            "truth. Use pf.Joint(), where the choices speak too, or pf.CommonPrior()."
        )
    if prior is not None and prior.needs_policy:
        raise EstimationError(
            f"{name} cannot use a stationary prior: x0 then depends on the policy and so on the "
            "rewards, which the first stage does not know. Use pf.Joint()."
        )
    if restrictions is None:
        return
    first, second = split_leaves(likelihood)
    owner = likelihood.space.owners
    for row, text in zip(restrictions.matrix, restrictions.texts, strict=True):
        touched = {owner[k] for k in range(len(owner)) if row[k] != 0}
        if touched & set(first) and touched & set(second):
            raise EstimationError(
                f"the restriction {text!r} ties dynamics to rewards, which {name} estimates one "
                "after the other. Use pf.Joint()."
            )
