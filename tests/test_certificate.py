"""The certificate: what it claims to prove must contain what is true, however that is computed."""

import dataclasses
import functools
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

import helpers
import pomdpfit as pf
from reference import nfxp, tree

BINS = 12
DIRECT = pf.Newton(coarse_first=False)  # compiled in half the time


def engine(bins: int = BINS, discount: float = 0.99, **options) -> pf.models.EngineReplacement:
    return pf.models.EngineReplacement(bins=bins, discount=discount, **options)


def everywhere(model: pf.Model, points: int) -> tuple[np.ndarray, np.ndarray]:
    """All z at beliefs that are no nodes of any grid used here."""
    bad = np.linspace(0, 1, points)
    x = np.stack([1 - bad, bad], axis=-1)
    z = np.arange(model.bins)
    shape = (len(z), points)
    return np.broadcast_to(z[:, None], shape), np.broadcast_to(x, (*shape, 2))


@pytest.fixture(scope="module")
def fine():
    """The truth for practical purposes: the smooth scheme converges as h^4."""
    return pf.solve(engine(), engine().example(), grid=pf.Smooth(201), solver=DIRECT)


@functools.cache
def certificate(nodes: int) -> pf.Certificate:
    return pf.certify(engine(), engine().example(), nodes=nodes)


@pytest.mark.parametrize("nodes", [16, pytest.param(31, marks=pytest.mark.full)])
def test_the_truth_lies_inside_at_beliefs_between_nodes(fine, nodes):
    model, bounds = engine(), certificate(nodes)
    z, x = everywhere(model, 137)
    low, high = bounds.value_bounds(z, x)
    value = np.asarray(fine.value(z, x))
    assert np.all(low <= value)
    assert np.all(value <= high)
    low, high = bounds.difference_bounds(z, x)
    q = np.asarray(fine.q(z, x))
    difference = q - q[..., 1:]
    assert np.all(low <= difference)
    assert np.all(difference <= high)
    assert np.max(high - low) <= bounds.difference_width
    low, high = bounds.choice_bounds(z, x)
    log_choice = np.log(np.asarray(fine.policy(z, x)))
    assert np.all(low <= log_choice)
    assert np.all(log_choice <= high)


def test_brackets_nest_as_the_grid_is_refined():
    model = engine()
    z, x = everywhere(model, 61)
    previous, widths = None, []
    for nodes in (16, 61):  # every node of the first is one of the second
        bounds = certificate(nodes)
        pairs = bounds.value_bounds(z, x), bounds.difference_bounds(z, x)
        widths.append(bounds.difference_width)
        if previous is not None:
            for (low, high), (was_low, was_high) in zip(pairs, previous, strict=True):
                assert np.all(low >= was_low - 1e-9)
                assert np.all(high <= was_high + 1e-9)
        previous = pairs
    # The gap is O(h^2): a quarter of h ends in a sixteenth, and is well on its way here.
    assert widths[1] < widths[0] / 6


@pytest.mark.full
def test_full_bus_model_is_certified_to_a_thousandth_near_discount_one():
    model = pf.models.EngineReplacement(bins=175, increments=4, discount=0.9999)
    solution = pf.solve(model, model.example())
    assert solution.grid == pf.Smooth(101)
    assert solution.residual <= 1e-10
    bounds = solution.bounds
    assert bounds.reason == ""
    assert bounds.difference_width < 1e-3
    assert bounds.holds(solution)
    prior = pf.KnownPrior([0.5, 0.5])
    panel = pf.simulate(model, model.example(), agents=40, periods=60, seed=1, prior=prior)
    interval = bounds.log_likelihood(pf.log_likelihood(model, model.example(), panel, prior=prior))
    assert interval.holds_estimate
    # Each of the 2400 choices moves by no more than the width of its difference of q.
    assert 0 < interval.width <= 2400 * bounds.difference_width


@pytest.mark.full
@pytest.mark.parametrize("options", [{"reset": "increment"}, {"top": "replace"}])
def test_other_resets_and_unavailable_actions_are_certified(options):
    model = engine(**options)
    bounds = pf.certify(model, model.example(), nodes=31)
    assert bounds.reason == ""
    truth = pf.solve(model, model.example(), grid=pf.Smooth(201))
    assert bounds.holds(truth)


def test_a_certificate_refuses_a_wrong_policy(fine):
    """A solution at slightly other parameters is outside: the bounds are not vacuous."""
    model = engine()
    theta = dict(model.example()) | {"RC": model.example()["RC"] + 0.01}
    bounds = certificate(16)
    assert bounds.holds(fine)
    assert not bounds.holds(pf.solve(model, theta, grid=pf.Smooth(201), solver=DIRECT))


def test_one_hidden_state_brackets_the_mdp_up_to_rounding():
    rng = np.random.default_rng(0)
    kernel = rng.dirichlet(np.ones(4), size=(4, 2))
    reward = rng.normal(size=(4, 2))
    model = helpers.Table(kernel[:, None, :, :, None], reward[:, None, :])
    value, _, _ = nfxp.solve_mdp(kernel, reward, 0.95)
    bounds = pf.certify(model, helpers.at(0.95))
    low, high = bounds.value_bounds(np.arange(4), np.ones((4, 1)))
    assert np.all(low <= value + 1e-11)
    assert np.all(value - 1e-11 <= high)
    assert np.max(high - low) < 1e-9


def test_three_states_have_level_brackets_and_a_reason():
    tables = np.random.default_rng(3)
    P, r = helpers.random_kernel(tables, 2, 3, 2), helpers.random_reward(tables, 2, 3, 2)
    model, theta = helpers.Table(P, r), helpers.at(0.9)
    bounds = pf.certify(model, theta, nodes=5)
    assert "|S| = 2" in bounds.reason
    # Linear interpolation lies above the truth, the less so the finer the grid.
    truth = pf.solve(model, theta, grid=pf.Linear(13))
    rng = np.random.default_rng(0)
    x, z = rng.dirichlet(np.ones(3), size=200), rng.integers(0, 2, size=200)
    low, high = bounds.value_bounds(z, x)
    value = np.asarray(truth.value(z, x))
    assert np.all(low <= value)
    assert np.all(value <= high)


def test_without_a_reset_the_reason_is_given():
    rng = np.random.default_rng(1)
    kernel, reward = helpers.random_kernel(rng, 3, 2, 3), rng.normal(size=(3, 2, 3))
    model, theta = helpers.Table(kernel, reward), helpers.at(0.9)
    bounds = pf.certify(model, theta, nodes=11)
    assert "no action resets" in bounds.reason
    assert np.isinf(bounds.difference_width)
    assert bounds.holds(pf.solve(model, theta, grid=pf.Smooth(101)))


def test_finite_horizon_bounds_hold_the_exact_tree():
    rng = np.random.default_rng(2)
    P = rng.dirichlet(np.ones(4), size=(2, 2, 2)).reshape(2, 2, 2, 2, 2)
    r, terminal = rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 2))
    model = helpers.Table(P, r, end=terminal, epochs=3)
    bounds = pf.certify(model, helpers.at(0.9), nodes=21)
    for x in rng.dirichlet(np.ones(2), size=5):
        for z in range(2):
            q = tree.soft_q(P, r, 0.9, 3, z, x, tree.gumbel_emax(1.0), terminal=terminal)
            low, high = bounds.difference_bounds(np.array(z), x, np.array(0))
            assert np.all(low <= q - q[0] + 1e-12)
            assert np.all(q - q[0] <= high + 1e-12)


@pytest.mark.full
def test_tiger_bracket_holds_the_published_value():
    """For Gumbel shocks of scale tau: V_hard <= V <= V_hard + tau log 3 / (1 - beta), centred."""
    tau = 0.01
    model = pf.models.Tiger(discount=0.95, scale=tau)
    low, high = pf.certify(model, model.example(), nodes=101).value_bounds(
        np.array(0), np.array([0.5, 0.5])
    )
    assert high >= 19.3713
    assert low <= 19.3714 + tau * np.log(3) / 0.05


def test_rounding_near_discount_one_is_allowed_for():
    """One action, one state: V = r / (1 - beta) exactly, in rational arithmetic."""
    beta, r = 0.999999, 0.1
    exact = Fraction(r) / (1 - Fraction(beta))
    model = helpers.Table(np.ones((1, 1, 1, 1, 1)), np.full((1, 1, 1), r))
    low, high = pf.certify(model, helpers.at(beta)).value_bounds(0, [1.0])
    assert Fraction(float(low)) <= exact <= Fraction(float(high))


@functools.cache
def reset_tables() -> tuple[np.ndarray, np.ndarray]:
    """Three observations, three actions; the last action resets, to one of two observations."""
    rng = np.random.default_rng(4)
    P = helpers.random_kernel(rng, 3, 2, 3)
    P[:, :, 2] = 0.0
    P[:, :, 2, 1, 0], P[:, :, 2, 2, 1] = 0.75, 0.25
    return P, rng.normal(size=(3, 2, 3))


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.999])
def test_random_models_with_a_reset_are_certified_at_any_discount(discount):
    model, theta = helpers.Table(*reset_tables()), helpers.at(discount)
    bounds = pf.certify(model, theta, nodes=11)
    assert bounds.reason == ""
    solution = pf.solve(model, theta, grid=pf.Smooth(11))
    assert solution.bounds.difference_width == bounds.difference_width
    assert bounds.holds(pf.solve(model, theta, grid=pf.Smooth(101)))


@pytest.mark.full
def test_an_action_that_is_barred_has_no_bounds_and_needs_no_kernel():
    P, r = (table.copy() for table in reset_tables())
    P[0, :, 0] = 0.0
    mask = np.ones((3, 3), dtype=bool)
    mask[0, 0] = False
    model, theta = helpers.Table(P, r, mask=mask), helpers.at(0.9)
    bounds = pf.certify(model, theta, nodes=11)
    low, high = bounds.difference_bounds(0, [0.4, 0.6])
    assert np.isinf(low[0])
    assert np.isinf(high[0])
    assert np.all(high[1:] - low[1:] <= bounds.difference_width)
    assert bounds.holds(pf.solve(model, theta, grid=pf.Smooth(101), solver=DIRECT))


class Shared(helpers.Table):
    """Successors by z, one table of probabilities for all z: a walk that ends at its ends."""

    def kernel(self, theta):
        step = np.clip(np.arange(4)[:, None, None] + np.array([[-1, 1], [1, -1]]), 0, 3)
        step[0, :] = step[3, :] = [0, 1]
        return pf.Kernel(step, jnp.full((1, 2, 2, 2, 2), 0.25), observations=4)


@pytest.mark.full
def test_a_kernel_with_successors_by_z_and_shared_probabilities_is_certified():
    model = Shared(np.zeros(0), np.random.default_rng(0).normal(size=(4, 2, 2)))
    bounds = pf.certify(model, helpers.at(0.9), nodes=2)
    assert bounds.holds(pf.solve(model, helpers.at(0.9), grid=pf.Smooth(21)))


def test_a_kernel_that_is_one_only_roughly_gets_no_certificate():
    P, r = (table.copy() for table in reset_tables())
    P[1, 0, 0, 0, 0] += 1e-10
    with pytest.raises(pf.ModelError, match=r"z=1, s=0, a=0"):
        pf.certify(helpers.Table(P, r), helpers.at(0.9), nodes=11)


@pytest.mark.parametrize(("z", "x"), [(99, [0.5, 0.5]), (-1, [0.5, 0.5]), (0, [2.0, 3.0])])
def test_bounds_are_refused_where_there_is_nothing_to_bound(z, x):
    with pytest.raises(pf.ModelError):
        certificate(16).value_bounds(z, x)


def test_likelihood_interval_shrinks_to_the_likelihood():
    model, prior = engine(), pf.KnownPrior([0.7, 0.3])
    theta = model.example()
    P = model.kernel(theta).to_dense()
    panel = helpers.random_paths(P, [0.7, 0.3], [20] * 10, np.random.default_rng(3))
    evaluated = pf.log_likelihood(model, theta, panel, prior=prior, grid=pf.Smooth(201))
    intervals = [certificate(n).log_likelihood(evaluated) for n in (16, 61)]
    assert all(interval.holds_estimate for interval in intervals)
    assert intervals[1].width < intervals[0].width / 8  # O(h^2): sixteen in the limit
    assert intervals[0].width <= panel.nobs * certificate(16).difference_width
    shifted = dataclasses.replace(intervals[1], estimate=intervals[1].high + 1e-6)
    assert not shifted.holds_estimate
