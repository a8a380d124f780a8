"""The oracles checked against each other and against closed forms."""

import itertools
import math

import numpy as np
import pytest

from reference import agent, enumeration, nfxp, tree

Z, S, A = 3, 2, 2
SEQUENCE = ([0, 2, 1, 1, 0], [1, 0, 0, 1])
X0 = np.array([0.3, 0.7])


def random_kernel(seed: int, nz: int = Z, ns: int = S, na: int = A) -> np.ndarray:
    rng = np.random.default_rng(seed)
    P = rng.gamma(0.7, size=(nz, ns, na, nz, ns))
    return P / P.sum(axis=(3, 4), keepdims=True)


def random_reward(seed: int, nz: int = Z, ns: int = S, na: int = A) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(nz, ns, na))


def log_sum_exp(q: np.ndarray, scale: float) -> np.ndarray:
    """scale log sum exp(q / scale) over the last axis."""
    return scale * np.log(np.exp(q / scale).sum(axis=-1))


# enumeration


def test_probabilities_of_all_sequences_sum_to_one() -> None:
    P, actions = random_kernel(0), [1, 0, 1]
    total = math.fsum(
        math.exp(enumeration.sequence_log_likelihood(P, X0, (2, *tail), actions))
        for tail in itertools.product(range(Z), repeat=3)
    )
    assert total == pytest.approx(1.0, abs=1e-14)


def test_next_observation_probabilities_sum_to_one_at_each_epoch() -> None:
    P, (z, a) = random_kernel(1), SEQUENCE
    for t in range(len(a)):
        total = sum(
            enumeration.sequence_probabilities(P, X0, [*z[: t + 1], z1], a[: t + 1])[t]
            for z1 in range(Z)
        )
        assert total == pytest.approx(1.0, abs=1e-14)


def test_conditional_probabilities_multiply_to_the_likelihood() -> None:
    P, (z, a) = random_kernel(2), SEQUENCE
    product = np.log(enumeration.sequence_probabilities(P, X0, z, a)).sum()
    assert product == pytest.approx(enumeration.sequence_log_likelihood(P, X0, z, a), abs=1e-13)


def test_likelihood_by_matrix_products() -> None:
    P, (z, a) = random_kernel(3), SEQUENCE
    row = X0
    for t in range(len(a)):
        row = row @ P[z[t], :, a[t], z[t + 1], :]
    expected = math.log(row.sum())
    assert enumeration.sequence_log_likelihood(P, X0, z, a) == pytest.approx(expected, abs=1e-13)
    np.testing.assert_allclose(enumeration.filtered(P, X0, z, a)[-1], row / row.sum(), atol=1e-14)


def test_smoothed_by_forward_and_backward_products() -> None:
    P, (z, a) = random_kernel(4), SEQUENCE
    steps = [P[z[t], :, a[t], z[t + 1], :] for t in range(len(a))]
    got = enumeration.smoothed(P, X0, z, a)
    for t in range(len(z)):
        forward, backward = X0, np.ones(S)
        for M in steps[:t]:
            forward = forward @ M
        for M in reversed(steps[t:]):
            backward = M @ backward
        np.testing.assert_allclose(got[t], forward * backward / (forward @ backward), atol=1e-14)


def test_filtered_starts_at_the_prior_and_ends_at_smoothed() -> None:
    P, (z, a) = random_kernel(5), SEQUENCE
    filtered = enumeration.filtered(P, X0, z, a)
    smoothed = enumeration.smoothed(P, X0, z, a)
    assert filtered.shape == smoothed.shape == (len(z), S)
    np.testing.assert_allclose(filtered[0], X0, atol=1e-15)
    np.testing.assert_allclose(filtered[-1], smoothed[-1], atol=1e-15)
    np.testing.assert_allclose(filtered.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(smoothed.sum(axis=1), 1.0, atol=1e-14)


def test_filtered_is_the_mean_of_smoothed_over_the_next_observation() -> None:
    P, (z, a) = random_kernel(6), SEQUENCE
    mean = np.zeros(S)
    for z1 in range(Z):
        longer = [*z[:-1], z1]
        probability = enumeration.sequence_probabilities(P, X0, longer, a)[-1]
        mean += probability * enumeration.smoothed(P, X0, longer, a)[-2]
    np.testing.assert_allclose(mean, enumeration.filtered(P, X0, z, a)[-2], atol=1e-14)


def test_an_impossible_observation() -> None:
    P = np.zeros((2, 1, 1, 2, 1))
    P[:, :, :, 0, :] = 1.0
    z, a, x0 = [0, 1, 0], [0, 0], np.array([1.0])
    assert enumeration.sequence_log_likelihood(P, x0, z, a) == -math.inf
    np.testing.assert_array_equal(enumeration.sequence_probabilities(P, x0, z, a), [0.0, np.nan])


# tree


def test_emax_is_the_mean_of_the_best_of_mean_zero_gumbel_draws() -> None:
    scale, q = 0.6, np.array([0.2, -0.4, 0.5])
    draws = np.random.default_rng(7).gumbel(-scale * np.euler_gamma, scale, size=(200_000, 3))
    assert np.abs(draws.mean(axis=0)).max() < 0.01
    emax = tree.gumbel_emax(scale)
    assert emax(q) == pytest.approx((q + draws).max(axis=1).mean(), abs=0.01)
    assert emax(q) == pytest.approx(log_sum_exp(q, scale), abs=1e-14)
    assert emax(np.array([1.5])) == 1.5
    assert emax(np.array([1e4, 1e4])) == pytest.approx(1e4 + scale * math.log(2.0))


def test_without_discounted_future_q_is_the_expected_reward() -> None:
    P, r = random_kernel(8), random_reward(8)
    for horizon in (1, 3):
        q = tree.soft_q(P, r, 0.0, horizon, 1, X0, tree.gumbel_emax(1.0))
        np.testing.assert_allclose(q, X0 @ r[1], atol=1e-15)


def test_one_epoch_with_a_terminal_value_is_linear_in_the_belief() -> None:
    P, r = random_kernel(9), random_reward(9)
    terminal = random_reward(10)[:, :, 0]
    q = tree.soft_q(P, r, 0.9, 1, 2, X0, tree.gumbel_emax(1.0), terminal=terminal)
    expected = X0 @ (r[2] + 0.9 * np.einsum("saij,ij->sa", P[2], terminal))
    np.testing.assert_allclose(q, expected, atol=1e-14)


def test_a_constant_terminal_value_shifts_q() -> None:
    P, r, emax = random_kernel(11), random_reward(11), tree.gumbel_emax(0.8)
    base = tree.soft_q(P, r, 0.9, 3, 0, X0, emax)
    moved = tree.soft_q(P, r, 0.9, 3, 0, X0, emax, terminal=np.full((Z, S), 2.0))
    np.testing.assert_allclose(moved - base, 0.9**3 * 2.0, atol=1e-13)


def test_two_epochs_from_enumerated_beliefs() -> None:
    P, r, beta, scale = random_kernel(12), random_reward(12), 0.95, 0.7
    expected = X0 @ r[1]
    for a in range(A):
        for z1 in range(Z):
            probability = enumeration.sequence_probabilities(P, X0, [1, z1], [a])[0]
            belief = enumeration.filtered(P, X0, [1, z1], [a])[1]
            expected[a] += beta * probability * log_sum_exp(belief @ r[z1], scale)
    q = tree.soft_q(P, r, beta, 2, 1, X0, tree.gumbel_emax(scale))
    np.testing.assert_allclose(q, expected, atol=1e-14)


def test_a_revealed_state_gives_the_finite_horizon_mdp() -> None:
    nz, beta, scale, horizon = 4, 0.9, 0.7, 4
    reveals = np.zeros((nz, S))
    for z in range(nz):
        reveals[z, z % S] = 1.0
    P = random_kernel(13, nz=nz) * reveals
    P /= P.sum(axis=(3, 4), keepdims=True)
    r = random_reward(13, nz=nz)

    V = np.zeros((nz, S))
    for _ in range(horizon):
        Q = r + beta * np.einsum("zsaij,ij->zsa", P, V)
        V = log_sum_exp(Q, scale)
    for z in range(nz):
        q = tree.soft_q(P, r, beta, horizon, z, reveals[z], tree.gumbel_emax(scale))
        np.testing.assert_allclose(q, Q[z, z % S], atol=1e-13)


def test_information_never_lowers_the_value() -> None:
    """The same state process and payoff; one observation says nothing, the other tells s'."""
    emax, rng = tree.gumbel_emax(1.0), np.random.default_rng(14)
    move = rng.dirichlet(np.ones(S), size=(S, A))
    r = np.repeat(3.0 * rng.normal(size=(1, S, A)), S, axis=0)
    blind, told = np.zeros((S, S, A, S, S)), np.zeros((S, S, A, S, S))
    for s1 in range(S):
        blind[:, :, :, 0, s1] = move[None, :, :, s1]
        told[:, :, :, s1, s1] = move[None, :, :, s1]
    low = tree.soft_q(blind, r, 0.9, 3, 0, X0, emax)
    high = tree.soft_q(told, r, 0.9, 3, 0, X0, emax)
    assert np.all(high > low)


def test_an_action_never_available_is_as_good_as_absent() -> None:
    P, r, emax = random_kernel(15, na=3), random_reward(15, na=3), tree.gumbel_emax(1.0)
    available = np.ones((Z, 3), dtype=bool)
    available[:, 1] = False
    q = tree.soft_q(P, r, 0.9, 3, 0, X0, emax, available=available)
    small = tree.soft_q(P[:, :, [0, 2]], r[:, :, [0, 2]], 0.9, 3, 0, X0, emax)
    assert q[1] == -np.inf
    np.testing.assert_allclose(q[[0, 2]], small, atol=1e-14)


@pytest.mark.parametrize("masked", [False, True])
def test_long_horizon_with_one_hidden_state_approaches_the_mdp(masked: bool) -> None:
    nz, beta, scale, horizon = 2, 0.05, 0.7, 8
    P, r = random_kernel(16, nz=nz, ns=1), random_reward(16, nz=nz, ns=1)
    available = np.array([[True, not masked], [True, True]])
    V, Q, _ = nfxp.solve_mdp(P[:, 0, :, :, 0], r[:, 0], beta, scale, available=available)
    for z in range(nz):
        q = tree.soft_q(
            P, r, beta, horizon, z, np.ones(1), tree.gumbel_emax(scale), available=available
        )
        np.testing.assert_allclose(q, Q[z], atol=2 * beta**horizon * np.abs(V).max())


# nfxp


def test_mdp_with_a_constant_reward() -> None:
    P = random_kernel(17, ns=1)[:, 0, :, :, 0]
    for beta in (0.0, 0.5, 0.9999):
        V, Q, choice = nfxp.solve_mdp(P, np.full((Z, A), -1.3), beta, scale=0.6)
        np.testing.assert_allclose(V, (-1.3 + 0.6 * math.log(A)) / (1.0 - beta), rtol=1e-10)
        np.testing.assert_allclose(Q, -1.3 + beta * V[0], rtol=1e-10)
        np.testing.assert_allclose(choice, 1.0 / A, atol=1e-10)


def test_mdp_by_value_iteration() -> None:
    P, r = random_kernel(18, ns=1)[:, 0, :, :, 0], random_reward(18, ns=1)[:, 0]
    beta, scale = 0.8, 1.4
    expected = np.zeros(Z)
    for _ in range(300):
        expected = log_sum_exp(r + beta * P @ expected, scale)
    V, Q, choice = nfxp.solve_mdp(P, r, beta, scale)
    np.testing.assert_allclose(V, expected, atol=1e-12)
    np.testing.assert_allclose(choice, np.exp((Q - V[:, None]) / scale), atol=1e-12)


def test_mdp_ignores_what_is_written_at_unavailable_actions() -> None:
    P, r = random_kernel(19, ns=1)[:, 0, :, :, 0], random_reward(19, ns=1)[:, 0]
    available = np.ones((Z, A), dtype=bool)
    available[:, 1] = False
    P[:, 1], r[:, 1] = np.nan, np.nan
    V, Q, choice = nfxp.solve_mdp(P, r, 0.9, available=available)
    np.testing.assert_allclose(V, np.linalg.solve(np.eye(Z) - 0.9 * P[:, 0], r[:, 0]), atol=1e-11)
    assert np.all(Q[:, 1] == -np.inf)
    np.testing.assert_array_equal(choice, [[1.0, 0.0]] * Z)


def test_mdp_likelihood_with_one_hidden_state() -> None:
    P, r = random_kernel(20, ns=1), random_reward(20, ns=1)[:, 0]
    z, a = SEQUENCE
    observation, choice = nfxp.mdp_log_likelihood(P[:, 0, :, :, 0], r, 0.9, z, a, scale=0.8)
    _, _, probabilities = nfxp.solve_mdp(P[:, 0, :, :, 0], r, 0.9, scale=0.8)
    enumerated = enumeration.sequence_probabilities(P, np.ones(1), z, a)
    np.testing.assert_allclose(observation, np.log(enumerated), atol=1e-13)
    np.testing.assert_allclose(choice, np.log(probabilities[z[:-1], a]), atol=1e-11)


# agent


def belief_policy(z: int, x: np.ndarray) -> np.ndarray:
    p = 0.1 + 0.8 * x[0] * (z + 1) / Z
    return np.array([p, 1.0 - p])


def test_simulated_beliefs_are_the_enumerated_ones() -> None:
    P = random_kernel(21)
    z, a, s, x = agent.simulate(P, belief_policy, X0, 1, 6, np.random.default_rng(21))
    assert z.shape == s.shape == (7,)
    assert a.shape == (6,)
    assert x.shape == (7, S)
    assert z[0] == 1
    np.testing.assert_allclose(x, enumeration.filtered(P, X0, z, a), atol=1e-13)
    assert all(P[z[t], s[t], a[t], z[t + 1], s[t + 1]] > 0.0 for t in range(6))


def test_simulated_frequencies() -> None:
    """Choices follow the policy, states the belief, pairs the kernel, each within 5 errors."""
    P, rng = random_kernel(22), np.random.default_rng(22)
    surprises: dict[str, list[float]] = {"choice": [], "state": [], "observation": [], "next": []}
    for _ in range(200):
        z, a, s, x = agent.simulate(P, belief_policy, X0, 0, 20, rng)
        surprises["state"].append(float(s[0] == 0) - X0[0])
        for t in range(20):
            here = P[z[t], s[t], a[t]]
            surprises["choice"].append(float(a[t] == 0) - belief_policy(z[t], x[t])[0])
            surprises["observation"].append(float(z[t + 1] == 0) - here[0].sum())
            surprises["next"].append(float(s[t + 1] == 0) - here[:, 0].sum())
            surprises["state"].append(float(s[t + 1] == 0) - x[t + 1, 0])
    for name in ("choice", "observation", "next"):
        values = np.array(surprises[name])
        assert abs(values.mean()) < 5.0 * values.std() / math.sqrt(values.size), name
    # beliefs in one history share their errors, so the state check is looser
    assert abs(np.mean(surprises["state"])) < 0.05


def test_a_deterministic_world() -> None:
    P = np.zeros((Z, S, A, Z, S))
    for z, s, a in itertools.product(range(Z), range(S), range(A)):
        P[z, s, a, (z + 1 + a) % Z, 1 - s] = 1.0
    x0 = np.array([0.0, 1.0])
    rng = np.random.default_rng(23)
    z, a, s, x = agent.simulate(P, lambda z, x: np.array([0.0, 1.0]), x0, 0, 3, rng)
    np.testing.assert_array_equal(z, [0, 2, 1, 0])
    np.testing.assert_array_equal(a, [1, 1, 1])
    np.testing.assert_array_equal(s, [1, 0, 1, 0])
    np.testing.assert_array_equal(x[:, 1], s)
