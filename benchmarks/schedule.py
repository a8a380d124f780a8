"""How long one evaluation of a streamed likelihood takes on many workers: a formula, and a check.

The driver hands out files one by one and hears of each; both cost it c seconds and it does nothing
else. A worker solves the model at the new theta (s seconds, once), then needs r / rho seconds for a
file of r rows. With F files and W workers an evaluation takes about

    s + max(F c, ceil(F / W) r / rho),

so that workers beyond W* = (r / rho) / c wait for the driver. `simulate` plays the same schedule
out, file by file, with files that do not all take the same time.
"""

import dataclasses
import heapq
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Measured times, in seconds, and the size of the work."""

    rows: float
    rows_per_file: float
    rows_per_second: float  # of one worker
    call: float  # of the driver's time for one file
    solve: float = 0.1
    spread: float = 0.1  # standard deviation of the log of a file's time

    @property
    def files(self) -> int:
        """F."""
        return math.ceil(self.rows / self.rows_per_file)

    @property
    def file_seconds(self) -> float:
        """r / rho."""
        return self.rows_per_file / self.rows_per_second

    @property
    def saturation(self) -> float:
        """W*, the workers beyond which the driver is what takes the time."""
        return self.file_seconds / self.call

    def predicted(self, workers: int) -> float:
        """Seconds for one evaluation, by the formula."""
        rounds = math.ceil(self.files / workers)
        return self.solve + max(self.files * self.call, rounds * self.file_seconds)


def simulate(cluster: Cluster, workers: int, seed: int = 0) -> float:
    """Seconds for one evaluation, event by event: a free worker gets the next file."""
    rng = np.random.default_rng(seed)
    spread = cluster.spread
    lengths = cluster.file_seconds * np.exp(rng.normal(-(spread**2) / 2, spread, cluster.files))
    driver, ended = 0.0, 0.0
    free = [(0.0, k) for k in range(workers)]
    fresh = np.ones(workers, dtype=bool)
    for length in lengths:
        ready, worker = heapq.heappop(free)
        driver = max(driver, ready) + cluster.call  # hears of the last file, sends the next
        done = driver + length + (cluster.solve if fresh[worker] else 0.0)
        fresh[worker] = False
        ended = max(ended, done)
        heapq.heappush(free, (done, worker))
    return ended
