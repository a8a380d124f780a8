"""EM as a metric: expected counts against all hidden paths, and how few steps a far start takes."""

import collections
import itertools

import numpy as np
import pytest

import pomdpfit as pf
from helpers import random_paths
from pomdpfit._log_likelihood import Part
from pomdpfit.replication._synthetic_tables import START

BINS = 6
MODEL = pf.models.EngineReplacement(bins=BINS, increments=3, discount=0.9)
PRIOR = pf.KnownPrior([0.4, 0.6])
STEP = 1e-6


def panel(agents=3, periods=4):
    rng = np.random.default_rng(1)
    return random_paths(dense(MODEL.example()), [0.4, 0.6], [periods + 1] * agents, rng)


def dense(theta):
    return MODEL.primitives(theta).kernel.to_dense()


def expected_visits(P, data):
    """How often each (z, s, a) is left, over all hidden paths of all agents, given all z and a."""
    visits = np.zeros(P.shape[:3])
    for i in range(data.agent_count):
        z, a = np.asarray(data.z[i]), np.asarray(data.a[i])
        T = len(z) - 1  # the last z has no action
        chances = collections.Counter()
        for path in itertools.product(range(2), repeat=T + 1):
            chance = [0.4, 0.6][path[0]]
            for t in range(T):
                chance *= P[z[t], path[t], a[t], z[t + 1], path[t + 1]]
            for t in range(T):
                chances[z[t], path[t], a[t]] += chance
            chances["all"] += chance
        total = chances.pop("all")
        for place, chance in chances.items():
            visits[place] += chance / total
    return visits


def test_it_is_the_fisher_information_of_expected_visits_over_all_hidden_paths():
    data = panel()
    likelihood = pf.Likelihood(MODEL, data, prior=PRIOR, grid=pf.Linear(5))
    theta = {name: np.asarray(leaf) for name, leaf in MODEL.example().items()}
    names = ("stay", "increment")
    directions = {name: likelihood.space.free_directions()[name] for name in names}
    weights = np.ones((data.agent_count, 2))
    found = likelihood.complete_information(theta, weights, directions, part=Part.OBSERVATION)
    P = dense(theta)
    visits = expected_visits(P, data)
    moved = []
    for k in range(len(found)):
        ahead, behind = (
            dense({**theta, **{n: theta[n] + sign * STEP * directions[n][k] for n in names}})
            for sign in (1, -1)
        )
        moved.append((ahead - behind) / (2 * STEP))
    # Chances below one in so many visits count as that.
    count = visits[..., None, None]
    per = count / np.maximum(P, 1 / np.maximum(count, 1.0))
    expected = np.array([[(per * one * two).sum() for two in moved] for one in moved])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_there_is_none_for_choices_which_no_hidden_path_would_make_easier():
    data = panel()
    likelihood = pf.Likelihood(MODEL, data, prior=PRIOR, grid=pf.Linear(5))
    directions = likelihood.space.free_directions()
    weights = np.ones((data.agent_count, 2))
    for part in (Part.CHOICE, Part.BOTH):
        found = likelihood.complete_information(MODEL.example(), weights, directions, part=part)
        assert found is None


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 2])
def test_a_far_start_takes_few_slopes(monkeypatch, seed):
    asked = collections.Counter()
    pull = pf.Likelihood.pull

    def counting(self, *args, part=Part.BOTH, **kwargs):
        asked[part] += 1
        return pull(self, *args, part=part, **kwargs)

    monkeypatch.setattr(pf.Likelihood, "pull", counting)
    model = pf.models.EngineReplacement(bins=60, increments=4, discount=0.9999)
    prior = pf.KnownPrior([0.5, 0.5])
    data = pf.simulate(model, model.example(), agents=300, periods=60, seed=seed, prior=prior, z0=5)
    found = pf.fit(
        model, data, pf.TwoStage(), prior=prior, start=START, starts=1, grid=pf.Linear(9)
    )
    assert found.converged
    assert asked[Part.OBSERVATION] <= 20  # without EM: some eighty


@pytest.mark.full
def test_panels_that_share_what_moves_are_told_the_same():
    """Also where each agent has a prior of its own, and what moves was found without rows."""
    data = panel(agents=6)
    own = pf.KnownPrior(np.repeat([[0.4, 0.6]], 6, axis=0))
    weights = np.ones((6, 2))
    found = []
    for prior in (PRIOR, own):
        likelihood = pf.Likelihood(MODEL, data, prior=prior, grid=pf.Linear(5))
        directions = {"stay": likelihood.space.free_directions()["stay"]}
        for each in (likelihood, likelihood.on(data)):
            args = MODEL.example(), weights, directions
            found.append(each.complete_information(*args, part=Part.OBSERVATION))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-12)
