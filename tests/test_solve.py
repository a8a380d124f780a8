"""Solutions against recursion over the tree of beliefs, MDPs in plain numpy, and closed forms."""

import functools

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import pomdpfit as pf
from helpers import (
    Table,
    at,
    random_belief,
    random_kernel,
    random_reward,
    revealing_kernel,
)
from reference import nfxp, tree

seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=20, deadline=None)


# ---- finite horizon ------------------------------------------------------------------------


@given(seed=seeds, scale=st.floats(0.5, 2.0))
@some
def test_finite_horizon_q_equals_the_tree_of_beliefs(seed, scale):
    """The smooth scheme's error is of order spacing^4 = 6e-14 on 2001 nodes, far below 1e-10."""
    rng, epochs, beta = np.random.default_rng(seed), 4, 0.95
    P, r = random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2)
    end, mask = rng.normal(size=(2, 2)), np.array([[True, True], [True, rng.random() < 0.5]])
    sol = pf.solve(
        Table(P, r, pf.Gumbel(jnp.asarray(scale)), mask, end, epochs),
        at(beta),
        grid=pf.Smooth(2001),
    )
    emax, x = tree.gumbel_emax(scale), random_belief(rng, 2)
    for t in range(epochs):
        for z in range(2):
            expected = tree.soft_q(P, r, beta, epochs - t, z, x, emax, end, mask)[mask[z]]
            np.testing.assert_allclose(sol.q(z, x, t)[mask[z]], expected, atol=1e-10)
            np.testing.assert_allclose(sol.value(z, x, t), emax(expected), atol=1e-10)
            policy = np.exp((expected - emax(expected)) / scale)
            np.testing.assert_allclose(sol.policy(z, x, t)[mask[z]], policy, atol=1e-9)
            assert (sol.policy(z, x, t)[~mask[z]] == 0).all()


@given(seed=seeds, barred=st.booleans())
@settings(max_examples=8, deadline=None)
def test_finite_horizon_q_with_nested_shocks_equals_the_tree_of_beliefs(seed, barred):
    rng, epochs, scale, d = np.random.default_rng(seed), 3, 0.8, 0.4
    P, r = random_kernel(rng, 2, 2, 3), random_reward(rng, 2, 2, 3)
    mask = np.array([[True, not barred, True], [True, True, True]])

    def emax(q):
        """Actions 0 and 1 share a nest; if only two are left they are 0 and 2."""
        together = q[:-1] / (scale * d)
        return scale * np.log(np.exp(together).sum() ** d + np.exp(q[-1] / scale))

    shocks = pf.NestedLogit(((0, 1), (2,)), jnp.array([d, 0.7]), scale)
    model = Table(P, r, shocks, mask, epochs=epochs)
    sol, x = pf.solve(model, at(0.9), grid=pf.Smooth(2001)), random_belief(rng, 2)
    for z in range(2):
        expected = tree.soft_q(P, r, 0.9, epochs, z, x, emax, available=mask)
        np.testing.assert_allclose(sol.q(z, x, 0)[mask[z]], expected[mask[z]], atol=1e-10)


@given(seed=seeds)
@some
def test_finite_horizon_q_is_exact_where_beliefs_stay_on_nodes(seed):
    """z' tells s': next beliefs are vertices, Q is linear in x, and no grid can be too coarse."""
    rng = np.random.default_rng(seed)
    P, r, end = revealing_kernel(rng, 3, 3, 2), random_reward(rng, 3, 3, 2), rng.normal(size=(3, 3))
    sol = pf.solve(Table(P, r, end=end, epochs=3), at(0.95), grid=pf.Linear(5))
    x, emax = random_belief(rng, 3), tree.gumbel_emax(1.0)
    for t in range(3):
        expected = [tree.soft_q(P, r, 0.95, 3 - t, z, x, emax, end) for z in range(3)]
        np.testing.assert_allclose(sol.q(range(3), x, t), expected, atol=1e-10)


def test_a_long_finite_horizon_tends_to_the_infinite_one():
    rng = np.random.default_rng(0)
    P, r, x = random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2), [0.3, 0.7]
    far = pf.solve(Table(P, r, epochs=200), at(0.8), grid=pf.Linear(21)).q(0, x, 0)
    # beta^200 times the value itself is below 1e-18.
    expected = pf.solve(Table(P, r), at(0.8), grid=pf.Linear(21)).q(0, x)
    np.testing.assert_allclose(far, expected, atol=1e-9)


# ---- infinite horizon ----------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 0.99])
@given(seed=seeds, scale=st.floats(0.5, 2.0))
@some
def test_one_hidden_state_is_the_fully_observed_mdp(beta, seed, scale):
    rng = np.random.default_rng(seed)
    P, r = random_kernel(rng, 4, 1, 3), random_reward(rng, 4, 1, 3)
    mask = rng.random((4, 3)) < 0.7
    mask[:, 0] = True
    sol = pf.solve(Table(P, r, pf.Gumbel(jnp.asarray(scale)), mask), at(beta))
    V, Q, choice = nfxp.solve_mdp(P[:, 0, :, :, 0], r[:, 0], beta, scale, mask)
    np.testing.assert_allclose(sol.value(range(4), [1.0]), V, atol=1e-10)
    np.testing.assert_allclose(np.where(mask, sol.q(range(4), [1.0]), -np.inf), Q, atol=1e-10)
    np.testing.assert_allclose(sol.policy(range(4), [1.0]), choice, atol=1e-10)


@pytest.mark.parametrize(("S", "grid"), [(2, pf.Smooth(11)), (3, pf.Linear(5))])
def test_discount_zero_is_the_static_logit(S, grid):
    rng, scale = np.random.default_rng(S), 0.7
    r, x = random_reward(rng, 3, S, 4), rng.dirichlet(np.ones(S), size=(6, 1))
    model = Table(random_kernel(rng, 3, S, 4), r, pf.Gumbel(scale))
    sol = pf.solve(model, at(0.0), grid=grid)
    q = np.einsum("ijs,zsa->iza", x, r)
    weight = np.exp(q / scale)
    # A linear function is interpolated exactly, up to rounding.
    np.testing.assert_allclose(sol.q(range(3), x), q, atol=1e-13)
    np.testing.assert_allclose(sol.value(range(3), x), scale * np.log(weight.sum(-1)), atol=1e-13)
    policy = weight / weight.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(sol.policy(range(3), x), policy, atol=1e-13)


@pytest.mark.parametrize(("S", "grid"), [(2, pf.Smooth(5)), (3, pf.Linear(5))])
def test_observations_that_reveal_s_give_the_mdp_on_z_and_s(S, grid):
    rng, beta = np.random.default_rng(S), 0.95
    Z, A = 2 * S, 2
    P, r = revealing_kernel(rng, Z, S, A), random_reward(rng, Z, S, A)
    both = P.reshape(Z * S, A, Z * S)
    V, Q, _ = nfxp.solve_mdp(both, r.reshape(Z * S, A), beta)
    sol = pf.solve(Table(P, r), at(beta), grid=grid)
    sure = np.eye(S)
    got = np.array([sol.q(range(Z), sure[s]) for s in range(S)]).transpose(1, 0, 2)
    np.testing.assert_allclose(got, Q.reshape(Z, S, A), atol=1e-10)
    value = np.array([sol.value(range(Z), sure[s]) for s in range(S)]).T
    np.testing.assert_allclose(value, V.reshape(Z, S), atol=1e-10)
    x = random_belief(rng, S)  # who is unsure now will be sure tomorrow: Q is linear in x
    expected = np.einsum("s,zsa->za", x, Q.reshape(Z, S, A))
    np.testing.assert_allclose(sol.q(range(Z), x), expected, atol=1e-10)


def test_tiger_tends_to_the_classical_value_as_the_shocks_vanish():
    """SARSOP brackets the hard-max value at the uniform belief by 19.3713 and 19.3714.

    max q <= tau log sum exp(q / tau) <= max q + tau log 3, which grows with tau, so values fall to
    the limit as tau does, at most tau log 3 / (1 - beta) above it. Linear interpolation of a convex
    function lies above as well. Listening from the uniform belief leads to a handful of beliefs
    near which the limit is linear in x, and is interpolated exactly; the finer grid confirms it.
    """
    low, high, beta, x = 19.3713, 19.3714, 0.95, [0.5, 0.5]
    tiger = pf.models.Tiger(discount=beta)
    theta = tiger.example()
    P, r = tiger.kernel(theta).to_dense(), np.asarray(tiger.reward(theta))

    def value(tau, grid=pf.Linear(201)):  # noqa: B008
        sol = pf.solve(Table(P, r, pf.Gumbel(jnp.asarray(tau))), at(beta), grid=grid)
        np.testing.assert_allclose(sol.value(0, x), sol.value(1, x), rtol=1e-14)
        return float(sol.value(0, x))

    taus = np.array([3.0, 1.0, 0.3, 0.1, 1e-2, 1e-6])
    values = np.array([value(tau) for tau in taus])
    rounding = 1e-11  # the solver's tolerance is 1e-10, but its last step goes far below
    assert (np.diff(values) <= rounding).all()
    assert values[0] > high + 1  # shocks matter at first
    assert (values >= low).all()
    assert (values <= high + taus * np.log(3) / (1 - beta)).all()
    assert low <= values[-1] <= high + 2.2e-5  # 1e-6 log 3 / (1 - beta)
    assert value(1e-6, pf.Linear(401)) == pytest.approx(values[-1], abs=1e-9)


# ---- solvers -------------------------------------------------------------------------------


def test_newton_and_relative_value_iteration_agree():
    model, grid = pf.models.EngineReplacement(bins=20, discount=0.95), pf.Smooth(15)
    newton = pf.solve(model, model.example(), grid=grid)
    plain = pf.solve(model, model.example(), grid=grid, solver=pf.RelativeValueIteration())
    assert newton.converged
    assert plain.converged
    assert newton.steps < plain.steps
    # Each is within residual / (1 - beta) of the fixed point.
    apart = np.abs(newton.coefficients - plain.coefficients).max()
    assert apart <= (newton.residual + plain.residual) / 0.05 + 1e-12


def test_a_warm_start_gives_the_same_answer_in_fewer_steps():
    model = pf.models.EngineReplacement(bins=20, discount=0.95)
    theta, grid = model.example(), pf.Smooth(15)
    near = theta | {"RC": theta["RC"] * 1.001}
    solve = functools.partial(pf.solve, model, grid=grid)
    cold = solve(near)
    warm = solve(near, start=solve(theta))
    assert warm.steps < cold.steps
    apart = np.abs(warm.coefficients - cold.coefficients).max()
    assert apart <= (warm.residual + cold.residual) / 0.05 + 1e-12


@pytest.mark.parametrize(
    ("bins", "nodes"), [(30, 15), pytest.param(175, 101, marks=pytest.mark.full)]
)
def test_the_residual_is_below_1e_10_at_discount_0_9999(bins, nodes):
    """175 bins, 101 nodes: the paper's bus model. Both ways to solve a Newton step are met."""
    model = pf.models.EngineReplacement(bins=bins, discount=0.9999)
    sol = pf.solve(model, model.example(), grid=pf.Smooth(nodes))
    assert sol.converged
    assert sol.residual <= 1e-10


def test_a_solver_that_stops_early_says_so():
    model = pf.models.EngineReplacement(bins=20, discount=0.9999)
    lazy = pf.RelativeValueIteration(max_steps=3)
    with pytest.raises(pf.SolveError, match="after 3 steps"):
        pf.solve(model, model.example(), grid=pf.Linear(11), solver=lazy)
    sol = pf.solve(model, model.example(), grid=pf.Linear(11), solver=lazy, throw=False)
    assert not sol.converged
    assert sol.result is pf.Result.MAX_STEPS
