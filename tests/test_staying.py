"""Passes over the chance of staying: as few as leave no more than they may, wherever one stays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from pomdpfit._bellman import bellman_operator
from pomdpfit._model import checked_primitives
from pomdpfit.solvers import _linear, make_plan, many_solver, solve_back
from pomdpfit.solvers._newton import ordered_step
from pomdpfit.solvers._staying import (
    MOST_PASSES,
    Staying,
    _enough_passes,
    _relaxations,
    staying,
)

pytestmark = pytest.mark.full


@pytest.fixture(scope="module", autouse=True)
def float64():
    jax.config.update("jax_enable_x64", True)


@settings(max_examples=40, deadline=None)
@given(chance=st.floats(0.001, 1 / 3), exponent=st.floats(0.5, 12))
def test_relaxed_passes_leave_no_more_than_they_may(chance, exponent):
    """What passes make of every error, a polynomial, multiplied out."""
    leave, most = 10.0**-exponent, chance / (1 - chance)
    passes = _enough_passes(jnp.asarray(chance), leave, True)
    weights = _relaxations(jnp.asarray(chance), passes)
    rough = np.linspace(0, most, 200)
    left = -rough  # of the first term
    for k in range(int(passes)):
        left = left * (1 - weights[min(k, len(weights) - 1)] * (1 + rough))
    assert np.abs(left).max() <= leave * (1 + 1e-9) + 1e-15
    corrected = int(np.ceil(np.log(leave) / np.log(most)))
    assert passes <= max(corrected, 1)


def test_fewer_passes_than_without_relaxing():
    relaxed, plain = (_enough_passes(jnp.asarray(0.24), 5e-6, each) for each in (True, False))
    assert relaxed + 3 <= plain


def transfer_at(replacement_cost, grid):
    """T' at the fixed point of a bus whose last bin is left soon, or hardly ever."""
    model = pf.models.EngineReplacement(bins=30, increments=4, discount=0.9999)
    theta = {**model.example(), "RC": np.asarray(replacement_cost)}
    solved = pf.solve(model, theta, grid=grid)
    primitives = checked_primitives(model, theta)
    operator = bellman_operator(primitives, grid)
    return operator.derivative(solved.coefficients), primitives.kernel, make_plan(primitives.kernel)


@pytest.mark.parametrize("grid", [pf.Linear(15), pf.Smooth(15)], ids=str)
@pytest.mark.parametrize(("replacement_cost", "by_passes"), [(0.0, True), (60.0, False)])
def test_where_one_may_stay_for_ever_passes_do_as_lu_does(grid, replacement_cost, by_passes):
    transfer, _, plan = transfer_at(replacement_cost, grid)
    assert plan.sticky == 1
    stuck = staying(transfer, plan, 1e-9, alone=True).stuck
    assert stuck is not None
    assert (stuck[plan.order[0]] <= MOST_PASSES) == by_passes
    shape = (*transfer.share[:, 0].shape, grid.coefficients)
    gap = jnp.asarray(np.random.default_rng(0).normal(size=shape))
    found = [
        jax.jit(lambda gap, a=alone: ordered_step(transfer, plan, gap, 1, 1e-9, alone=a))(gap)
        for alone in (False, True)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6 * np.abs(found[0]).max())


@pytest.mark.parametrize("coarse_first", [True, False])
@pytest.mark.parametrize("grid", [pf.Linear(401), pf.Smooth(201)], ids=str)
def test_a_block_too_large_to_write_down_is_solved_all_the_same(grid, coarse_first):
    """By passes, which leave much where one stays for ever: further steps make it good."""
    model = pf.models.EngineReplacement(bins=12, increments=3, discount=0.99)
    theta = {**model.example(), "RC": 60.0}
    found = pf.solve(model, theta, grid=grid, solver=pf.Newton(coarse_first=coarse_first))
    plain = pf.solve(model, theta, grid=grid, solver=pf.RelativeValueIteration(tolerance=1e-11))
    assert found.residual <= 1e-10
    error = (found.residual + plain.residual) / (1 - 0.99)  # contraction
    largest = np.abs(plain.coefficients[..., 0]).max()
    np.testing.assert_allclose(
        found.coefficients[..., 0],
        plain.coefficients[..., 0],
        rtol=0,
        atol=error + 100 * np.finfo(float).eps * largest,
    )


@pytest.mark.parametrize("grid", [pf.Linear(41), pf.Smooth(41)], ids=str)
def test_derivatives_of_the_bus_take_one_sweep_or_two(grid, monkeypatch):
    transfer, kernel, plan = transfer_at(8.0, grid)
    made = []
    for name in ("sweep", "sweep_back"):
        monkeypatch.setattr(_linear, name, _counted(getattr(_linear, name), made))
    right = jnp.asarray(np.random.default_rng(1).normal(size=(30, 41, grid.coefficients)))
    forward = lambda right: many_solver(transfer, kernel, grid, plan, 1e-10)(right[..., None])
    back = lambda right: solve_back(transfer, right, kernel, grid, plan, 1e-10)
    for solver in (forward, back):
        made.clear()
        assert np.isfinite(jax.jit(solver)(right)).all()
        jax.effects_barrier()
        assert 1 <= len(made) <= 2


def _counted(sweep, made):
    def swept(transfer, plan, right, *rest, **how):
        jax.debug.callback(lambda _: made.append(1), right[0, 0, 0, 0])
        return sweep(transfer, plan, right, *rest, **how)

    return swept


# ---- on other devices than a CPU ---------------------------------------------------------------


def test_some_passes_a_turn_leave_no_more(monkeypatch):
    """The form for other devices, run here: as many passes or a few more."""
    transfer, kernel, plan = transfer_at(8.0, pf.Linear(41))
    right = jnp.asarray(np.random.default_rng(1).normal(size=(30, 41, 1)))
    back = lambda: jax.jit(lambda r: solve_back(transfer, r, kernel, pf.Linear(41), plan, 1e-10))
    one_by_one = back()(right)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    np.testing.assert_allclose(back()(right), one_by_one, rtol=1e-8, atol=1e-8)


def test_side_by_side_all_make_as_many_passes(monkeypatch):
    """One loop for all, which no member has to be picked out of: as long as the longest."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    member = lambda passes: Staying(passes, None, None).over_passes(
        lambda k, block: block + 1.0, jnp.zeros(())
    )
    counts = jax.vmap(member)(jnp.array([3, 20, 9]))
    np.testing.assert_array_equal(counts, 24.0)
    loops = jax.make_jaxpr(jax.vmap(member))(jnp.array([3, 20, 9])).jaxpr.eqns
    (loop,) = (each for each in loops if each.primitive.name == "while")
    condition = loop.params["cond_jaxpr"].jaxpr
    assert all(variable.aval.shape == () for variable in condition.outvars)
    assert "reduce_or" not in str(condition)
