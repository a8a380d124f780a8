"""Bayes' rule along panels, against lists of all hidden paths and exact log-odds."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pomdpfit as pf
from helpers import Table, at, random_belief, random_kernel, random_paths, random_reward
from reference import enumeration

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)
EPS = np.finfo(float).eps


def table(P) -> Table:
    return Table(P, np.zeros(P.shape[:3]))


def beliefs(P, x0, panel, how=pf.filter_beliefs):
    return how(table(P), at(0.9), panel, prior=pf.KnownPrior(x0))


def sequences(panel):
    """z and a of each agent without padding; there is one action for each transition."""
    for i, length in enumerate(panel.present.sum(axis=1)):
        yield i, panel.z[i, :length].tolist(), panel.a[i, : length - 1].tolist()


@given(seed=seeds, S=st.sampled_from([1, 2, 3]), zeros=st.booleans())
@few
def test_filter_and_smoother_equal_the_enumeration_of_all_hidden_paths(seed, S, zeros):
    rng = np.random.default_rng(seed)
    P = random_kernel(rng, 3, S, 2, zeros=zeros)
    x0 = np.eye(S)[rng.integers(S)] if zeros else random_belief(rng, S)
    panel = random_paths(P, x0, (7, 1 + int(rng.integers(6)), 1), rng)
    filtered = beliefs(P, x0, panel)
    smoothed = beliefs(P, x0, panel, pf.smooth_beliefs)
    for i, z, a in sequences(panel):
        n = len(a)
        # An error of 1e-13 in log sigma is a relative error of 1e-13 in the probability sigma.
        expected = np.log(enumeration.sequence_probabilities(P, x0, z, a))
        np.testing.assert_allclose(filtered.log_sigma[i, :n], expected, rtol=1e-13, atol=1e-13)
        total = enumeration.sequence_log_likelihood(P, x0, z, a)
        np.testing.assert_allclose(filtered.log_sigma[i].sum(), total, rtol=1e-13, atol=1e-13)
        np.testing.assert_array_equal(filtered.log_sigma[i, n:], 0.0)
        expected = enumeration.filtered(P, x0, z, a)
        np.testing.assert_allclose(filtered.x[i, : n + 1], expected, rtol=1e-13)
        expected = enumeration.smoothed(P, x0, z, a)
        np.testing.assert_allclose(smoothed.x[i, : n + 1], expected, rtol=1e-13)


@pytest.mark.parametrize("how", [pf.filter_beliefs, pf.smooth_beliefs])
def test_a_ragged_panel_equals_its_agents_one_by_one(how):
    rng = np.random.default_rng(1)
    P, x0 = random_kernel(rng, 3, 2, 2), np.array([0.3, 0.7])
    panel = random_paths(P, x0, (5, 2), rng)
    together = beliefs(P, x0, panel, how)
    for i, z, a in sequences(panel):
        alone = beliefs(P, x0, pf.Panel.from_arrays([z], [a]), how)
        n = len(z)
        np.testing.assert_allclose(together.x[i, :n], alone.x[0], rtol=4 * EPS)
        np.testing.assert_allclose(together.log_sigma[i, :n], alone.log_sigma[0], atol=8 * EPS)


def test_a_hundred_thousand_periods_do_not_underflow():
    rng, T = np.random.default_rng(2), 100_000
    P, x = random_kernel(rng, 2, 2, 1), np.array([0.5, 0.5])
    z = rng.integers(0, 2, size=T + 1)
    got = beliefs(P, x, pf.Panel.from_arrays([z], [np.zeros(T, dtype=int)]))
    expected = np.empty(T)
    for t in range(T):  # the plain recursion, normalised in every period
        mass = x @ P[z[t], :, 0, z[t + 1]]
        expected[t] = math.log(mass.sum())
        x = mass / mass.sum()
    # This kernel forgets, so that rounding does not pile up from period to period.
    np.testing.assert_allclose(got.log_sigma[0, :T], expected, atol=1e-13)
    np.testing.assert_allclose(got.x[0, -1], x, rtol=1e-13)
    assert got.log_sigma.sum() == pytest.approx(math.fsum(expected), rel=1e-12)
    assert got.log_sigma.sum() < -10_000  # far below the log of the smallest float, -745


def test_a_type_given_up_for_thousands_of_periods_comes_back():
    """Static types: the log-odds count the evidence, whatever the belief has rounded to."""
    T, half = 100_000, 50_000
    emits = np.array([[0.7, 0.3], [0.4, 0.6]])
    P = np.einsum("sk,st->skt", emits, np.eye(2))[None, :, None].repeat(2, axis=0)
    z = np.concatenate([[0], np.zeros(half, dtype=int), np.ones(half, dtype=int)])
    panel = pf.Panel.from_arrays([z], [np.zeros(T, dtype=int)])
    zeros = np.concatenate([np.arange(half + 1), np.full(half, half)])
    ones = np.concatenate([np.zeros(half + 1), np.arange(1, half + 1)])
    log_weight = zeros[:, None] * np.log(emits[:, 0]) + ones[:, None] * np.log(emits[:, 1])
    log_weight += np.log([0.25, 0.75])
    log_total = np.logaddexp(log_weight[:, 0], log_weight[:, 1])
    odds = log_weight[:, 1] - log_weight[:, 0]
    assert odds.min() < -25_000  # exp(-25 000) is no float
    assert odds[-1] > 5_000
    # Every period may round the log-odds by an ulp of their largest size, and no worse.
    accuracy = T * np.spacing(np.abs(odds).max())
    assert accuracy < 1e-6
    got = beliefs(P, [0.25, 0.75], panel)
    np.testing.assert_allclose(got.x[0, :, 1], 1 / (1 + np.exp(-odds.clip(-700))), atol=accuracy)
    expected = np.log(np.exp(log_weight - log_total[:, None])[:-1] @ emits)
    expected = np.take_along_axis(expected, z[1:, None], axis=1)[:, 0]
    np.testing.assert_allclose(got.log_sigma[0, :T], expected, atol=accuracy)
    assert got.log_sigma.sum() == pytest.approx(log_total[-1], rel=1e-12)
    back = np.flatnonzero(odds[half:] > 0)[0] + half
    assert got.x[0, back - 2, 1] < 0.5 < got.x[0, back + 2, 1]
    smoothed = beliefs(P, [0.25, 0.75], panel, pf.smooth_beliefs)
    np.testing.assert_allclose(smoothed.x[0, :, 1], 1.0, atol=accuracy)  # a type never changes


@given(seed=seeds)
@few
def test_an_excluded_transition_moves_the_belief_by_the_hidden_transition_alone(seed):
    rng = np.random.default_rng(seed)
    P, x0 = random_kernel(rng, 3, 2, 2), random_belief(rng, 2)
    panel = random_paths(P, x0, (5,), rng)
    out = rng.random((1, 5)) < 0.5
    got = beliefs(P, x0, panel.exclude_transitions(out))
    x, (z, a) = x0, (panel.z[0], panel.a[0])
    for t in range(4):
        np.testing.assert_allclose(got.x[0, t], x, rtol=1e-13)
        step = P[z[t], :, a[t]]
        mass = x @ (step.sum(axis=1) if out[0, t] else step[:, z[t + 1]])
        expected = 0.0 if out[0, t] else math.log(mass.sum())
        np.testing.assert_allclose(got.log_sigma[0, t], expected, atol=1e-13)
        x = mass / mass.sum()
    np.testing.assert_allclose(got.x[0, 4], x, rtol=1e-13)


# ---- impossible observations ---------------------------------------------------------------


def impossible():
    """z' = 1 needs s = 1, and the second agent is sure of s = 0."""
    P = np.zeros((2, 2, 1, 2, 2))
    P[:, 0, 0, 0] = [1.0, 0.0]
    P[:, 1, 0, 0], P[:, 1, 0, 1] = [0.0, 0.75], [0.0, 0.25]
    panel = pf.Panel.from_arrays(
        [[0, 0, 0], [0, 0, 1]], [[0, 0], [0, 0]], agents=("bus 3", "bus 7")
    )
    return P, panel, [[0.5, 0.5], [1.0, 0.0]]


NAMED = r"agent 'bus 7', time 1: .*z'=1 after z=0, a=0.*\(0, 0\.25\).*\(1, 0\)"


@pytest.mark.parametrize("how", [pf.filter_beliefs, pf.smooth_beliefs, pf.log_likelihood])
def test_an_impossible_observation_names_agent_period_and_probabilities(how):
    P, panel, x0 = impossible()
    with pytest.raises(pf.ImpossibleObservationError, match=NAMED):
        beliefs(P, x0, panel, how)


@pytest.mark.parametrize("how", [pf.filter_beliefs, pf.log_likelihood])
def test_an_impossible_observation_is_an_error_even_where_it_is_not_scored(how):
    P, panel, x0 = impossible()
    unscored = panel.score(observation=np.zeros((2, 3), dtype=bool))
    with pytest.raises(pf.ImpossibleObservationError, match=NAMED):
        beliefs(P, x0, unscored, how)


@pytest.mark.parametrize("how", [pf.filter_beliefs, pf.log_likelihood])
def test_an_impossible_observation_that_is_excluded_is_no_error(how):
    P, panel, x0 = impossible()
    out = np.array([[False] * 3, [False, True, False]])
    assert beliefs(P, x0, panel.exclude_transitions(out), how) is not None


def test_relabelling_hidden_states_relabels_beliefs():
    rng = np.random.default_rng(5)
    P, x0, order = random_kernel(rng, 3, 3, 2), random_belief(rng, 3), [2, 0, 1]
    panel = random_paths(P, x0, (7, 4), rng)
    got = beliefs(P, x0, panel)
    turned = beliefs(P[:, order][..., order], x0[order], panel)
    np.testing.assert_allclose(turned.x, got.x[..., order], rtol=1e-13)
    np.testing.assert_allclose(turned.log_sigma, got.log_sigma, atol=1e-13)


def test_models_of_one_shape_share_their_compiled_code():
    """What keeps random models cheap: their arrays are traced, not constants."""
    calls = []

    class Counting(Table):
        def kernel(self, theta):
            calls.append(1)  # runs only while JAX traces
            return super().kernel(theta)

    for seed in range(3):
        rng = np.random.default_rng(seed)
        model = Counting(random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2))
        pf.solve(model, at(0.9), grid=pf.Smooth(11))
        if seed == 0:
            first = len(calls)
    assert len(calls) == first
