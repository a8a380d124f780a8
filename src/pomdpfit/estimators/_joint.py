"""Full-information maximum likelihood."""

import dataclasses
from typing import ClassVar

from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._restrictions import Restrictions
from pomdpfit.estimators._base import (
    BHHH,
    AbstractEstimator,
    AbstractOptimiser,
    Stage,
    split_leaves,
)


@dataclasses.dataclass(frozen=True)
class Joint(AbstractEstimator):
    """All parameters at once, theta = argmax sum log sigma + log pi, started from two stages."""

    optimiser: AbstractOptimiser = dataclasses.field(default_factory=BHHH)
    by_stages: ClassVar[bool] = False

    def stages(self, likelihood: AbstractLikelihood) -> tuple[Stage, ...]:
        """Two rough stages to start from, then everything."""
        dynamics, rewards = split_leaves(likelihood)
        rough = BHHH(tolerance=1e-3)
        stages = (
            Stage(Part.OBSERVATION, dynamics, rough),
            Stage(Part.CHOICE, rewards, rough),
            Stage(Part.BOTH, dynamics + rewards, self.optimiser),
        )
        return tuple(stage for stage in stages if stage.leaves)

    def check(self, likelihood: AbstractLikelihood, restrictions: Restrictions | None) -> None:
        """Everything goes."""
