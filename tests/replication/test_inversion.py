"""Rewards by inversion beside maximum likelihood: the table of docs/identification/rewards.md."""

import numpy as np
import pytest

import pomdpfit as pf
from replication import inversion


@pytest.mark.study
def test_inversion_along_a_reset_is_nearly_as_good_as_maximum_likelihood():
    """Bias within four of its Monte-Carlo errors, and a spread at most 40 % wider.

    A standard deviation from 100 panels is known to 7 %, a ratio of two to 10 % or less.
    """
    table = inversion.table([inversion.replicate(seed) for seed in range(100)])
    likelihood = table.loc["maximum likelihood"]
    reset = table.loc["inversion, replace, degree 3"]
    for parameter in inversion.REWARDS:
        for line in (likelihood, reset):
            assert abs(line[parameter, "bias"]) < 4 * line[parameter, "s.e. of bias"]
        assert reset[parameter, "s.d."] < 1.4 * likelihood[parameter, "s.d."]
        # Keeping for ever leads where there are no data.
        kept = table.loc["inversion, keep, degree 3"]
        assert kept[parameter, "s.d."] > reset[parameter, "s.d."]


@pytest.mark.study
@pytest.mark.parametrize("reference", ["keep", "replace"])
def test_the_papers_model_gives_its_rewards_back(reference):
    """175 bins, 101 nodes, a discount of 0.9999.

    A residual of 1e-10 may grow by 1 / (1 - 0.9999) along "keep"; it does not, for both the
    solution and its inverse are solved to rounding.
    """
    model = pf.models.EngineReplacement()
    solution = pf.solve(model, model.example())
    got = pf.invert_rewards(model, model.example(), reference=reference, policy=solution)
    np.testing.assert_allclose(got.table, model.reward(model.example()), atol=1e-8)
    assert np.max(got.nonlinearity) < 1e-8
