"""The engine with any number of conditions, and with a new engine in any of them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from helpers import random_paths
from pomdpfit.baselines import BusEngine, NFXPLikelihood

EPS = np.finfo(float).eps
BINS, STEPS = 6, 3
RESETS = ("at_zero", "increment")
TWO = {
    "RC": 2.0,
    "cost": np.array([200.0, 900.0]),
    "stay": np.array([0.8, 0.9]),
    "increment": np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]),
    "discount": 0.9,
}


def engine(**options):
    return pf.models.EngineReplacement(**({"bins": BINS, "increments": STEPS} | options))


def table(theta, move, new, reset):
    """P[z, s, a, z', s'] by hand: keep moves z by the present s, replace draws s' and then z'."""
    S = len(move)
    P = np.zeros((BINS, S, 2, BINS, S))
    for z, s, j, s1 in itertools.product(range(BINS), range(S), range(STEPS), range(S)):
        P[z, s, 0, min(z + j, BINS - 1), s1] += theta["increment"][s][j] * move[s][s1]
        P[z, s, 1, j if reset == "increment" else 0, s1] += new[s1] * theta["increment"][s1][j]
    return P


def moves(stay):
    return np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])


def blind_panel(P, x0, seed=0):
    return random_paths(P, x0, (30, 18, 7), np.random.default_rng(seed))


# ---- one condition -----------------------------------------------------------------------------


@pytest.mark.parametrize("reset", ["at_zero", pytest.param("increment", marks=pytest.mark.full)])
def test_with_one_condition_it_is_rusts_engine(reset):
    model = engine(discount=0.9, reset=reset, conditions=1)
    rust = BusEngine(bins=BINS, increments=STEPS, discount=0.9, reset=reset)
    increment = np.array([0.3, 0.5, 0.2])
    shared = {"RC": 2.0, "discount": 0.9}
    theta = {**shared, "cost": np.array([600.0]), "increment": increment[None]}
    panel = blind_panel(model.kernel(theta).to_dense(), np.ones(1))
    got = pf.log_likelihood(model, theta, panel)  # there is one prior, so none is needed
    expected = NFXPLikelihood(rust, panel).terms({**shared, "cost": 600.0, "increment": increment})
    np.testing.assert_allclose(got.observation, expected.observation, atol=1e-13)
    # One of the two stops at a residual of 1e-10 or less of the values.
    np.testing.assert_allclose(got.choice, expected.choice, atol=1e-9)
    assert (expected.choice != 0).sum() == panel.acted.sum()
    assert sorted(model.parameters()) == sorted(rust.parameters())


# ---- two conditions ----------------------------------------------------------------------------


@pytest.mark.parametrize("reset", RESETS)
def test_by_default_it_is_the_papers_engine_of_two_conditions(reset):
    model = engine(reset=reset)
    assert (model.conditions, model.new) == (2, "good")
    assert set(model.parameters()) == {"RC", "cost", "stay", "increment", "discount"}
    assert model.state_labels() == ("good", "bad")
    example = {name: np.asarray(leaf) for name, leaf in model.example().items()}
    # Table I of the paper, its last two increments lumped.
    np.testing.assert_array_equal(example["cost"], [0.2, 1.2])
    np.testing.assert_array_equal(example["stay"], [0.949, 0.988])
    np.testing.assert_allclose(
        example["increment"], [[0.039, 0.333, 0.628], [0.181, 0.757, 0.062]], atol=EPS
    )
    for theta in (TWO, example):
        expected = table(theta, moves(theta["stay"]), [1.0, 0.0], reset)
        # Sums of at most three products.
        np.testing.assert_allclose(model.kernel(theta).to_dense(), expected, atol=8 * EPS)


# ---- a condition that is never met -------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("idle", [pytest.param(1, marks=pytest.mark.full), 2])
def test_a_third_condition_that_is_never_met_changes_nothing(idle):
    """Beliefs stay on the face without it, where both grids have the same nodes and cells."""
    met = [s for s in range(3) if s != idle]
    three = {"RC": 2.0, "discount": 0.9, "cost": np.full(3, -5e3)}
    three["increment"] = np.full((3, 3), 1 / 3)
    three["condition"] = np.full((3, 3), 1 / 3)
    three["cost"][met] = TWO["cost"]
    three["increment"][met] = TWO["increment"]
    three["condition"][met] = np.insert(moves(TWO["stay"]), idle, 0.0, axis=1)

    model, wide = (engine(discount=0.9, reset="increment", conditions=n) for n in (2, 3))
    x0 = np.array([0.6, 0.4])
    panel = blind_panel(model.kernel(TWO).to_dense(), x0)
    grid = pf.Linear(9)
    expected = pf.log_likelihood(model, TWO, panel, prior=pf.KnownPrior(x0), grid=grid)
    prior = pf.KnownPrior(np.insert(x0, idle, 0.0))
    got = pf.log_likelihood(wide, three, panel, prior=prior, grid=grid)
    np.testing.assert_allclose(got.belief[..., met], expected.belief, atol=1e-13)
    np.testing.assert_array_equal(got.belief[..., idle], 0)
    np.testing.assert_allclose(got.observation, expected.observation, atol=1e-12)
    # Both stop at a residual of 1e-10 or less of the values.
    np.testing.assert_allclose(got.choice, expected.choice, atol=1e-9)


# ---- new engines -------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("conditions", [1, 2, 3])
def test_a_new_engine_that_is_good_for_certain_is_the_papers(conditions, reset):
    good, free = (engine(conditions=conditions, reset=reset, new=new) for new in ("good", "free"))
    theta = good.example()
    certain = {**theta, "new": np.eye(conditions)[0]}
    np.testing.assert_array_equal(free.kernel(certain).to_dense(), good.kernel(theta).to_dense())
    np.testing.assert_array_equal(free.reward(certain), good.reward(theta))


@pytest.mark.parametrize("reset", RESETS)
def test_a_new_engine_draws_its_condition_and_then_its_mileage(reset):
    model = engine(reset=reset, new="free")
    theta = {**TWO, "new": np.array([0.7, 0.3])}
    expected = table(TWO, moves(TWO["stay"]), theta["new"], reset)
    np.testing.assert_allclose(model.kernel(theta).to_dense(), expected, atol=8 * EPS)


# ---- any number of conditions ------------------------------------------------------------------


def random_theta(model, seed):
    """Every simplex row is drawn, half of the time with exact zeros."""
    rng, S = np.random.default_rng(seed), model.conditions

    def rows(*shape):
        weights = rng.gamma(0.7, size=shape) + 1e-3
        if rng.random() < 0.5:
            weights[..., 1:] *= rng.random((*shape[:-1], shape[-1] - 1)) < 0.5
        return weights / weights.sum(axis=-1, keepdims=True)

    drawn = {"RC": 1.0, "cost": np.ones(S), "increment": rows(S, STEPS), "discount": 0.9}
    drawn |= {"stay": rng.random(2), "condition": rows(S, S), "new": rows(S)}
    return {name: drawn[name] for name in model.parameters()}


def move_of(theta):
    if "stay" in theta:
        return moves(theta["stay"])
    return theta.get("condition", np.ones((1, 1)))


@pytest.mark.parametrize("new", ["good", "free"])
@pytest.mark.parametrize("conditions", [1, 2, 3, 5])
@given(seed=st.integers(0, 2**32 - 1), reset=st.sampled_from(RESETS))
@settings(max_examples=10, deadline=None)
def test_every_kernel_is_the_one_by_hand_and_sums_to_one(conditions, new, seed, reset):
    model = engine(conditions=conditions, new=new, reset=reset)
    theta = random_theta(model, seed)
    got = model.kernel(theta).to_dense()
    assert (got >= 0).all()
    # Three increments times five conditions, each entry with a rounding error or two.
    np.testing.assert_allclose(got.sum(axis=(3, 4)), 1, atol=40 * EPS)
    first = theta.get("new", np.eye(conditions)[0])
    expected = table(theta, move_of(theta), first, reset)
    np.testing.assert_allclose(got, expected, atol=8 * EPS)


@pytest.mark.parametrize("new", ["good", "free"])
@pytest.mark.parametrize("conditions", [1, 2, 3, 5])
def test_the_example_passes_every_check_and_lists_its_conditions(conditions, new):
    model = engine(conditions=conditions, new=new, top="replace")
    theta = model.space().check(model.example())
    model.primitives(theta).check()
    names = model.state_labels()
    assert len(set(names)) == len(names) == conditions
    assert names[0] == "good" or conditions == 1
    assert ("stay" in theta) == (conditions == 2)
    assert ("condition" in theta) == (conditions > 2)
    assert ("new" in theta) == (new == "free")
    if conditions > 2:
        assert f"condition[good, {names[-1]}]" in model.space().names
        assert theta["condition"].shape == (conditions, conditions)
    if new == "free":
        assert f"new[{names[-1]}]" in model.space().names
    reward = np.asarray(model.reward(theta))
    for z, s in itertools.product(range(BINS), range(conditions)):
        np.testing.assert_allclose(reward[z, s, 0], -0.001 * z * theta["cost"][s], rtol=1e-14)
        assert reward[z, s, 1] == -theta["RC"]


def test_the_conditions_of_the_example_lie_between_the_papers_two():
    costs = np.asarray(engine(conditions=4).example()["cost"])
    np.testing.assert_allclose(costs, [0.2, 0.2 + 1 / 3, 0.2 + 2 / 3, 1.2], atol=4 * EPS)
    two, one = (np.asarray(engine(conditions=n).example()["increment"]) for n in (2, 1))
    np.testing.assert_allclose(one, two.mean(axis=0, keepdims=True), atol=4 * EPS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conditions": 0}, "condition.* 0"),
        ({"conditions": -2}, "condition.* -2"),
        ({"new": "bad"}, "new must be one of .*'good', 'free'.*'bad'"),
        ({"reset": "one"}, "reset must be one of .*'at_zero', 'increment'.*'one'"),
        ({"top": "cut"}, "top must be one of .*'collect', 'replace'.*'cut'"),
    ],
)
def test_options_that_there_are_not_are_refused_with_their_value(options, message):
    with pytest.raises(pf.ModelError, match=message):
        engine(**options)
