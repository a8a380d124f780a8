"""Are posteriors calibrated? Ranks over panels drawn from the prior."""

import pytest

from replication import calibration


@pytest.mark.study
def test_ranks_of_the_truth_are_uniform():
    """128 panels; each parameter's chi-square fails by chance once in a thousand runs."""
    pytest.importorskip("numpyro", reason="the extra bayes is not installed")
    ranks = calibration.calibration_ranks(128)
    for name in ranks:
        assert calibration.uniformity(ranks[name], bins=8) > 1e-3, ranks[name].tolist()
