"""The formula for an evaluation on many workers, against the schedule played out."""

import pytest

from benchmarks.schedule import Cluster, simulate

pytestmark = pytest.mark.full


def cluster(**options):
    return Cluster(rows=1e10, rows_per_file=2e6, rows_per_second=1e6, call=1e-3, **options)


@pytest.mark.parametrize("workers", [1, 10, 100])
def test_with_equal_files_and_few_workers_the_formula_is_the_schedule(workers):
    """Then the driver's time is the only thing that it leaves out: once for each round."""
    equal = cluster(spread=0.0)
    rounds = -(-equal.files // workers)
    played = simulate(equal, workers)
    assert 0 <= played - equal.predicted(workers) <= equal.call * (rounds + workers)


def test_beyond_saturation_the_driver_takes_the_time():
    many = cluster()
    assert many.saturation == pytest.approx(2000)
    played = [simulate(many, int(times * many.saturation)) for times in (2, 4)]
    assert played[1] == pytest.approx(played[0], rel=0.05)
    assert played[0] == pytest.approx(many.predicted(4000) + many.file_seconds, rel=0.15)


def test_files_of_different_lengths_cost_less_than_one_file_more():
    """A free worker takes the next file: what is lost is at most the longest one at the end."""
    uneven = cluster(spread=0.3)
    even = uneven.rows / uneven.rows_per_second / 100
    assert even <= simulate(uneven, 100) <= even + 4 * uneven.file_seconds
