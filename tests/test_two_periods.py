"""Theorem 5 as a construction: where it recovers the hidden dynamics, and where it cannot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_reward

PRIORS = {2: [[0.3, 0.7], [0.8, 0.2]], 3: [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.1, 0.8, 0.1]]}


# P(z1, z2) among those who took a1: the second action goes with z1.
CHOSEN = np.broadcast_to(
    np.array([[0.4, 0.1], [0.1, 0.4]])[None, None, None, :, :, None], (1, 2, 2, 2, 2, 2)
)


def model_of(P):
    return Table(P, np.zeros(P.shape[:3]))


@pytest.mark.parametrize(("Z", "S", "A"), [(2, 2, 1), (3, 2, 2), (3, 3, 1), (2, 3, 2)])
def test_independent_priors_give_the_dynamics(Z, S, A):
    P = random_kernel(np.random.default_rng(Z + 10 * S), Z, S, A)
    found = pf.recover_dynamics(pf.two_periods(model_of(P), at(0.9), PRIORS[S]))
    assert found.complete
    # Rounding of some 1e-15 an entry, multiplied as is reported.
    worst = found.conditions["amplification"].max()
    np.testing.assert_allclose(found.kernel, P, atol=1e-14 * worst)
    assert found.misfit < 1e-14 * worst


def test_the_law_is_that_of_listed_paths():
    """P(z1, z2 | z0, a0, a1) by adding up hidden paths."""
    P = random_kernel(np.random.default_rng(5), 2, 2, 2)
    law = pf.two_periods(model_of(P), at(0.9), PRIORS[2]).law
    for k, z0, a0, z1, a1, z2 in np.ndindex(*law.shape):
        total = sum(
            PRIORS[2][k][s0] * P[z0, s0, a0, z1, s1] * P[z1, s1, a1, z2, s2]
            for s0, s1, s2 in np.ndindex(2, 2, 2)
        )
        assert law[k, z0, a0, z1, a1, z2] == pytest.approx(total, rel=1e-13)


def test_one_prior_is_not_enough():
    """The printed theorem's own setting: known x0, two periods, kernels of full rank."""
    P = random_kernel(np.random.default_rng(1), 2, 2, 1)
    found = pf.recover_dynamics(pf.two_periods(model_of(P), at(0.9), [[0.3, 0.7]]))
    assert not found.complete
    assert found.prior_rank == 1
    assert np.isnan(found.kernel).all()
    assert "rank 1 and |S| = 2" in found.summary()


def test_two_kernels_with_the_same_two_periods():
    """Why: another kernel has the same law of two periods from that one prior."""
    rng = np.random.default_rng(2)
    P = 0.5 * random_kernel(rng, 2, 2, 1) + 0.125
    x0 = np.array([0.3, 0.7])
    G = np.outer([0.7, -0.3], [1.0, -1.0]) * 0.1  # G 1 = 0 and x0 G = 0
    S = np.eye(2) + G
    other = np.einsum("st,ztauv,vw->zsauw", np.linalg.inv(S), P, S)
    assert (other > 0).all()
    assert np.abs(other - P).max() > 0.01
    laws = [pf.two_periods(model_of(table), at(0.9), x0).law for table in (P, other)]
    np.testing.assert_allclose(laws[0], laws[1], atol=1e-14)
    both = [pf.two_periods(model_of(table), at(0.9), PRIORS[2]).law for table in (P, other)]
    assert np.abs(both[0] - both[1]).max() > 1e-3


def test_states_that_expect_the_same_are_not_told_in_two_periods():
    """At z = 1 both states expect the same next observation: W(1) has rank one."""
    P = random_kernel(np.random.default_rng(3), 2, 2, 1)
    mass = P[1].sum(axis=-1, keepdims=True)
    P[1] = P[1] / mass * mass[:1]
    found = pf.recover_dynamics(pf.two_periods(model_of(P), at(0.9), PRIORS[2]))
    assert list(found.conditions["holds"]) == [True, False]
    np.testing.assert_allclose(found.kernel[:, :, :, 0], P[:, :, :, 0], atol=1e-11)
    assert np.isnan(found.kernel[:, :, :, 1]).all()
    assert "z1 = 1" in found.summary()


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_recovery_undoes_simulation(seed):
    rng = np.random.default_rng(seed)
    P = random_kernel(rng, 2, 2, 1)
    found = pf.recover_dynamics(pf.two_periods(model_of(P), at(0.9), PRIORS[2]))
    assert found.complete  # states that expect the very same have probability zero
    worst = found.conditions["amplification"].max()
    np.testing.assert_allclose(found.kernel, P, atol=1e-13 * worst)


@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
@settings(max_examples=25, deadline=None)
def test_errors_in_the_data_grow_by_no_more_than_is_said(seed, Z):
    """To first order: the noise is small enough for second order not to matter."""
    rng = np.random.default_rng(seed)
    P = 0.5 * random_kernel(rng, Z, 2, 1) + 0.25 / Z
    exact = pf.two_periods(model_of(P), at(0.9), PRIORS[2])
    worst = pf.recover_dynamics(exact).conditions["amplification"].max()
    noise = 1e-6 / worst * rng.normal(size=exact.law.shape)
    noise -= noise.mean(axis=(3, 5), keepdims=True)  # a law still sums to one
    found = pf.recover_dynamics(pf.TwoPeriods(exact.priors, exact.law + noise))
    size = np.sqrt((noise**2).sum(axis=(0, 4, 5))).max()
    assert np.abs(found.kernel - P).max() <= 1.01 * worst * size


def test_frequencies_of_a_panel_approach_the_law():
    """a1 is chosen after z1, by a policy: frequencies must be taken one period after the other."""
    rng = np.random.default_rng(3)
    P = 0.5 * random_kernel(rng, 2, 2, 2) + 0.125
    model = Table(P, random_reward(rng, 2, 2, 2))
    kind, first = np.arange(40_000) % 2, np.arange(40_000) // 2 % 2
    prior = pf.KnownPrior(np.array(PRIORS[2])[kind])
    panel = pf.simulate(
        model, at(0.5), agents=40_000, periods=2, seed=0, prior=prior, z0=first, grid=pf.Smooth(5)
    )
    found = pf.TwoPeriods.from_panel(panel, PRIORS[2], kind, 2, 2)
    exact = pf.two_periods(model, at(0.5), PRIORS[2])
    counts = np.zeros((2, 2, 2, 2, 2))
    z, a = panel.z, panel.a
    np.add.at(counts, (kind, z[:, 0], a[:, 0], z[:, 1], a[:, 1]), 1)
    assert counts.min() > 50
    # Five standard errors of a frequency in the rarest cell; the first period's are smaller.
    assert np.abs(found.law - exact.law).max() < 5 * 0.5 / np.sqrt(counts.min())
    assert pf.recover_dynamics(found).complete


def test_pairs_that_nobody_was_seen_in_are_not_invented():
    panel = pf.Panel.from_arrays([[0, 1, 0], [0, 0, 1], [1, 1, 0]], [[0, 0], [0, 0], [0, 0]])
    found = pf.TwoPeriods.from_panel(panel, PRIORS[2], [0, 0, 1], 2, 1)
    recovered = pf.recover_dynamics(found)
    assert not recovered.complete
    assert "never seen" in recovered.summary()


def test_rewards_play_no_part():
    P = random_kernel(np.random.default_rng(1), 2, 2, 2)
    r = random_reward(np.random.default_rng(1), 2, 2, 2)
    laws = [pf.two_periods(m, at(0.9), PRIORS[2]).law for m in (model_of(P), Table(P, r))]
    np.testing.assert_array_equal(*laws)


@pytest.mark.parametrize(
    ("priors", "law", "message"),
    [
        ([[0.5, 0.5]], np.ones((1, 2, 1, 2, 1, 3)), "the law must have shape"),
        ([[0.5, 0.6]], np.ones((1, 2, 1, 2, 1, 2)), "must be a belief"),
        ([[0.5, 0.5]], np.ones((1, 2, 1, 2, 1, 2)), "must sum to 1"),
        ([[0.5, 0.5]], CHOSEN, r"P\(z1\) must not depend on a1"),
    ],
)
def test_bad_laws_are_refused(priors, law, message):
    with pytest.raises(pf.ModelError, match=message):
        pf.TwoPeriods(np.array(priors), law)
