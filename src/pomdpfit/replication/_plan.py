"""How much is computed: minutes by default, hours in full."""

import dataclasses

from pomdpfit._schemes import Linear, Smooth


@dataclasses.dataclass(frozen=True)
class Plan:
    """Sizes of every part of the replication."""

    name: str
    grid: Smooth  # of two hidden conditions
    coarse: Linear  # of three
    bins: int
    starts: int  # of the two-stage estimator
    joint_starts: int  # drawn ones, beside the modes of the two-stage estimator
    two_starts: int  # of two conditions, beside others
    third_starts: int  # with three hidden conditions
    replicates: int  # of the bootstrap
    all_conventions: bool
    agents: int  # simulated, Tables I and II
    periods: int
    epochs: tuple[int, ...]  # Figure 2
    beliefs: int  # how many values of x0 are assumed in Figure 2
    epoch_agents: int
    groups: tuple[int, ...]
    conditions: tuple[int, ...]


QUICK = Plan(
    name="quick",
    grid=Smooth(15),  # the log-likelihood of group 4 to 1e-3
    coarse=Linear(9),
    bins=175,
    starts=20,
    joint_starts=0,
    two_starts=4,
    third_starts=2,
    replicates=20,
    all_conventions=False,
    agents=1000,
    periods=100,
    epochs=(2, 4, 8, 16, 32),
    beliefs=3,
    epoch_agents=1000,
    groups=(3, 4, 5, 6, 7, 8),
    conditions=(1, 2, 3),
)

FULL = dataclasses.replace(
    QUICK,
    name="full",
    grid=Smooth(101),
    coarse=Linear(17),
    starts=100,
    joint_starts=20,
    third_starts=30,
    replicates=400,
    all_conventions=True,
    agents=3000,
    epochs=(2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    beliefs=5,
    epoch_agents=3000,
)

# For a look at the machinery: its numbers mean nothing.
TINY = dataclasses.replace(
    QUICK,
    name="tiny",
    grid=Smooth(7),
    coarse=Linear(3),
    starts=2,
    two_starts=2,
    third_starts=1,
    replicates=2,
    agents=60,
    periods=30,
    epochs=(2, 8),
    beliefs=2,
    epoch_agents=60,
    groups=(4,),
    conditions=(1, 2),
)
