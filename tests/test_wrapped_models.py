"""Models that wrap a model: what the agent sees more, what it may do less, and what that is worth.

Tolerances: values of an infinite horizon are solved to 1e-12 and worth 1 / (1 - beta) times as
much; those of a finite horizon carry the interpolation error, O(h^4) on a smooth grid.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from helpers import Table, at, random_belief, random_kernel, random_reward
from reference import nfxp, tree, worlds

SENSOR = np.array([[0.8, 0.15, 0.05], [0.1, 0.3, 0.6]])
EXACT = pf.Newton(tolerance=1e-12)  # as counterfactuals solve, so that compiled code is shared
GRID = pf.Smooth(11)  # laws hold on any grid
EMAX = tree.gumbel_emax(1.0)
SEEDS = st.integers(0, 10_000)


def table(seed=0, Z=2, S=2, A=2, **options) -> Table:
    rng = np.random.default_rng(seed)
    return Table(random_kernel(rng, Z, S, A), random_reward(rng, Z, S, A), **options)


def gains(model, pieces, beta, z, x, grid=GRID) -> pd.Series:
    """What each piece of information is worth, in present value."""
    prior = pf.KnownPrior(x)
    found = pf.value_of_information(model, pieces, at=at(beta), z0=z, prior=prior, grid=grid)
    return found.to_frame().xs("value", level="measure")["estimate"]


# ---- what the wrapped models are ---------------------------------------------------------------


def test_a_signal_multiplies_the_kernel():
    inner = table()
    outer = pf.WithSignal(inner, SENSOR)
    dense = outer.kernel(at(0.9)).to_dense()
    for z, s, a, z1, s1 in np.ndindex(*inner.P.shape):
        for y, y1 in np.ndindex(3, 3):
            expected = inner.P[z, s, a, z1, s1] * SENSOR[s1, y1]
            assert dense[3 * z + y, s, a, 3 * z1 + y1, s1] == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("reset", ["at_zero", "increment"])
def test_wrapped_kernels_keep_what_rows_share(reset):
    """The patterns of the engine's kernel are checked entry by entry, and tell the same law."""
    model = pf.models.EngineReplacement(bins=8, discount=0.9, reset=reset)
    theta = model.example()
    P = model.kernel(theta).to_dense()
    seen, _ = worlds.seen_in_full(P, np.asarray(model.reward(theta)))
    full = pf.FullyObserved(model).kernel(theta)
    full.check()
    np.testing.assert_array_equal(full.to_dense()[:, 0, :, :, 0], seen)
    signal = pf.WithSignal(model, SENSOR).kernel(theta)
    signal.check()
    assert len(set(signal.patterns[0].law)) == len(set(model.kernel(theta).patterns[0].law))
    np.testing.assert_allclose(
        signal.to_dense()[::3].reshape(8, 2, 2, 8, 3, 2), np.einsum("zsayt,tk->zsaykt", P, SENSOR)
    )


def test_a_kernel_that_does_not_depend_on_z_can_be_wrapped():
    tiger = pf.models.Tiger()
    theta = tiger.example()
    P = tiger.kernel(theta).to_dense()
    full, signal = pf.FullyObserved(tiger), pf.WithSignal(tiger, SENSOR)
    for model in (full, signal):
        model.kernel(theta).check()
        assert model.action_labels() == tiger.action_labels()
    seen, reward = worlds.seen_in_full(P, np.asarray(tiger.reward(theta)))
    np.testing.assert_array_equal(full.kernel(theta).to_dense()[:, 0, :, :, 0], seen)
    np.testing.assert_array_equal(full.reward(theta)[:, 0], reward)
    assert full.state_labels() is None
    dense = signal.kernel(theta).to_dense().reshape(2, 3, 2, 3, 2, 3, 2)
    expected = np.einsum("zsayt,tk->zsaykt", P, SENSOR)
    np.testing.assert_allclose(dense, np.broadcast_to(expected[:, None], dense.shape), rtol=1e-15)


# ---- against plain numpy -----------------------------------------------------------------------


def test_with_a_signal_values_equal_the_belief_tree():
    model = table(1, epochs=2)
    sol = pf.solve(pf.WithSignal(model, SENSOR), at(0.9), grid=pf.Smooth(401))
    x = np.array([0.35, 0.65])
    for z in range(2):
        expected = worlds.value_with_signal(model.P, model.r, SENSOR, 0.9, 2, z, x, EMAX)
        for y in range(3):
            np.testing.assert_allclose(sol.value(3 * z + y, x, 0), expected, atol=1e-8)


@pytest.mark.parametrize("states", [2, 3])
def test_full_observation_is_the_mdp(states):
    model = table(2, S=states)
    V = nfxp.solve_mdp(*worlds.seen_in_full(model.P, model.r), 0.9)[0]
    sol = pf.solve(pf.FullyObserved(model), at(0.9), solver=EXACT)
    np.testing.assert_allclose(sol.value(np.arange(2 * states), [1.0]), V, atol=1e-10)


def test_full_observation_with_a_last_epoch_and_barred_actions():
    end = np.array([[1.0, -1.0], [0.5, 2.0]])
    mask = np.array([[True, False], [True, True]])
    model = table(3, epochs=1, end=end, mask=mask)
    sol = pf.solve(pf.FullyObserved(model), at(0.5))
    q = model.r + 0.5 * np.einsum("zsayt,yt->zsa", model.P, end)
    expected = np.where(mask[:, None, 1], np.logaddexp(q[..., 0], q[..., 1]), q[..., 0])
    np.testing.assert_allclose(sol.value(np.arange(4), [1.0], 0), expected.ravel(), atol=1e-13)


def test_a_single_action_left_is_a_chain_with_rewards():
    """V = r + beta P V, linear in the belief."""
    model = table(4)
    sol = pf.solve(pf.Restricted(model, [1]), at(0.9), grid=GRID, solver=EXACT)
    flat, reward = worlds.seen_in_full(model.P, model.r)
    v = np.linalg.solve(np.eye(4) - 0.9 * flat[:, 1], reward[:, 1]).reshape(2, 2)
    x = np.array([0.3, 0.7])
    np.testing.assert_allclose(sol.value([0, 1], x), v @ x, atol=1e-10)
    np.testing.assert_array_equal(sol.policy([0, 1], x), [[0.0, 1.0]] * 2)


# ---- closed forms ------------------------------------------------------------------------------


def test_without_a_future_information_is_worth_what_it_does_to_one_choice():
    """beta = 0: E log sum_a exp r(z, x_y, a) - log sum_a exp r(z, x, a)."""
    model, x, z = table(5), np.array([0.4, 0.6]), 1
    log_sum = lambda belief: np.log(np.exp(belief @ model.r[z]).sum())
    chance = x @ SENSOR
    read = sum(p * log_sum(x * SENSOR[:, y] / p) for y, p in enumerate(chance)) - log_sum(x)
    seen = x @ [log_sum(vertex) for vertex in np.eye(2)] - log_sum(x)
    pieces = {
        "sensor": pf.Sensor(SENSOR),
        "reading": pf.Inspection(SENSOR),
        "full": pf.FullObservation(),
        "look": pf.Inspection(),
        # What comes too late for the only choice is worth nothing.
        "late sensor": pf.Sensor(SENSOR, from_now=False),
        "late": pf.FullObservation(from_now=False),
    }
    found = gains(model, pieces, 0.0, z, x)
    np.testing.assert_allclose(found, [read, read, seen, seen, 0.0, 0.0], atol=1e-12)


def test_seeing_the_state_from_the_next_period_on():
    """emax_a {r(z, x, a) + beta sum P(z', s' | z, x, a) V(z', s')} with the MDP's V."""
    model, x = table(6), np.array([0.4, 0.6])
    V = nfxp.solve_mdp(*worlds.seen_in_full(model.P, model.r), 0.9)[0].reshape(2, 2)
    q = np.einsum("s,sa->a", x, model.r[0] + 0.9 * np.einsum("sayt,yt->sa", model.P[0], V))
    now = float(pf.solve(model, at(0.9), grid=GRID, solver=EXACT).value(0, x))
    later = gains(model, pf.FullObservation(from_now=False), 0.9, 0, x)
    assert later.item() == pytest.approx(np.log(np.exp(q).sum()) - now, abs=1e-9)


def test_one_inspection_reads_the_value_at_the_vertices():
    model, x = table(7), np.array([0.4, 0.6])
    sol = pf.solve(model, at(0.9), grid=GRID, solver=EXACT)
    expected = x @ np.asarray(sol.value(0, np.eye(2))) - float(sol.value(0, x))
    assert gains(model, pf.Inspection(), 0.9, 0, x).item() == pytest.approx(expected, abs=1e-9)


# ---- laws --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [table(8), pytest.param(pf.models.EngineReplacement(4, 2, 0.9), marks=pytest.mark.full)],
)
def test_a_signal_that_tells_nothing_changes_nothing(model):
    blind = pf.WithSignal(model, [[0.3, 0.7], [0.3, 0.7]])
    ask = {"grid": GRID, "solver": EXACT}
    without, within = (pf.solve(m, model.example(), **ask) for m in (model, blind))
    z, x = np.array([0, 1]), np.array([[0.2, 0.8], [0.55, 0.45]])
    np.testing.assert_allclose(within.value(2 * z + 1, x), without.value(z, x), atol=1e-10)
    np.testing.assert_allclose(within.policy(2 * z, x), without.policy(z, x), atol=1e-10)


@settings(max_examples=4, deadline=None)
@given(SEEDS)
def test_garbling_a_signal_never_helps(seed):
    """Blackwell: none <= garbled <= sharp <= full, for any world, belief, signal and noise.

    Exact on a linear grid with two states, where interpolation keeps convexity; the slack is that
    of the solver.
    """
    rng = np.random.default_rng(seed)
    model, x, z = table(seed, A=3), random_belief(rng, 2), int(rng.integers(2))
    sharp, noise = rng.dirichlet(np.full(2, 0.5), size=2), rng.dirichlet(np.ones(2), size=2)
    beta = float(rng.uniform(0, 0.95))
    pieces = {
        "garbled": pf.Sensor(sharp @ noise),
        "sharp": pf.Sensor(sharp),
        "full": pf.FullObservation(),
        "once": pf.Inspection(),
    }
    worth = gains(model, pieces, beta, z, x, pf.Linear(11))
    assert -1e-10 <= worth["garbled"] <= worth["sharp"] + 1e-10
    assert worth["sharp"] <= worth["full"] + 1e-10
    assert -1e-10 <= worth["once"] <= worth["full"] + 1e-10


@pytest.mark.full
@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_with_three_states_seeing_all_of_them_never_hurts(seed):
    rng = np.random.default_rng(seed)
    model, x = table(seed, S=3), random_belief(rng, 3)
    assert gains(model, pf.FullObservation(), 0.9, 0, x, pf.Linear(5)).item() >= -1e-10


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_fewer_actions_never_help_and_values_stay_convex(seed):
    rng = np.random.default_rng(seed)
    model, grid = table(seed, A=3), pf.Linear(11)
    less = pf.Restricted(model, np.array([True, False, True]))
    one, other = random_belief(rng, 2), random_belief(rng, 2)
    free, bound = (pf.solve(m, at(0.8), grid=grid) for m in (model, less))
    assert (np.asarray(bound.value([0, 1], one)) <= free.value([0, 1], one)).all()
    middle = np.asarray(bound.value([0, 1], (one + other) / 2))
    ends = np.asarray(bound.value([0, 1], one)) + np.asarray(bound.value([0, 1], other))
    assert (middle <= ends / 2 + 1e-9).all()


# ---- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: pf.WithSignal(m, [[0.5, 0.5]]), r"shape \(2, Y\), one row for each hidden"),
        (lambda m: pf.WithSignal(m, [[0.5, 0.4], [1, 0]]), r"must sum to 1, but it sums to 0.9"),
        (lambda m: pf.WithSignal(m, [[1.5, -0.5], [1, 0]]), r"P\(y=1 \| s=0\) must be a prob"),
        (lambda m: pf.Restricted(m, ["repair"]), "no action 'repair'; the actions are keep, rep"),
        (lambda m: pf.Restricted(m, [2]), r"no action 2; the actions are keep, replace \(0..1\)"),
        (lambda m: pf.Restricted(m, np.zeros(2, bool)), "at z=0 there is none"),
        (lambda m: pf.Restricted(m, np.ones(3, bool)), r"shape \(2,\) or \(6, 2\)"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(pf.ModelError, match=message):
        make(pf.models.EngineReplacement(bins=6, increments=2, discount=0.9))


def test_what_a_model_rules_out_stays_ruled_out():
    model = pf.models.EngineReplacement(bins=6, increments=2, discount=0.9, top="replace")
    with pytest.raises(pf.ModelError, match="at z=5 there is none"):
        pf.Restricted(model, ["keep"])
