"""Size and power of the test of MDP against POMDP, by Monte Carlo."""

import os

import pytest
from joblib import Parallel, delayed

from replication import states


def run(effect, count):
    jobs = Parallel(n_jobs=os.cpu_count())
    return states.rejections(jobs(delayed(states.replicate)(effect, s) for s in range(count)))


@pytest.mark.study
def test_size_of_the_test_of_mdp_against_pomdp():
    """300 replications; three standard errors, the critical value's own error counted in."""
    found = run(0.0, 300)
    for name in ("likelihood ratio", "serial", "order", "order of choices"):
        share, _ = found[name]
        variance = 0.05 * 0.95 / 300 * (2 if name == "likelihood ratio" else 1)
        assert abs(share - 0.05) < 3 * variance**0.5, (name, share)


@pytest.mark.study
def test_power_of_the_test_of_mdp_against_pomdp():
    """It grows with what is hidden, and a lot is nearly always found."""
    weak, strong = (run(effect, 100)["likelihood ratio"][0] for effect in (0.4, 1.0))
    assert weak < strong
    assert strong > 0.8
