"""A coarse grid of beliefs before Newton's steps: the same answer, in few of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from pomdpfit._bellman import bellman_operator
from pomdpfit._fixed_point import cold_start
from pomdpfit._model import Primitives
from pomdpfit._solve import solve_primitives, solved_state
from pomdpfit.solvers import _nested, make_plan
from pomdpfit.solvers._nested import _carried, coarser

pytestmark = pytest.mark.full

PLAIN = pf.Newton(coarse_first=False)


@pytest.fixture(scope="module", autouse=True)
def float64_on_a_cpu():
    jax.config.update("jax_enable_x64", True)
    if jax.default_backend() != "cpu":
        pytest.skip("on other devices all grids take as long: there is no coarse one")


@pytest.fixture(scope="module")
def bus():
    return pf.models.EngineReplacement(bins=60, increments=4, discount=0.9999)


def coefficients(scheme, value, slope):
    """Those of a function of x(1), at every node of two states."""
    y = scheme.beliefs(2)[:, 1]
    if scheme.coefficients == 1:
        return value(y)[None, :, None]
    return np.stack([value(y), slope(y) / scheme.resolution], axis=-1)[None]


@settings(max_examples=30, deadline=None)
@given(
    nodes=st.integers(2, 30),
    others=st.integers(2, 30),
    law=st.lists(st.floats(-5, 5), min_size=4, max_size=4),
)
def test_functions_that_a_grid_stores_exactly_are_carried_exactly(nodes, others, law):
    """A cubic by value and slope, a straight line by values, whatever the two grids."""
    for kind, order in ((pf.Smooth, 4), (pf.Linear, 2)):
        cubic = np.polynomial.Polynomial(law[:order])
        here, there = (coefficients(kind(n), cubic, cubic.deriv()) for n in (nodes, others))
        carried = _carried(kind(nodes), kind(others), 2)(jnp.asarray(here))
        np.testing.assert_allclose(carried, there, rtol=1e-12, atol=1e-12)


def test_with_three_states_a_plane_is_carried_exactly():
    plane = np.array([1.0, -2.0, 0.5])
    fine, coarse = pf.Linear(21), pf.Linear(5)
    here, there = (grid.linear(jnp.asarray(plane))[None] for grid in (fine, coarse))
    np.testing.assert_allclose(_carried(fine, coarse, 3)(here), there, atol=1e-14)
    np.testing.assert_allclose(_carried(coarse, fine, 3)(there), here, atol=1e-14)


@pytest.mark.parametrize("grid", [pf.Linear(41), pf.Smooth(41), pf.Linear(24), pf.Smooth(19)])
def test_the_answer_is_that_of_newton_alone(bus, grid):
    theta = bus.example()
    plain, nested = (pf.solve(bus, theta, grid=grid, solver=s) for s in (PLAIN, pf.Newton()))
    assert nested.converged
    assert nested.steps < plain.steps
    apart = np.abs(nested.coefficients - plain.coefficients).max()
    assert apart <= (nested.residual + plain.residual) / 1e-4 + 1e-9


def test_with_three_hidden_states():
    """A counter that moves up, and a reset."""
    rng = np.random.default_rng(3)
    transition = 0.9 * np.eye(3) + 0.1 * rng.dirichlet(np.ones(3), size=3)
    up = pf.increment_kernel(12, transition, rng.dirichlet(np.ones(3), size=3))
    kernel = pf.join_actions(up, pf.reset_kernel(12, np.array([[0.7, 0.2, 0.1]])))
    reward = jnp.asarray(rng.normal(size=(12, 3, 2)))
    primitives = Primitives(kernel, reward, jnp.asarray(0.999), pf.Gumbel())
    plain, nested = (solve_primitives(primitives, pf.Linear(21), s) for s in (PLAIN, pf.Newton()))
    assert nested.steps < plain.steps
    np.testing.assert_allclose(nested.coefficients, plain.coefficients, atol=1e-6)


@pytest.mark.parametrize("grid", [pf.Linear(31), pf.Smooth(31)])
def test_what_is_solved_is_handed_back_to_the_bit(bus, grid):
    theta = bus.example()
    solved = pf.solve(bus, theta, grid=grid)
    again = pf.solve(bus, theta, grid=grid, start=solved)
    assert again.steps == 0
    np.testing.assert_array_equal(again.coefficients, solved.coefficients)


@pytest.mark.parametrize("wrong", [0.0, 1e3, np.nan])
def test_a_poor_correction_costs_time_not_accuracy(bus, wrong, monkeypatch):
    """Its steps lead astray, or nowhere at all."""
    primitives = pf.solve(bus, bus.example(), grid=pf.Linear(17)).primitives
    operator = bellman_operator(primitives, pf.Linear(17))
    plan = make_plan(primitives.kernel)
    right = solved_state(operator, PLAIN, plan, None)
    monkeypatch.setattr(_nested, "_carried", _astray(wrong))
    state = pf.Newton().rounds(plan)[0](operator, cold_start(primitives, pf.Linear(17)), 0)
    assert float(state.residual) <= 1e-9
    np.testing.assert_allclose(state.coefficients, right.coefficients, atol=1e-4)


def _astray(wrong):
    return lambda scheme, to, states: lambda d: wrong * _carried(scheme, to, states)(d)


def test_small_grids_have_no_coarser_one():
    assert coarser(pf.Linear(16)) is None
    assert coarser(pf.Linear(101)) == pf.Linear(11)
    assert coarser(pf.Smooth(24)) == pf.Smooth(5)


def test_likelihoods_do_without(bus):
    """Their programs are compiled first of all, and their solves start close by."""
    prior = pf.KnownPrior([1.0, 0.0])
    panel = pf.simulate(bus, bus.example(), agents=3, periods=5, seed=0, prior=prior)
    assert not pf.Likelihood(bus, panel, prior=prior)._solver.coarse_first
