"""The certificate: what it claims to prove must contain what is true, however that is computed."""

import dataclasses
import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers
import pomdpfit as pf
from pomdpfit._bellman import bellman_operator
from pomdpfit.certificate import _cells, _regeneration
from reference import nfxp, tree

BINS = 12


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
    return pf.solve(engine(), engine().example(), grid=pf.Smooth(401))


@functools.cache
def certificate(nodes: int) -> pf.Certificate:
    return pf.certify(engine(), engine().example(), nodes=nodes)


@functools.cache
def linear(nodes: int) -> pf.Solution:
    return pf.solve(engine(), engine().example(), grid=pf.Linear(nodes))


@pytest.mark.parametrize("nodes", [16, 31])
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
    for nodes in (16, 31, 61):
        bounds = certificate(nodes)
        pairs = bounds.value_bounds(z, x), bounds.difference_bounds(z, x)
        widths.append(bounds.difference_width)
        if previous is not None:
            for (low, high), (was_low, was_high) in zip(pairs, previous, strict=True):
                assert np.all(low >= was_low - 1e-9)
                assert np.all(high <= was_high + 1e-9)
        previous = pairs
    # The gap is O(h^2): a quarter of h ends in a sixteenth, and is well on its way here.
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < widths[0] / 6


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
    bounds = certificate(31)
    assert bounds.holds(fine)
    assert not bounds.holds(pf.solve(model, theta, grid=pf.Smooth(101)))


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
    model = pf.models.EquipmentInspection()
    coarse, fine = (pf.certify(model, model.example(), nodes=n) for n in (9, 17))
    assert "|S| = 2" in coarse.reason
    rng = np.random.default_rng(0)
    x, z = rng.dirichlet(np.ones(3), size=200), rng.integers(0, 3, size=200)
    (low, high), (fine_low, fine_high) = coarse.value_bounds(z, x), fine.value_bounds(z, x)
    assert np.all(low <= fine_low + 1e-9)
    assert np.all(fine_low <= fine_high)
    assert np.all(fine_high <= high + 1e-9)
    assert fine.holds(pf.solve(model, model.example(), grid=pf.Linear(17)))


def test_without_a_reset_the_reason_is_given():
    rng = np.random.default_rng(1)
    kernel = rng.dirichlet(np.ones(4), size=(2, 2, 2)).reshape(2, 2, 2, 2, 2)
    model, theta = helpers.Table(kernel, rng.normal(size=(2, 2, 2))), helpers.at(0.9)
    bounds = pf.certify(model, theta, nodes=41)
    assert "no action resets" in bounds.reason
    assert np.isinf(bounds.difference_width)
    assert bounds.holds(pf.solve(model, theta, grid=pf.Smooth(201)))


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


def test_tiger_bracket_holds_the_published_value():
    """For Gumbel shocks of scale tau: V_hard <= V <= V_hard + tau log 3 / (1 - beta), centred."""
    tau = 0.01
    model = pf.models.Tiger(discount=0.95, scale=tau)
    low, high = pf.certify(model, model.example(), nodes=101).value_bounds(
        np.array(0), np.array([0.5, 0.5])
    )
    assert high >= 19.3713
    assert low <= 19.3714 + tau * np.log(3) / 0.05


convex_pieces = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=6)


@settings(max_examples=50, deadline=None)
@given(pieces=convex_pieces, width=st.floats(0.01, 2))
def test_tangents_bound_a_convex_function_from_below(pieces, width):
    """f = max of lines; its values and subgradients at both ends bound it in between."""
    level, slope = np.array(pieces).T
    s = np.linspace(0, width, 200)
    lines = level + np.outer(s, slope)
    f = lines.max(axis=1)
    ends = [(f[k], slope[lines[k].argmax()]) for k in (0, -1)]
    (f0, g0), (f1, g1) = ends
    low = float(_cells._lowest(*map(jnp.asarray, (f0, g0, f1, g1)), width))
    assert low <= f.min() + 1e-12 * (1 + np.abs(f).max())


def test_gap_bounds_dominate_dense_samples():
    """delta = V_U - T V_U at 60 points of every cell never exceeds the bound for the cell."""
    solution, cells = linear(16), 15
    value = _cells.convexified(solution.coefficients[..., 0], cells)
    rho = jnp.asarray(solution.residual + 1e-11)  # the solver's, and what convexity took away
    bounds = _cells.cell_bounds(solution.primitives, solution.grid, value, rho)
    y = jnp.asarray((np.arange(cells)[:, None] + np.linspace(0, 1, 60)).ravel() / cells)
    q, _ = _cells._lines(solution.primitives, cells, value, y)
    best = np.asarray(solution.primitives.shock.emax(jnp.moveaxis(q, 1, -1)))
    nodes = np.linspace(0, 1, cells + 1)
    chord = np.array([np.interp(y, nodes, row) for row in np.asarray(value)])
    sampled = (chord - best).reshape(BINS, cells, 60)
    assert np.all(sampled >= -rho)
    assert np.all(sampled <= np.asarray(bounds.gap)[..., None])
    q = np.asarray(q).reshape(BINS, 2, cells, 60)
    assert np.all(q <= np.asarray(bounds.q_high)[..., None])
    assert np.all(q >= np.asarray(bounds.q_low)[..., None])
    # Nor is the bound loose: within a factor of three of what is there.
    assert np.asarray(bounds.gap).max() < 3 * sampled.max() + 1e-9


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_bend_bounds_the_excess_over_the_chord(seed):
    """sigma f(lambda) for random piecewise linear f and random substochastic P."""
    rng = np.random.default_rng(seed)
    M = 8
    f = rng.normal(size=M + 1)
    P = rng.dirichlet(np.ones(4) * rng.choice([0.2, 1.0]), size=2).reshape(2, 2, 2)[:, 0]
    kernel = eqx.tree_at(lambda k: k.probability, _one_kernel(), jnp.asarray(P)[None, None, None])
    bend = np.asarray(_regeneration._bend(kernel, M))[0, 0, 0]
    kappa = max(0.0, float(np.max(2 * f[1:-1] - f[2:] - f[:-2])))
    for cell in range(M):
        t = np.linspace(0, 1, 101)
        y = (cell + t) / M
        mass = np.stack([1 - y, y], axis=1) @ P
        sigma = mass.sum(axis=1)
        next_y = np.divide(mass[:, 1], sigma, out=np.zeros_like(sigma), where=sigma > 0)
        h = sigma * np.interp(next_y, np.linspace(0, 1, M + 1), f)
        excess = h - ((1 - t) * h[0] + t * h[-1])
        assert excess.max() <= kappa * bend[cell] + 1e-12


def _one_kernel() -> pf.Kernel:
    return pf.Kernel(np.zeros((1, 1, 1), dtype=int), jnp.zeros((1, 1, 1, 2, 2)), observations=1)


def test_supersolution_bounds_the_expected_time_to_a_reset():
    """With one a period for delta, S is the expected discounted time: simulate that."""
    model, solution, beta = engine(), linear(16), 0.99
    primitives, grid = solution.primitives, solution.grid
    value = _cells.convexified(solution.coefficients[..., 0], grid.resolution)
    cells = _cells.cell_bounds(primitives, grid, value, jnp.asarray(0.0))
    choice = _regeneration.highest_choice(primitives, cells, 0.0)
    stencil = bellman_operator(primitives, grid).stencil
    recursion = _regeneration.recursion(
        primitives, stencil, jnp.ones((BINS, grid.resolution)), choice, reset=1
    )
    f, found = _regeneration.supersolution(recursion)
    assert bool(found)
    P, rng = primitives.kernel.to_dense(), np.random.default_rng(0)
    replace = np.asarray(solution.policy(*everywhere(model, 2001)))[..., 1]
    times = [_time_to_reset(rng, P, replace, beta, 3, np.array([0.63, 0.37])) for _ in range(900)]
    bound = np.interp(0.37, np.linspace(0, 1, grid.nodes), np.asarray(f)[3])
    standard_error = np.std(times) / 30
    assert np.mean(times) - 5 * standard_error <= bound
    # One per cent is the margin, the rest comes from cells: loose bounds would be useless ones.
    assert bound <= 1.1 * (np.mean(times) + 5 * standard_error)


def _time_to_reset(rng, P, replace, beta, z, x) -> float:
    total, weight = 0.0, 1.0
    while weight > 1e-6:
        total += weight
        weight *= beta
        if rng.uniform() < replace[z, round(x[1] * 2000)]:
            break
        mass = np.einsum("s,szt->zt", x, P[z, :, 0])
        z = int(rng.choice(len(P), p=mass.sum(axis=1)))
        x = mass[z] / mass[z].sum()
    return total


def test_likelihood_interval_shrinks_to_the_likelihood():
    model, prior = engine(), pf.KnownPrior([0.7, 0.3])
    theta = model.example()
    panel = pf.simulate(model, theta, agents=30, periods=40, seed=3, prior=prior)
    evaluated = pf.log_likelihood(model, theta, panel, prior=prior, grid=pf.Smooth(401))
    intervals = [certificate(n).log_likelihood(evaluated) for n in (16, 61)]
    assert all(interval.holds_estimate for interval in intervals)
    assert intervals[1].width < intervals[0].width / 8  # O(h^2): sixteen in the limit
    shifted = dataclasses.replace(intervals[1], estimate=intervals[1].high + 1e-6)
    assert not shifted.holds_estimate
