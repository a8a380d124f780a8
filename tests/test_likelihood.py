"""Log-likelihood terms against lists of hidden paths and trees of beliefs; masks; resets."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pomdpfit as pf
from helpers import Table, at, random_belief, random_kernel, random_paths, random_reward, relabel
from reference import enumeration, nfxp, tree

seeds = st.integers(0, 2**32 - 1)
EPOCHS, BETA = 4, 0.9


def log_choices(P, r, x0, z, a, entry=0):
    """log pi(a_t | z_t, x_t), t = 0.., by enumerated beliefs and the tree that grows from each."""
    emax, beliefs = tree.gumbel_emax(1.0), enumeration.filtered(P, x0, z, a[: len(z) - 1])
    out = []
    for t, act in enumerate(a):
        q = tree.soft_q(P, r, BETA, EPOCHS - entry - t, z[t], beliefs[t], emax)
        out.append(q[act] - emax(q))
    return np.array(out)


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_finite_horizon_terms_equal_enumerated_beliefs_and_trees(seed):
    rng = np.random.default_rng(seed)
    P, r, x0 = random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2), random_belief(rng, 2)
    panel = random_paths(P, x0, (4, 3), rng)
    z, a = [row.tolist() for row in panel.z], [row.tolist() for row in panel.a]
    # The second agent enters an epoch later, and acts in its last row too.
    z, a = [z[0], z[1][:3]], [a[0][:3], a[1][:3]]
    panel = pf.Panel.from_arrays(z, a, entry=[0, 1])
    got = pf.log_likelihood(
        Table(P, r, epochs=EPOCHS), at(BETA), panel, prior=pf.KnownPrior(x0), grid=pf.Smooth(2001)
    )
    total = 0.0
    for i, (entry, acts) in enumerate(zip([0, 1], a, strict=True)):
        moves = acts[: len(z[i]) - 1]
        observed = np.log(enumeration.sequence_probabilities(P, x0, z[i], moves))
        chosen = log_choices(P, r, x0, z[i], acts, entry)
        np.testing.assert_allclose(got.observation[i, : len(moves)], observed, atol=1e-13)
        np.testing.assert_allclose(got.choice[i, : len(acts)], chosen, atol=1e-10)
        assert (got.observation[i, len(moves) :] == 0).all()
        assert (got.choice[i, len(acts) :] == 0).all()
        total += observed.sum() + chosen.sum()
    assert got.total == pytest.approx(total, abs=1e-9)
    np.testing.assert_allclose(got.by_agent["total"].sum(), total, atol=1e-9)


def test_one_hidden_state_is_rusts_likelihood():
    rng = np.random.default_rng(1)
    P, r = random_kernel(rng, 4, 1, 2), random_reward(rng, 4, 1, 2)
    panel = random_paths(P, np.ones(1), (30,), rng)
    got = pf.log_likelihood(Table(P, r), at(0.95), panel)
    observation, choice = nfxp.mdp_log_likelihood(
        P[:, 0, :, :, 0], r[:, 0], 0.95, panel.z[0], panel.a[0, :-1]
    )
    np.testing.assert_allclose(got.observation[0, :-1], observation, atol=1e-13)
    np.testing.assert_allclose(got.choice[0, :-1], choice, atol=1e-10)


# ---- one random model with two hidden states, several ways to hold the data ------------------


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(2)
    P, r, x0 = random_kernel(rng, 3, 2, 2), random_reward(rng, 3, 2, 2), np.array([0.3, 0.7])
    return P, r, x0, random_paths(P, x0, (6, 3, 5), rng)


def evaluate(P, r, x0, panel, grid=pf.Smooth(11)):  # noqa: B008
    return pf.log_likelihood(Table(P, r), at(BETA), panel, prior=pf.KnownPrior(x0), grid=grid)


def test_a_choice_term_is_the_log_policy_at_the_filtered_belief(case):
    P, r, x0, panel = case
    got, sol = evaluate(P, r, x0, panel), pf.solve(Table(P, r), at(BETA), grid=pf.Smooth(11))
    policy = np.asarray(sol.policy(panel.z, got.belief))
    expected = np.log(np.take_along_axis(policy, panel.a[..., None], axis=-1)[..., 0])
    np.testing.assert_allclose(got.choice, np.where(panel.acted, expected, 0.0), atol=1e-13)


def test_masks_leave_terms_out_and_nothing_else(case):
    P, r, x0, panel = case
    rng = np.random.default_rng(3)
    choice, observation = rng.random((2, *panel.z.shape)) < 0.5
    full = evaluate(P, r, x0, panel)
    part = evaluate(P, r, x0, panel.score(choice=choice, observation=observation))
    np.testing.assert_array_equal(part.choice, np.where(choice, full.choice, 0.0))
    np.testing.assert_array_equal(part.observation, np.where(observation, full.observation, 0.0))
    np.testing.assert_array_equal(part.belief, full.belief)
    assert part.total == pytest.approx(part.choice.sum() + part.observation.sum(), rel=1e-14)


def test_priors_by_agent_are_matched_by_name(case):
    P, r, _, panel = case
    rows = np.array([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]])
    by_name = {2: rows[2], 0: rows[0], 1: rows[1]}
    got = evaluate(P, r, by_name, panel)
    np.testing.assert_allclose(got.belief[:, 0], rows, rtol=1e-15)
    for i in range(3):
        np.testing.assert_allclose(
            got.by_agent["total"].iloc[i],
            evaluate(P, r, rows[i], panel).by_agent["total"].iloc[i],
            rtol=1e-13,
        )


@pytest.mark.parametrize("grid", [pf.Smooth(11), pf.Linear(11)])
def test_relabelling_two_hidden_states_leaves_the_likelihood_unchanged(case, grid):
    P, r, x0, panel = case
    got = evaluate(P, r, x0, panel, grid)
    turned = evaluate(*relabel(P, r, [1, 0]), x0[::-1], panel, grid)
    np.testing.assert_allclose(turned.observation, got.observation, atol=1e-12)
    np.testing.assert_allclose(turned.choice, got.choice, atol=1e-12)


@pytest.mark.parametrize("order", [[1, 2, 0], [0, 2, 1]])
def test_relabelling_three_hidden_states_leaves_the_likelihood_unchanged(order):
    rng = np.random.default_rng(4)
    P, r, x0 = random_kernel(rng, 2, 3, 2), random_reward(rng, 2, 3, 2), random_belief(rng, 3)
    panel = random_paths(P, x0, (6, 4), rng)
    got = evaluate(P, r, x0, panel, pf.Linear(7))
    turned = evaluate(*relabel(P, r, order), x0[order], panel, pf.Linear(7))
    np.testing.assert_allclose(turned.observation, got.observation, atol=1e-12)
    np.testing.assert_allclose(turned.choice, got.choice, atol=1e-12)


# ---- a replacement that is followed by z' = 1 ------------------------------------------------


def bus(reset):
    model = pf.models.EngineReplacement(bins=8, discount=0.9, reset=reset)
    panel = pf.Panel.from_arrays(
        [[0, 2, 5, 1, 3], [1, 2, 4, 0, 2]], [[0, 0, 1, 0], [0, 0, 1, 0]], agents=("5298", "5301")
    )
    return model, model.example(), panel, {"prior": pf.KnownPrior([0.8, 0.2]), "grid": pf.Smooth(5)}


def test_a_mileage_above_zero_after_a_certain_reset_is_an_error_unasked():
    model, theta, panel, options = bus("at_zero")
    with pytest.raises(pf.ImpossibleObservationError, match=r"'5298', time 2.*z'=1 after z=5, a=1"):
        pf.log_likelihood(model, theta, panel, **options)


def test_such_transitions_can_be_left_out_and_the_belief_resets_all_the_same():
    model, theta, panel, options = bus("at_zero")
    out = pf.impossible_transitions(model, theta, panel)
    assert out[["agent", "time", "z", "a", "z_next"]].values.tolist() == [["5298", 2, 5, 1, 1]]
    excluded = panel.exclude_transitions(out)
    got = pf.log_likelihood(model, theta, excluded, **options)
    np.testing.assert_array_equal(got.belief[:, 3], [[1.0, 0.0], [1.0, 0.0]])
    assert got.observation[0, 2] == 0.0  # not scored
    assert abs(got.observation[1, 2]) < 1e-15  # certain
    stay, moves = np.asarray(theta["stay"]), np.asarray(theta["increment"])
    np.testing.assert_allclose(got.observation[:, 3], np.log(moves[0, 2]), rtol=1e-13)
    np.testing.assert_allclose(got.belief[:, 4], [[stay[0], 1 - stay[0]]] * 2, rtol=1e-13)
    assert "1 transitions excluded" in " ".join(excluded.notes)


def test_a_reset_by_an_increment_accepts_them():
    model, theta, panel, options = bus("increment")
    assert pf.impossible_transitions(model, theta, panel).empty
    got = pf.log_likelihood(model, theta, panel, **options)
    moves = np.asarray(theta["increment"])[0]
    np.testing.assert_allclose(got.observation[:, 2], np.log(moves[[1, 0]]), rtol=1e-13)
    np.testing.assert_array_equal(got.belief[:, 3], [[1.0, 0.0], [1.0, 0.0]])


def test_engine_beliefs_equal_the_enumeration_of_all_hidden_paths():
    """The top bin collects several increments, whose kernels add up before Bayes' rule."""
    model, theta, _, options = bus("increment")
    z, a = [3, 5, 7, 7, 1, 3], [0, 0, 0, 1, 0]
    got = pf.log_likelihood(model, theta, pf.Panel.from_arrays([z], [a]), **options)
    stay, moves = np.asarray(theta["stay"]), np.asarray(theta["increment"])
    P = np.zeros((8, 2, 2, 8, 2))
    for z0, s, j in np.ndindex(8, 2, 4):
        P[z0, s, 0, min(z0 + j, 7), s] += moves[s, j] * stay[s]
        P[z0, s, 0, min(z0 + j, 7), 1 - s] += moves[s, j] * (1 - stay[s])
        P[z0, s, 1, j, 0] = moves[0, j]
    x0 = np.array([0.8, 0.2])
    expected = np.log(enumeration.sequence_probabilities(P, x0, z, a))
    np.testing.assert_allclose(got.observation[0, :5], expected, atol=1e-13)
    np.testing.assert_allclose(got.belief[0], enumeration.filtered(P, x0, z, a), rtol=1e-13)
