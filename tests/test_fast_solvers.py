"""Newton steps, ordered and by Krylov's method: exact answers, and little work, counted."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit._bellman import Transfer, bellman_operator
from pomdpfit._fixed_point import cold_start, solve_infinite
from pomdpfit._kernel import Kernel, Pattern
from pomdpfit._model import Primitives, checked_primitives
from pomdpfit._solve import solve_primitives, solved_state
from pomdpfit._sound import _as_shared
from pomdpfit._stencil import make_stencil
from pomdpfit.programs import forget_programs
from pomdpfit.solvers import _newton, make_plan, many_solver, solve_back

# Never taken back: JAX takes back all listeners at once, those of other tests too.
COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: COMPILED.append(name) if "backend_compile" in name else None
)


def primitives(kernel, seed=0, discount=0.99):
    reward = np.random.default_rng(seed).normal(
        size=(kernel.observations, kernel.states, kernel.actions)
    )
    return Primitives(kernel, jnp.asarray(reward), jnp.asarray(discount), pf.Gumbel())


def rising(bins=7, stay=0.9, still=0.4):
    """One action that moves a counter up, two hidden states."""
    transition = np.array([[stay, 1 - stay], [0.0, 1.0]])
    increments = np.array([[0.1, 0.5, 0.4], [still, 0.9 - still, 0.1]])
    return pf.increment_kernel(bins, transition, increments)


def reset(bins, law):
    return pf.reset_kernel(bins, np.asarray(law))


def shuffled(kernel, seed):
    """The same process with its observations renumbered, without a pattern to go by."""
    table = kernel.to_dense()
    new = np.random.default_rng(seed).permutation(kernel.observations)
    renamed = np.zeros_like(table)
    renamed[np.ix_(new, range(2), range(kernel.actions), new, range(2))] = table
    return pf.dense_kernel(renamed, (renamed.sum(axis=(1, 4)) > 0))


@pytest.fixture(scope="module", autouse=True)
def float64():
    jax.config.update("jax_enable_x64", True)


KERNELS = {
    "a counter and a reset": lambda: pf.join_actions(rising(), reset(7, [[0.7, 0.3]])),
    "seldom still": lambda: pf.join_actions(rising(still=0.3), reset(7, [[0.7, 0.3]])),
    "two resets": lambda: pf.join_actions(
        rising(), reset(7, [[1.0, 0.0]]), reset(7, [[0.2, 0.1], [0.3, 0.4]])
    ),
    "no reset": lambda: rising(),
    "nothing but resets": lambda: reset(5, [[0.5, 0.1], [0.2, 0.2]]),
    "one way, renumbered": lambda: shuffled(rising(), 3),
    "back and forth": lambda: shuffled(pf.join_actions(rising(), reset(7, [[0.7, 0.3]])), 4),
}


@pytest.mark.full
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    "grid", [pf.Linear(9), pf.Smooth(9), pf.Linear(21), pf.Smooth(17)], ids=str
)
def test_the_solution_is_that_of_value_iteration(name, grid):
    """Two methods, one fixed point: to residual / (1 - beta) of each.

    From 17 nodes on there is a coarse grid, too.
    """
    model = primitives(KERNELS[name]())
    fast = solve_primitives(model, grid, pf.Newton())
    plain = solve_primitives(model, grid, pf.RelativeValueIteration())
    np.testing.assert_allclose(fast.coefficients, plain.coefficients, atol=4 * 1e-10 / 0.01)


@eqx.filter_jit
def transferred_and_solved(model, grid, plan, value, right):
    """T'(V) of every unit vector, (I - T'(V))^-1 right, and (I - T'(V))^-T of its first column."""
    transfer = bellman_operator(model, grid).derivative(value)
    unit = jnp.eye(value.size).reshape(*value.shape, value.size)
    image = jax.lax.map(transfer, jnp.moveaxis(unit, -1, 0), batch_size=64)
    found = many_solver(transfer, model.kernel, grid, plan, 1e-12)(jnp.asarray(right))
    back = solve_back(transfer, jnp.asarray(right[..., 0]), model.kernel, grid, plan, 1e-12)
    return jnp.moveaxis(image, 0, -1), found, back


@pytest.mark.full
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("grid", [pf.Linear(71), pf.Smooth(36)], ids=str)
def test_linear_systems_against_lu(name, grid):
    """d - T'(V) d = b, and the transpose, by sweeps or coarse corrections, against the matrix."""
    model = primitives(KERNELS[name](), discount=0.9999)
    value = solve_primitives(model, grid).coefficients
    size = value.size
    right = np.random.default_rng(1).normal(size=(*value.shape, 3))
    image, found, back = transferred_and_solved(model, grid, make_plan(model.kernel), value, right)
    matrix = np.eye(size) - np.asarray(image).reshape(size, size)
    known = np.linalg.solve(matrix, right.reshape(size, 3)).reshape(right.shape)
    # The level of d is known to 1 / (1 - beta) of the rounding of b.
    np.testing.assert_allclose(found, known, rtol=1e-8, atol=1e-7 * np.abs(known).max())
    known = np.linalg.solve(matrix.T, right[..., 0].reshape(size)).reshape(value.shape)
    np.testing.assert_allclose(back, known, rtol=1e-8, atol=1e-7 * np.abs(known).max())


@pytest.mark.full
def test_the_derivative_of_the_operator_is_a_difference_of_it():
    model = primitives(KERNELS["two resets"]())
    rng = np.random.default_rng(2)
    for grid in (pf.Linear(9), pf.Smooth(9)):
        operator = eqx.filter_jit(bellman_operator)(model, grid)
        apply = eqx.filter_jit(lambda operator, value: operator(value))
        value, move = jnp.asarray(rng.normal(size=(2, *cold_start(model, grid).shape)))
        image, transfer = eqx.filter_jit(lambda o, v: o.with_derivative(v))(operator, value)
        np.testing.assert_allclose(image, apply(operator, value), rtol=1e-13)
        step = 1e-6
        ahead, behind = (apply(operator, value + side * step * move) for side in (1, -1))
        difference = (ahead - behind) / (2 * step)
        np.testing.assert_allclose(apply(transfer, move), difference, atol=1e-8)


@pytest.mark.full
@pytest.mark.parametrize("grid", [pf.Linear(9), pf.Smooth(9)], ids=str)
def test_shared_rows_give_the_operator_of_rows_written_out(grid):
    """The kernel without its pattern is the same kernel."""
    shared = KERNELS["two resets"]()
    plain = Kernel(shared.successors, shared.probability, shared.observations)
    assert len(bellman_operator(primitives(shared), grid).stencil.pieces) == 3
    assert len(bellman_operator(primitives(plain), grid).stencil.pieces) == 1
    value = jnp.asarray(np.random.default_rng(3).normal(size=(7, 9, grid.coefficients)))
    one, other = (bellman_operator(primitives(k), grid) for k in (shared, plain))
    np.testing.assert_allclose(one(value), other(value), rtol=1e-13, atol=1e-13)
    written = one.stencil.plain()
    np.testing.assert_allclose(written(value), one.stencil(value), rtol=1e-13, atol=1e-13)


def test_a_pattern_that_does_not_hold_is_refused():
    kernel = rising()
    wrong = Kernel(kernel.successors, kernel.probability, 7, (Pattern((0,) * 7, 3),))
    with pytest.raises(pf.ModelError, match="not shared as the kernel's pattern says"):
        wrong.check()


@pytest.mark.parametrize("shifts", [(1, 2, 3), (0, 1), (0, 2, 1)])
def test_shifts_that_do_not_hold_are_refused(shifts):
    kernel = rising()
    (pattern,) = kernel.patterns
    assert pattern.shifts == (0, 1, 2)
    wrong = Kernel(
        kernel.successors, kernel.probability, 7, (dataclasses.replace(pattern, shifts=shifts),)
    )
    with pytest.raises(pf.ModelError, match="not shared as the kernel's pattern says"):
        wrong.check()
    assert not _as_shared(wrong)
    assert _as_shared(kernel)


@pytest.mark.full
@pytest.mark.parametrize("bins", [1, 2, 3, 4, 9])
def test_increments_say_how_far_they_lead_whatever_the_number_of_bins(bins):
    kernel = rising(bins)
    kernel.check()
    plain = Kernel(kernel.successors, kernel.probability, bins)
    value = jnp.asarray(np.random.default_rng(bins).normal(size=(bins, 5, 1)))
    one, other = (make_stencil(k, pf.Linear(5))(value) for k in (kernel, plain))
    np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


@pytest.mark.full
@pytest.mark.parametrize("grid", [pf.Linear(9), pf.Smooth(9)], ids=str)
def test_observations_that_move_down_are_read_side_by_side_too(grid):
    """The mirror image: the last observation first, and shifts below zero."""
    up, value = rising(9), np.random.default_rng(0).normal(size=(9, 9, grid.coefficients))
    (pattern,) = up.patterns
    law = tuple(2 if z > 1 else z for z in range(9))
    told = dataclasses.replace(pattern, law=law, shifts=(0, -1, -2))
    down = Kernel(8 - up.successors[::-1], up.probability[::-1], 9, (told,))
    down.check()
    mirrored = make_stencil(down, grid)(jnp.asarray(value[::-1]))[::-1]
    rose = make_stencil(up, grid)(jnp.asarray(value))
    np.testing.assert_allclose(rose, mirrored, rtol=1e-13, atol=1e-13)
    to_the_last = pf.reset_kernel(9, np.array([[0.7, 0.3]]), first=8)
    there = primitives(pf.join_actions(down, to_the_last))
    plain = primitives(Kernel(there.kernel.successors, there.kernel.probability, 9))
    found, expected = (solve_primitives(p, grid).coefficients for p in (there, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# ---- work --------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_bus_takes_few_newton_steps():
    """At discount 0.9999, where value iteration takes more than a thousand sweeps."""
    model = pf.models.EngineReplacement(bins=175, increments=4, discount=0.9999)
    theta = model.example()
    moved = {**theta, "RC": theta["RC"] * 1.02, "cost": theta["cost"] * 1.02}
    few = (True, 3, 2) if jax.default_backend() == "cpu" else (True, 9, 4)  # no coarse grid there
    for coarse_first, cold_steps, warm_steps in ((False, 9, 4), few):
        solver = pf.Newton(coarse_first=coarse_first)
        cold = pf.solve(model, theta, grid=pf.Linear(31), solver=solver)
        assert cold.steps <= cold_steps
        warm = pf.solve(model, moved, grid=pf.Linear(31), solver=solver, start=cold)
        assert warm.steps <= warm_steps


@pytest.mark.full
@pytest.mark.parametrize("grid", [pf.Linear(101), pf.Linear(601), pf.Smooth(101)], ids=str)
def test_a_solve_needs_eight_times_the_action_values_at_most(grid):
    """Operator, start, work and result together, as the compiler sets them aside."""
    model = pf.models.EngineReplacement(bins=175, increments=4, discount=0.9999)
    primitives = checked_primitives(model, model.example())
    operator, plan = bellman_operator(primitives, grid), make_plan(primitives.kernel)
    (run,) = pf.Newton().rounds(plan)
    start = cold_start(primitives, grid)
    compiled = eqx.filter_jit(run).lower(operator, start, 0).compile().compiled
    needed = compiled.memory_analysis()
    in_all = needed.argument_size_in_bytes + needed.temp_size_in_bytes + needed.output_size_in_bytes
    assert in_all <= 8 * start.nbytes * primitives.kernel.actions


def sticky(seed, states=0.99, discount=0.9999, stays=0.0):
    """Dense successors and hidden states that seldom change; observations neither, if asked for."""
    rng = np.random.default_rng(seed)
    Z, S, A = 4, 3, 2
    where = rng.dirichlet(np.ones(Z), size=(Z, S, A))
    where = (1 - stays) * where + stays * np.eye(Z)[:, None, None, :]
    hidden = rng.dirichlet(np.ones(S), size=(Z, S, A, Z))
    hidden = (1 - states) * hidden + states * np.eye(S)[None, :, None, None, :]
    return primitives(pf.dense_kernel(where[..., None] * hidden), seed, discount)


@pytest.fixture
def compiled_anew():
    """What a test puts in the place of our functions is compiled, and gone afterwards."""
    forget_programs()
    yield
    forget_programs()


def sweeps_saved(model, grid, monkeypatch):
    """Sweeps of value iteration, and applications of T and T' that Newton's method makes."""
    made, apply = [], Transfer.__call__

    def counted(self, d):
        if self.share.shape[-1] == grid.size(3):  # at all nodes, not the coarse ones
            jax.debug.callback(lambda _: made.append(1), d[0, 0, 0])
        return apply(self, d)

    monkeypatch.setattr(Transfer, "__call__", counted)
    fast = solve_primitives(model, grid, pf.Newton())
    jax.effects_barrier()
    plain = solve_primitives(model, grid, pf.RelativeValueIteration())
    np.testing.assert_allclose(
        fast.coefficients - fast.coefficients[0, 0],
        plain.coefficients - plain.coefficients[0, 0],
        atol=1e-7,
    )
    return plain.steps, fast.steps + 1 + len(made)


@pytest.mark.full
@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("stays", [0.0, 0.99])
def test_krylov_steps_save_nine_sweeps_of_ten(seed, stays, monkeypatch):
    """Also where observations are sticky, too: what polynomials cannot take out is then rough."""
    plain, fast = sweeps_saved(sticky(seed, stays=stays), pf.Linear(21), monkeypatch)
    assert plain > 500
    assert 10 * fast < plain
    assert fast > 10  # uses of T' are counted


@pytest.mark.full
@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize("seed", range(4))
def test_where_value_iteration_is_quick_it_is_all_there_is(seed, monkeypatch):
    plain, fast = sweeps_saved(sticky(seed, states=0.0), pf.Linear(21), monkeypatch)
    assert fast == plain + 1 < 40


@pytest.mark.full
@pytest.mark.usefixtures("compiled_anew")
def test_steps_that_are_not_needed_are_not_compiled(monkeypatch):
    """And in one program or in several, the solution is the same."""
    built, improve = [], _newton.coarse_improvement
    monkeypatch.setattr(
        _newton, "coarse_improvement", lambda *args: built.append(1) or improve(*args)
    )
    grid = pf.Linear(21)
    solve_primitives(sticky(0, states=0.0), grid, pf.Newton())
    assert built == []
    hard = sticky(0)
    in_rounds = solve_primitives(hard, grid, pf.Newton())
    assert built == [1]
    start = cold_start(hard, grid)
    at_once = jax.jit(
        lambda: solve_infinite(hard, grid, pf.Newton(), make_plan(hard.kernel), start)
    )
    assert in_rounds.steps == at_once().steps
    np.testing.assert_allclose(in_rounds.coefficients, at_once().coefficients, atol=1e-8)


@pytest.mark.full
@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize("wrong", [0.0, jnp.nan])
def test_value_iteration_takes_over_where_steps_lead_nowhere(wrong, monkeypatch):
    """A linear step that is wrong, or no number, costs time and nothing else."""
    monkeypatch.setattr(_newton, "krylov_step", lambda transfer, improve, gap: wrong * gap)
    model, grid = sticky(0, states=0.9, discount=0.9), pf.Linear(21)
    found = solve_primitives(model, grid, pf.Newton())
    plain = solve_primitives(model, grid, pf.RelativeValueIteration())
    assert found.steps > 40  # of which four would do if steps were right
    np.testing.assert_allclose(found.coefficients, plain.coefficients, atol=1e-8)


@pytest.mark.full
def test_what_rounding_leaves_is_not_swept_for_ever():
    """A cost of 1e14 that hardly anybody meets: rewards are known to some 1e-2, and so is T V."""
    model = pf.models.EngineReplacement(bins=20, increments=4, discount=0.9999)
    theta = {
        **model.example(),
        "RC": 2.3,
        "cost": np.array([16.8, 1.46e14]),
        "stay": np.array([1.0 - 1e-12, 0.722]),
        "increment": np.array([[0.1, 0.445, 0.443, 0.012], [1.0, 0.0, 0.0, 0.0]]),
    }
    primitives = checked_primitives(model, theta)
    operator, plan = bellman_operator(primitives, pf.Smooth(15)), make_plan(primitives.kernel)
    for coarse_first in (False, True):
        solver = pf.Newton(coarse_first=coarse_first, max_steps=20_000)
        assert int(solved_state(operator, solver, plan, None).steps) < 5_000


@pytest.mark.full
def test_a_fit_compiles_its_large_programs_once():
    """A second fit, and one of other starts, find everything compiled."""
    model = pf.models.EngineReplacement(bins=8, increments=3, discount=0.9)
    panel = pf.simulate(
        model, model.example(), agents=20, periods=20, seed=0, prior=pf.KnownPrior([1.0, 0.0])
    )

    def fit(**start):
        return pf.fit(
            model,
            panel,
            pf.TwoStage(),
            prior=pf.KnownPrior([1.0, 0.0]),
            grid=pf.Smooth(5),
            start=start,
            starts=1,
        )

    fit(RC=9.0)
    assert COMPILED
    COMPILED.clear()
    fit(RC=8.0)
    assert not COMPILED


FAR = {
    "RC": np.array(9.0),
    "cost": np.array([0.4, 2.4]),
    "stay": np.array([0.977, 0.768]),
    "increment": np.array([[0.03, 0.48, 0.49], [0.97, 0.03, 0.0]]),
    "discount": np.array(0.9999),
}


@pytest.fixture
def near():
    """A plan is made at the example, where a bin is left soon; at FAR bad engines hardly move."""
    return pf.models.EngineReplacement(bins=90, increments=3, discount=0.9999)


@pytest.mark.full
def test_newton_steps_where_a_search_has_gone_far_from_the_plan(near):
    plan = make_plan(checked_primitives(near, near.example()).kernel)
    far = checked_primitives(near, FAR)
    operator = bellman_operator(far, pf.Linear(5))
    assert solved_state(operator, pf.Newton(), plan, None).steps <= 8


@pytest.mark.full
def test_what_a_sweep_leaves_where_slopes_carry_errors_from_bin_to_bin():
    """Where a fit of groups 3 and 4 went by: passes that do for values left more than all of it."""
    model = pf.models.EngineReplacement(bins=175, increments=4, discount=0.9999)
    dynamics = {
        "stay": [0.973, 0.975],
        "increment": [[0.041, 0.433, 0.504, 0.022], [0.259, 0.694, 0.047, 0.0]],
        "discount": 0.9999,
    }
    near = pf.solve(
        model,
        {"RC": -0.6, "cost": [-25.5, 10.9], **dynamics},
        grid=pf.Smooth(15),
        solver=pf.RelativeValueIteration(max_steps=300),
        throw=False,
    )
    there = checked_primitives(model, {"RC": -0.656, "cost": [-26.2, 11.0], **dynamics})
    image, transfer = bellman_operator(there, near.grid).with_derivative(near.coefficients)
    gap, plan = image - near.coefficients, make_plan(there.kernel)
    change = jax.jit(lambda gap: _newton.ordered_step(transfer, plan, gap, 1, _newton._LEAVE))(gap)
    left = gap - change + transfer(change)
    assert jnp.abs(left).max() < 0.2 * jnp.abs(gap).max()


@pytest.mark.full
@pytest.mark.parametrize("grid", [pf.Linear(15), pf.Smooth(15)])
def test_newton_mends_sweeps_with_too_few_passes(grid, monkeypatch):
    monkeypatch.setattr(_newton, "_LEAVE", 0.5)
    monkeypatch.setattr(_newton, "_LEAVE_SLOPES", 0.25)
    model = pf.models.EngineReplacement(bins=60, increments=4, discount=0.9999)
    assert pf.solve(model, model.example(), grid=grid).steps <= 60


@pytest.mark.full
def test_gradients_where_a_search_has_gone_far_from_the_plan(near):
    theta = FAR
    panel = pf.Panel.from_arrays([[0, 2, 4, 4, 4, 5]], [[0, 0, 0, 0, 0]])
    likelihood = pf.Likelihood(near, panel, prior=pf.KnownPrior([0.9, 0.1]), grid=pf.Linear(5))
    _, gradient = likelihood.pull(theta, np.ones((1, 2)), ("RC", "cost"))
    total = lambda name, move: likelihood.terms({**theta, name: theta[name] + move}).total
    step = 1e-3
    for move in step * np.eye(2):
        slope = (total("cost", move) - total("cost", -move)) / (2 * step)
        assert gradient["cost"] @ move / step == pytest.approx(slope, rel=1e-5)
    slope = (total("RC", step) - total("RC", -step)) / (2 * step)
    assert gradient["RC"] == pytest.approx(slope, rel=1e-5)
