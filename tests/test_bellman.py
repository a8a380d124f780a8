"""Laws of the soft Bellman operator that hold for every model."""

import equinox as eqx
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pomdpfit as pf
from helpers import Table, at, random_belief, random_kernel, random_reward, relabel
from pomdpfit._bellman import bellman_operator
from pomdpfit._model import checked_primitives

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)
states = st.sampled_from([1, 2, 3])
discounts = st.floats(0.0, 0.99)
Z, A, GRID = 3, 2, pf.Linear(6)
# Values here are of order one and each is the sum of some ten products.
ROUNDING = 1e-13


@eqx.filter_jit
def apply(primitives, grid, value):
    return bellman_operator(primitives, grid)(value)


def operator(rng, S, discount, grid=GRID):
    model = Table(random_kernel(rng, Z, S, A, zeros=True), random_reward(rng, Z, S, A))
    primitives = checked_primitives(model, at(discount))
    return lambda value: np.array(apply(primitives, grid, value))


def random_value(rng, S, grid=GRID):
    return rng.normal(size=(Z, grid.size(S), grid.coefficients)) * 3.0


@given(seed=seeds, S=states, discount=discounts)
@few
def test_linear_operator_contracts_with_modulus_beta(seed, S, discount):
    rng = np.random.default_rng(seed)
    T, v, w = operator(rng, S, discount), random_value(rng, S), random_value(rng, S)
    assert np.abs(T(v) - T(w)).max() <= discount * np.abs(v - w).max() + ROUNDING


@given(seed=seeds, S=states, discount=discounts)
@few
def test_linear_operator_is_monotone(seed, S, discount):
    rng = np.random.default_rng(seed)
    T, v = operator(rng, S, discount), random_value(rng, S)
    above = v + rng.gamma(0.3, size=v.shape)
    assert (T(above) >= T(v) - ROUNDING).all()


@pytest.mark.parametrize("grid", [GRID, pf.Smooth(6)])
@given(seed=seeds, discount=discounts, shift=st.floats(-10, 10))
@few
def test_a_constant_passes_through_the_operator_times_beta(grid, seed, discount, shift):
    rng = np.random.default_rng(seed)
    T, v = operator(rng, 2, discount, grid), random_value(rng, 2, grid)
    moved = v.copy()
    moved[..., 0] += shift  # a smooth scheme's second coefficient is a slope
    expected = T(v)
    expected[..., 0] += discount * shift
    # Slopes multiply what is left of the constant by the inverse of the spacing, here 5.
    np.testing.assert_allclose(T(moved), expected, atol=20 * ROUNDING)


@given(seed=seeds)
@few
def test_operator_value_is_the_soft_maximum_written_out(seed):
    """One application at a node, by the definition, where V is linear and so V(x) needs no grid."""
    rng = np.random.default_rng(seed)
    P, r, v = random_kernel(rng, Z, 2, A), random_reward(rng, Z, 2, A), rng.normal(size=(Z, 2))
    primitives = checked_primitives(Table(P, r, pf.Gumbel(0.5)), at(0.9))
    for grid in (GRID, pf.Smooth(6)):
        got = apply(primitives, grid, grid.linear(v))
        x = grid.beliefs(2)
        q = np.einsum("ns,zsa->zna", x, r + 0.9 * np.einsum("zsakt,kt->zsa", P, v))
        expected = 0.5 * np.log(np.exp(q / 0.5).sum(axis=-1))
        np.testing.assert_allclose(got[..., 0], expected, atol=ROUNDING)
        if grid.coefficients == 2:  # h times the slope along x(1), by the chain rule
            pi = np.exp((q - expected[..., None]) / 0.5)
            turn = r[:, 1] - r[:, 0] + 0.9 * np.einsum("zsakt,kt,s->za", P, v, [-1.0, 1.0])
            slope = (pi * turn[:, None]).sum(axis=-1) / grid.resolution
            np.testing.assert_allclose(got[..., 1], slope, atol=ROUNDING)


# ---- the fixed point -----------------------------------------------------------------------


@given(seed=seeds, S=st.sampled_from([1, 3]))
@few
def test_policies_sum_to_one_and_the_value_keeps_to_the_bounds_of_the_reward(seed, S):
    rng = np.random.default_rng(seed)
    r, beta = random_reward(rng, Z, S, A), 0.9
    sol = pf.solve(Table(random_kernel(rng, Z, S, A), r), at(beta), grid=GRID)
    x = rng.dirichlet(np.ones(S), size=(20, 1))
    policy, value = sol.policy(np.arange(Z), x), sol.value(np.arange(Z), x)
    np.testing.assert_allclose(policy.sum(axis=-1), 1.0, rtol=1e-14)
    assert ((policy >= 0) & (policy <= 1)).all()
    # min q + log A <= emax q <= max q + log A for shocks with mean zero and scale one
    slack = 1e-9  # the solver's tolerance over 1 - beta
    assert (value >= (r.min() + np.log(A)) / (1 - beta) - slack).all()
    assert (value <= (r.max() + np.log(A)) / (1 - beta) + slack).all()


@given(seed=seeds)
@few
def test_linear_value_is_convex_in_the_belief(seed):
    rng = np.random.default_rng(seed)
    model = Table(random_kernel(rng, Z, 2, A), 5 * random_reward(rng, Z, 2, A))
    sol = pf.solve(model, at(0.9), grid=pf.Linear(21))
    nodes = np.asarray(sol.coefficients)[..., 0]
    bend = nodes[:, 2:] - 2 * nodes[:, 1:-1] + nodes[:, :-2]
    # Rounding of values up to 100 in a second difference; the residual adds as much.
    assert bend.min() >= -1e-9
    assert bend.max() > 1e-6  # and it is not flat, which would make the test empty


@given(seed=seeds)
@few
def test_choice_is_the_gradient_of_the_value_in_q(seed):
    """With discount 0, Q(z, x, a) = x.r and adding c to r(., ., a) adds c to Q(z, x, a)."""
    rng, S = np.random.default_rng(seed), 2
    P, r, x = random_kernel(rng, Z, S, A), random_reward(rng, Z, S, A), random_belief(rng, S)
    step = 1e-5

    def value(a, shift):
        moved = r.copy()
        moved[..., a] += shift
        return np.asarray(pf.solve(Table(P, moved), at(0.0), grid=GRID).value(range(Z), x))

    policy = pf.solve(Table(P, r), at(0.0), grid=GRID).policy(range(Z), x)
    for a in range(A):
        slope = (value(a, step) - value(a, -step)) / (2 * step)
        # Central differences: step^2 / 6 times a third derivative below one, and rounding / step.
        np.testing.assert_allclose(slope, policy[:, a], atol=1e-9)


@pytest.mark.parametrize(
    ("grid", "order"),
    [(pf.Smooth(21), [1, 0]), (pf.Linear(21), [1, 0]), (GRID, [2, 0, 1])],
)
@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_relabelling_hidden_states_leaves_q_and_policy_unchanged(grid, order, seed):
    """For |S| <= 3 the triangulation has all the symmetries of the simplex, so nothing moves."""
    rng = np.random.default_rng(seed)
    S = len(order)
    P, r = random_kernel(rng, Z, S, A), random_reward(rng, Z, S, A)
    x = rng.dirichlet(np.ones(S), size=(20, 1))
    sol = pf.solve(Table(P, r), at(0.9), grid=grid)
    turned = pf.solve(Table(*relabel(P, r, order)), at(0.9), grid=grid)
    q = sol.q(np.arange(Z), x)
    np.testing.assert_allclose(
        turned.q(np.arange(Z), x[..., order]), q, atol=1e-12 * max(1, np.abs(q).max())
    )
    np.testing.assert_allclose(
        turned.policy(np.arange(Z), x[..., order]), sol.policy(np.arange(Z), x), atol=1e-12
    )
