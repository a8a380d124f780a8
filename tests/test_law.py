"""The law of (z, x): against beliefs listed one by one, and with the error that it states."""

import numpy as np
import pytest

import pomdpfit as pf
from reference import reachable

# Conditions change slowly and mileage says nothing of them: x is a function of age, and moves by
# less than a cell of the solution's grid a period.
SLOW = pf.models.EngineReplacement(bins=12, increments=3, discount=0.95)
AGEING = {
    **SLOW.example(),
    "RC": 6.0,
    "cost": np.array([0.0, 600.0]),
    "stay": np.array([0.995, 0.999]),
    "increment": np.array([[0.3, 0.4, 0.3]] * 2),
}
NEW = pf.KnownPrior([1.0, 0.0])
GRID = pf.Smooth(41)


def policy_of(solution, size=64):
    return reachable.in_batches(solution.policy, size)


def row(found, outcome, of="baseline"):
    return float(found.to_frame().loc[(outcome, of), "estimate"])


@pytest.fixture(scope="module")
def ageing():
    """The kernel, and the policy that is solved for on GRID."""
    return SLOW.kernel(AGEING).to_dense(), policy_of(pf.solve(SLOW, AGEING, grid=GRID))


@pytest.fixture(scope="module")
def a_life(ageing):
    found = reachable.life(*ageing, reset=1, most=2000)
    assert found.unfinished < 1e-14
    return found


def test_beliefs_that_move_slowly_do_not_spread(ageing, a_life):
    """To the digits that were computed by hand from the ages of engines: .02220 and .06115.

    The first release split mass between neighbouring nodes: .02501 and .05712 on this grid.
    """
    ask = {"at": AGEING, "prior": NEW, "grid": GRID}
    first = pf.counterfactual(SLOW, {"RC": 7.0}, periods=12, **ask)
    whole = pf.counterfactual(SLOW, {"RC": 7.0}, **ask)
    exact = [reachable.shares(*ageing, reachable.at(0, [1.0, 0.0]), 12)[1], 1 / a_life.periods]
    for found, share, digits in zip((first, whole), exact, (0.02220, 0.06115), strict=True):
        assert abs(row(found, "share[replace]") - digits) < 5e-6
        # The error that is told is at least the error, and small: four digits of the share.
        error = abs(row(found, "share[replace]") - share)
        assert error <= found.share_error <= 1e-4 * share
        assert f"shares have an error of about {found.share_error:.1e}" in " ".join(found.notes)
        assert f"{found.share_error:.1e}" in str(found.summary())


def test_the_stationary_prior_of_beliefs_that_move_slowly(a_life):
    """P(bad | z0 = 11) = .0731; the first release said .0593."""
    panel = pf.Panel.from_arrays(np.arange(12)[:, None], np.zeros((12, 1), dtype=int))
    ll = pf.log_likelihood(SLOW, AGEING, panel, prior=pf.StationaryPrior(), grid=GRID)
    x0 = ll.belief[:, 0]
    assert abs(x0[11, 1] - 0.0731) < 5e-5
    assert np.abs(x0 - a_life.mean_belief).max() <= ll.prior_error < 1e-3
    np.testing.assert_allclose(x0.sum(axis=1), 1, atol=1e-14)


@pytest.mark.full
@pytest.mark.parametrize("nodes", [11, 101])
def test_the_law_is_that_of_the_policy_on_any_grid_of_the_solution(nodes):
    grid = pf.Smooth(nodes)
    policy, P = policy_of(pf.solve(SLOW, AGEING, grid=grid)), SLOW.kernel(AGEING).to_dense()
    ask = {"at": AGEING, "prior": NEW, "grid": grid}
    found = pf.counterfactual(SLOW, {"RC": 7.0}, **ask)
    exact = 1 / reachable.life(P, policy, reset=1, most=2000).periods
    assert abs(row(found, "share[replace]") - exact) <= found.share_error < 1e-4 * exact
    found = pf.counterfactual(SLOW, {"RC": 7.0}, discounted=True, **ask)
    start = reachable.at(0, [1.0, 0.0])
    exact = reachable.shares(P, policy, start, 600, beta=0.95)[1]  # 0.95^600 = 4e-14
    assert abs(row(found, "share[replace]") - exact) <= found.share_error < 1e-4 * exact
    with pytest.warns(pf.ConvergenceWarning, match="grid behind pf.StationaryPrior is coarse"):
        pf.log_likelihood(
            SLOW,
            AGEING,
            pf.Panel.from_arrays([[11]], [[0]]),
            prior=pf.StationaryPrior(nodes=11),
            grid=grid,
        )


@pytest.mark.full
def test_three_hidden_states_against_all_beliefs():
    model = pf.models.EngineReplacement(4, 2, 0.9, conditions=3)
    theta = {
        **model.example(),
        "RC": 2.0,
        "cost": np.array([100.0, 700.0, 2000.0]),
        "condition": np.array([[0.9, 0.08, 0.02], [0.0, 0.9, 0.1], [0.0, 0.05, 0.95]]),
        "increment": np.array([[0.7, 0.3], [0.5, 0.5], [0.2, 0.8]]),
    }
    grid = pf.Linear(11)
    policy, P = policy_of(pf.solve(model, theta, grid=grid), 4096), model.kernel(theta).to_dense()
    new = pf.KnownPrior([1.0, 0.0, 0.0])
    ask = {"at": theta, "prior": new, "grid": grid}
    curve = pf.demand_curve(model, "RC", [2.0], 1, per=10.0, periods=8, **ask)
    exact = 10 * reachable.shares(P, policy, reachable.at(0, [1.0, 0.0, 0.0]), 8)[1]
    error = abs(curve.to_frame()["estimate"].iloc[0] - exact)
    assert error <= curve.error < 1e-2 * exact
    assert f"{curve.error:.1e}" in str(curve)


@pytest.mark.parametrize("states", [1, 2, 3, 4, 5, 9])
def test_a_split_belief_keeps_its_moments(states):
    """Up to the degree: sum_k w_k (b . x_k)^d = (b . x)^d for any b."""
    from pomdpfit._schemes import law_degree, law_scheme

    rng = np.random.default_rng(states)
    grid, degree = law_scheme(states, 3), law_degree(states)
    x = np.concatenate([rng.dirichlet(np.ones(states), 20), np.eye(states)])
    position, weight = map(np.asarray, grid.basis(x))
    nodes, b = grid.beliefs(states)[position], rng.normal(size=states)
    assert position.shape[1] == grid.width(states)
    for power in range(degree + 1):
        found = (weight * (nodes @ b) ** power).sum(axis=1)
        np.testing.assert_allclose(found, (x @ b) ** power, atol=1e-13)
    # Mass stays in the cell: two thirds of the way to its other end at the most.
    np.testing.assert_array_less(np.abs(nodes - x[:, None]).max(axis=(1, 2)), 1 / 3 + 1e-12)


def test_a_law_that_stays_coarse_says_so(monkeypatch):
    from pomdpfit.counterfactuals import _law

    monkeypatch.setitem(_law._MOST_PAIRS, 2, 1)  # no grid beyond the first two
    found = pf.counterfactual(SLOW, {"RC": 7.0}, at=AGEING, prior=NEW, grid=GRID, periods=12)
    assert any("four digits are not certain" in note for note in found.notes)
    assert found.share_error > 1e-4 * row(found, "share[replace]")
