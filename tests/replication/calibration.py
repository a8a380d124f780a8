"""Simulation-based calibration of posteriors (Talts and others, 2018).

If theta is drawn from the prior, a panel from theta, and L draws from the panel's posterior, then
theta's rank among the draws is uniform on 0, ..., L: whatever is wrong with prior, likelihood,
Jacobian or sampler shows.
"""

import argparse
import time

import numpy as np
import pandas as pd
from scipy import stats

import pomdpfit as pf
from pomdpfit.bayes._log_density import data_of
from pomdpfit.bayes._sample_posterior import Sampler

GRID, START = pf.Smooth(5), pf.KnownPrior([0.5, 0.5])
MODEL = pf.models.Tiger(discount=0.8)
# Shocks of the size of the rewards, so that every action is taken often.
GIVEN = {"listen": -0.3, "mauled": -2.0}
GOLD, ACCURACY = (1.0, 1.0), (6.0, 2.0)  # a normal and a beta prior
AGENTS, PERIODS = 10, 6
DRAWS, THIN = 63, 3  # ranks 0, ..., 63


def draw_truths(replications: int) -> list[dict]:
    rng = np.random.default_rng(0)
    return [
        {**MODEL.example(), **GIVEN, "gold": rng.normal(*GOLD), "accuracy": rng.beta(*ACCURACY)}
        for _ in range(replications)
    ]


def likelihood_of(theta: dict, seed: int) -> pf.Likelihood:
    panel = pf.simulate(
        MODEL, theta, agents=AGENTS, periods=PERIODS, seed=seed, prior=START, grid=GRID
    )
    space = MODEL.space().fix(GIVEN)
    return pf.Likelihood(MODEL, panel, prior=START, grid=GRID, space=space)


def calibration_ranks(replications: int) -> pd.DataFrame:
    """One row a panel: the ranks of gold and accuracy."""
    import numpyro.distributions as dist

    priors = {"gold": dist.Normal(*GOLD), "accuracy": dist.Beta(*ACCURACY)}
    truths = draw_truths(replications)
    sampler, rows = None, []
    for k, theta in enumerate(truths):
        likelihood = likelihood_of(theta, seed=k)
        if sampler is None:
            sampler = Sampler(likelihood, priors, warmup=150, draws=DRAWS * THIN, accept=0.9)
        middle = {"gold": GOLD[0], "accuracy": ACCURACY[0] / sum(ACCURACY)}
        drawn = sampler(data_of(likelihood), [middle], chains=1, seed=k)
        rows.append(
            {name: int((drawn.draws[name][0, ::THIN] < theta[name]).sum()) for name in priors}
        )
    return pd.DataFrame(rows)


def uniformity(ranks: pd.Series, bins: int) -> float:
    """The p-value of chi-square over bins with equally many of the ranks 0, ..., DRAWS."""
    counts, _ = np.histogram(ranks, np.linspace(0, DRAWS + 1, bins + 1))
    return float(stats.chisquare(counts).pvalue)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=128)
    parser.add_argument("--bins", type=int, default=8)
    options = parser.parse_args()
    began = time.perf_counter()
    found = calibration_ranks(options.replications)
    for name in found:
        counts, _ = np.histogram(found[name], np.linspace(0, DRAWS + 1, options.bins + 1))
        print(name, counts, f"p = {uniformity(found[name], options.bins):.3f}")
    print(f"{time.perf_counter() - began:.0f} s")
