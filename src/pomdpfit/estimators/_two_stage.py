"""The paper's two-stage estimator."""

import dataclasses
from typing import ClassVar

from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._restrictions import Restrictions
from pomdpfit.estimators._base import (
    BHHH,
    AbstractEstimator,
    AbstractOptimiser,
    Stage,
    refuse_two_stages,
    split_leaves,
)


@dataclasses.dataclass(frozen=True)
class TwoStage(AbstractEstimator):
    """Dynamics from the observation terms, then rewards from the choice terms given the dynamics.

    theta_2 = argmax sum log sigma, then theta_1 = argmax sum log pi at that theta_2. Dynamics are
    the parameters that the kernel or the prior reads. The first stage solves nothing.
    """

    optimiser: AbstractOptimiser = dataclasses.field(default_factory=BHHH)
    by_stages: ClassVar[bool] = True

    def stages(self, likelihood: AbstractLikelihood) -> tuple[Stage, ...]:
        """Observations, then choices."""
        dynamics, rewards = split_leaves(likelihood)
        stages = (
            Stage(Part.OBSERVATION, dynamics, self.optimiser),
            Stage(Part.CHOICE, rewards, self.optimiser),
        )
        return tuple(stage for stage in stages if stage.leaves)

    def check(self, likelihood: AbstractLikelihood, restrictions: Restrictions | None) -> None:
        """No prior for each agent, no stationary prior, no restriction across the stages."""
        refuse_two_stages(likelihood, restrictions, "pf.TwoStage")
