"""What a posterior warns of: chains, and priors against the closed form of normal ones."""

import re

import numpy as np
import pytest
from scipy import stats

import pomdpfit as pf
from small_signals import MODEL

numpyro = pytest.importorskip("numpyro", reason="the extra bayes is not installed")
dist = numpyro.distributions


def made_up(gain, diverging, priors=None):
    shape = diverging.shape
    seen = np.broadcast_to([0.7, 0.3], (*shape, 2))
    draws, stats = {"gain": gain, "seen": seen}, {"diverging": diverging}
    return pf.Posterior(draws, stats, MODEL.space(), 0, priors=priors or {})


def test_doubts_are_told():
    """Chains that agree, chains that do not, and a divergent draw."""
    rng, never = np.random.default_rng(0), np.zeros((2, 200), dtype=bool)
    gain = rng.normal(size=(2, 200))
    assert not made_up(gain, never).doubts
    (apart,) = made_up(gain + [[0.0], [3.0]], never).doubts
    assert "R-hat of gain" in apart
    (divergent,) = made_up(gain, never | (np.arange(200) == 7)).doubts
    assert divergent.startswith("2 draws")


def normal_draws(mean, sd):
    """A normal's quantiles in random order, in two chains: moments right to a percent."""
    order = np.random.default_rng(0).permutation(2000)
    return stats.norm(mean, sd).ppf((order + 0.5) / 2000).reshape(2, 1000)


@pytest.mark.parametrize(
    ("centre", "width"),
    [
        (0.0, 100.0),  # such as a default
        (0.0, 6.0),  # moves the mean by .19 standard deviations if it counts twice
        (0.0, 4.0),  # by .40; the posterior mean is 2.4 prior standard deviations from zero
        (0.0, 2.0),
        (10.0, 1.0),
        (10.0, 0.2),  # the posterior is the prior
    ],
)
def test_normal_priors_against_a_normal_likelihood(centre, width):
    """The data say 10 with standard error 1; s^-2 = 1 + width^-2 is the posterior's precision.

    If the prior counts alpha times, the mean moves by (centre - mean) s^2 / width^2 for each unit
    of alpha, and of its logarithm. ArviZ's measure of the same (0.05 is its threshold) must agree.
    """
    sd = (1 + width**-2) ** -0.5
    mean = sd**2 * (10 + centre / width**2)
    draws = normal_draws(mean, sd)
    found = made_up(draws, draws > np.inf, {"gain": dist.Normal(centre, width)})
    shift = np.log(2) * (centre - mean) * sd / width**2
    expected = []
    if abs(mean - centre) > 2 * width:
        expected.append(f"pull apart.*gain {abs(mean - centre) / width:.1f}")
    if abs(shift) > 0.3:
        expected.append(f"move the posterior.*gain {shift:+.2f}"[:-1])  # draws: to a percent
    if sd > 0.9 * width:
        expected.append(f"as wide as their prior.*gain {sd / width:.2f}")
    assert len(found.doubts) == len(expected)
    for text, pattern in zip(found.doubts, expected, strict=True):
        assert re.search(pattern.replace("+", r"\+"), text)
        assert text in re.sub(r"\n +", " ", str(found))
    arviz = pytest.importorskip("arviz", reason="the extra bayes is not installed")
    if hasattr(arviz, "psens"):
        density = stats.norm(centre, width).logpdf(draws)
        groups = {"posterior": {"gain": draws}, "log_prior": {"gain": density}}
        groups = {name: arviz.dict_to_dataset(group) for name, group in groups.items()}
        measure = float(arviz.psens(arviz.InferenceData(**groups))["gain"])
        assert (measure > 0.05) == (abs(shift) > 0.3 or sd > 0.9 * width)


def test_flat_priors_are_not_in_conflict_but_may_be_all_there_is():
    """A Dirichlet of ones has its mean far from (0.99, 0.01), and no say in it."""
    rng, never = np.random.default_rng(0), np.zeros((2, 500), dtype=bool)
    gain, uniform = rng.normal(size=(2, 500)), dist.Dirichlet(np.ones(2))
    sharp = made_up(gain, never, {"seen": uniform})
    seen = rng.beta(990, 10, size=(2, 500))
    sharp.draws["seen"] = np.stack([seen, 1 - seen], axis=-1)
    assert not sharp.doubts
    assert list(sharp.summary()["prior"]) == ["", "Dirichlet(1, 1)", "Dirichlet(1, 1)"]
    seen = rng.uniform(size=(2, 500))
    sharp.draws["seen"] = np.stack([seen, 1 - seen], axis=-1)
    (doubt,) = sharp.doubts
    assert "as wide as their prior" in doubt
    assert "seen[true]" in doubt
