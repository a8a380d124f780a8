"""How large the problems of the benchmark are: as the targets say, or tiny, for the tests."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Size:
    """Sizes and repetitions."""

    bins: int = 175
    nodes: int = 101
    discount: float = 0.9999
    agents: int = 3000
    periods: int = 100
    repetitions: int = 5
    limit_nodes: int = 401  # of the grid that stands for the limit
    smooth_nodes: tuple[int, ...] = (9, 11, 13, 17, 21, 23, 24, 26, 31, 41, 51, 76, 101)
    discounts: tuple[float, ...] = (0.95, 0.99, 0.999, 0.9999)
    seeds: tuple[int, ...] = (0, 1)
    general_observations: int = 4
    general_nodes: int = 21
    memory_nodes: int = 2001  # so many that arrays stand out
    memory_agents: tuple[int, ...] = (3000, 30000)
    sequences: int = 3000
    peers: bool = True  # whether to run what takes minutes of its own
    growth_bins: tuple[int, ...] = (44, 88, 175, 350)
    growth_nodes: tuple[int, ...] = (26, 51, 101, 201, 401)
    growth_increments: tuple[int, ...] = (2, 4, 8, 16)
    growth_states: tuple[int, ...] = (2, 3, 4)
    growth_agents: tuple[int, ...] = (375, 750, 1500, 3000)
    growth_periods: tuple[int, ...] = (13, 25, 50, 100)
    frame_rows: int = 1_000_000
    stream_rows: int = 3_000_000
    stream_large: int = 100_000_000
    stream_fit: int = 10_000_000


FULL = Size()
TINY = Size(
    bins=12,
    nodes=5,
    discount=0.9,
    agents=6,
    periods=5,
    repetitions=1,
    limit_nodes=21,
    smooth_nodes=(5, 11),
    discounts=(0.9,),
    seeds=(0,),
    general_observations=2,
    general_nodes=4,
    memory_nodes=9,
    memory_agents=(4, 8),
    sequences=4,
    peers=False,
    growth_bins=(8, 12),
    growth_nodes=(4, 6),
    growth_increments=(2, 3),
    growth_states=(2, 3),
    growth_agents=(3, 6),
    growth_periods=(3, 5),
    frame_rows=1_000,
    stream_rows=2_000,
    stream_large=4_000,
    stream_fit=2_000,
)
