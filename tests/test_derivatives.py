"""Derivatives of the log-likelihood and of the fixed point, against differences and unrolling."""

import functools

import cloudpickle
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from helpers import random_paths
from pomdpfit import _evaluate, _likelihood
from pomdpfit._bellman import bellman_operator
from pomdpfit._fixed_point import cold_start, implicit_value, solve_infinite
from pomdpfit._log_likelihood import AbstractLikelihood, Part
from pomdpfit._solve import finite_derivative
from pomdpfit.solvers import _linear, make_plan

# Central differences err by step^2 times a third derivative and by rounding / step. Third
# derivatives of log p are 2 / p^3 for each of the rare increments with p = 0.001 .. 0.04, so the
# step must be small; log-likelihoods of some hundreds, known to 1e-14 of themselves, allow 1e-6.
STEP = 1e-6
# Solve to rounding: the tolerance is for the derivative, not for the residual of the solver.
EXACT = pf.Newton(tolerance=1e-13)


def differences(likelihood, theta, step=STEP) -> np.ndarray:
    """Central differences in each free natural coordinate; one-sided ones at a boundary."""
    space = likelihood.space
    middle = np.asarray(space.to_vector(theta))

    def total(k, shift):
        move = shift * np.eye(len(middle))[k]
        return likelihood(space.from_vector(middle + move, theta)).total

    def inside(k, shift):
        try:
            space.check(space.from_vector(middle + shift * np.eye(len(middle))[k], theta))
        except pf.ModelError:
            return False
        return True

    slopes = []
    for k in range(len(middle)):
        if inside(k, step) and inside(k, -step):
            slopes.append((total(k, step) - total(k, -step)) / (2 * step))
        else:  # second order, from the side that is allowed
            h = step if inside(k, step) else -step
            slopes.append((4 * total(k, h) - total(k, 2 * h) - 3 * total(k, 0.0)) / (2 * h))
    return np.array(slopes)


def assert_gradient_equals_differences(likelihood, theta, step=STEP):
    terms, gradient = likelihood.gradient(theta)
    assert terms.total == pytest.approx(likelihood(theta).total, rel=1e-14)
    assert list(gradient.index) == likelihood.space.free_names
    assert np.isfinite(gradient).all()
    expected = differences(likelihood, theta, step)
    size = np.abs(expected).max()
    np.testing.assert_allclose(gradient, expected, atol=1e-7 * size, rtol=0)


# ---- the engine: 20 bins, 41 nodes, which is large enough for the iterative linear solver ----

BLIND = {"RC": 2.0, "cost": [20.0, 150.0], "x0": [0.6, 0.4]}
# One exact zero at a time: an engine that stays good, a sure prior, an increment that never comes.
ZEROS = {
    "stay": {"stay": [1.0, 0.9]},
    "prior": {"x0": [1.0, 0.0]},
    "increment": {"increment": [[0.0, 0.4, 0.3, 0.3], [0.3, 0.2, 0.1, 0.4]]},
    "many": {
        "stay": [1.0, 1.0],
        "increment": [[0.0, 0.5, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]],
        "x0": [1.0, 0.0],
    },
}


def arrays(values) -> dict:
    return {name: np.array(value) for name, value in values.items()}


@functools.cache
def engine(zero=None, grid=pf.Smooth(41)):  # noqa: B008 (grids are frozen)
    """One compiled likelihood for all: model, shapes and prior are the same."""
    model = pf.models.EngineReplacement(bins=20, discount=0.95)
    theta = model.example() | arrays(BLIND | ZEROS.get(zero, {}))
    P = model.kernel(theta).to_dense()
    panel = random_paths(P, theta["x0"], (12, 9, 12, 5), np.random.default_rng(3))
    space = model.space().free("discount")
    prior = pf.CommonPrior()
    return pf.Likelihood(model, panel, prior=prior, grid=grid, space=space, solver=EXACT), theta


@pytest.mark.parametrize("discount", [0.95, 0.9999])
def test_engine_score_equals_differences_with_free_prior_and_discount(discount):
    likelihood, theta = engine()
    assert {"x0[good]", "discount", "RC"} <= set(likelihood.space.free_names)
    assert_gradient_equals_differences(likelihood, theta | {"discount": discount})


@pytest.mark.parametrize("discount", [0.95, 0.9999])
def test_scores_of_agents_sum_to_the_score(discount):
    likelihood, theta = engine()
    theta = theta | {"discount": discount}
    gradient, scores = likelihood.gradient(theta)[1], likelihood.scores(theta)[1]
    assert list(scores.columns) == list(gradient.index)
    assert scores.shape[0] == 4
    # The discount moves the level of V by V / (1 - beta), 5e6 at 0.9999, which forward and reverse
    # mode solve for to 1e-13 of itself: 5e-7 in scores of size 30.
    size = np.abs(gradient).max()
    np.testing.assert_allclose(scores.sum(axis=0), gradient, atol=1e-7 * size, rtol=0)


@pytest.mark.parametrize("zero", ["stay", "prior"])
def test_score_is_right_where_a_probability_is_exactly_zero(zero):
    """Against one-sided differences in the coordinate that cannot move the other way."""
    assert_gradient_equals_differences(*engine(zero))


@pytest.mark.parametrize(
    ("grid", "tolerance"),
    [pytest.param(pf.Linear(41), 1e-5, marks=pytest.mark.full), (pf.Smooth(41), 0.05)],
)
def test_score_at_an_increment_of_zero_is_the_one_sided_derivative(grid, tolerance):
    """Where sigma vanishes at a node its derivative needs the belief that z' would lead to.

    The linear scheme has it (up to kinks in theta). The smooth one reads value and slope at one
    belief, the limit that the slope needs, and so gets this one entry only roughly.
    """
    likelihood, theta = engine("increment", grid)
    gradient, expected = likelihood.gradient(theta)[1], differences(likelihood, theta)
    at_zero = gradient.index.get_loc("increment[good, 0]")
    np.testing.assert_allclose(gradient.iloc[at_zero], expected[at_zero], rtol=tolerance)


def test_score_is_finite_where_many_probabilities_are_exactly_zero():
    likelihood, theta = engine("many")
    assert np.isfinite(likelihood.gradient(theta)[1]).all()
    assert np.isfinite(likelihood.scores(theta)[1]).all(axis=None)


# ---- other models --------------------------------------------------------------------------


def small(model, theta, prior, grid, lengths=(12, 9, 12, 5)):
    x0 = np.array(theta["x0"] if isinstance(prior, pf.CommonPrior) else prior.belief)
    P = model.kernel(theta).to_dense()
    panel = random_paths(P, x0, lengths, np.random.default_rng(4))
    return pf.Likelihood(model, panel, prior=prior, grid=grid, solver=EXACT)


@pytest.mark.full
def test_tiger_score_equals_differences():
    """The accuracy is one for which no successor of a node is a node.

    There the slopes of the smooth scheme, and with them the value, have a kink in theta.
    """
    model = pf.models.Tiger(discount=0.9, scale=4.0)
    theta = model.example() | {"accuracy": 0.8371}
    likelihood = small(model, theta, pf.KnownPrior([0.5, 0.5]), pf.Smooth(41))
    assert_gradient_equals_differences(likelihood, theta)


def test_equipment_score_equals_differences():
    """A piecewise linear value has a kink in theta wherever a next belief enters another cell.

    Four nodes an edge make 10 x 9 next beliefs; that one of them crosses a face within 1e-6 of a
    generic theta is unlikely (about 90 x 3 x 3 x 2e-6 = 0.2%), and it does not happen here.
    """
    model = pf.models.EquipmentInspection(discount=0.9)
    theta = model.example() | {"x0": np.array([0.5, 0.3, 0.2])}
    likelihood = small(model, theta, pf.CommonPrior(), pf.Linear(4), lengths=(4, 4))
    assert_gradient_equals_differences(likelihood, theta)


class Lease(pf.models.EngineReplacement):
    """An engine that goes back after six periods, for a fee that grows with its wear."""

    def horizon(self):
        return 6

    def terminal(self, theta):
        return -0.1 * jnp.arange(self.bins)[:, None] * theta["cost"] - theta["RC"]


def test_finite_horizon_score_equals_differences():
    model = Lease(bins=10, discount=0.95)
    theta = model.example() | arrays(BLIND)
    likelihood = small(model, theta, pf.CommonPrior(), pf.Smooth(21), lengths=(6, 4, 6))
    assert_gradient_equals_differences(likelihood, theta)


# ---- slopes in few entries are sums of scores -----------------------------------------------


@pytest.mark.parametrize("part", [Part.BOTH, Part.CHOICE])
def test_slopes_in_few_entries_are_those_of_reverse_mode(part, monkeypatch):
    """Forward against backwards; agents of weight zero among them, and leaves in any order."""
    likelihood, theta = engine()
    weights = np.random.default_rng(1).uniform(size=(4, 2))
    weights[2] = 0.0
    weights = weights * [Part.OBSERVATION in part, Part.CHOICE in part]
    for names in (("RC", "cost"), ("stay",), ("cost", "RC", "discount")):
        terms, forward = likelihood.pull(theta, weights, names, part=part)
        monkeypatch.setattr(_evaluate, "_FEW", 0)
        known, backward = likelihood.pull(theta, weights, names, part=part)
        monkeypatch.undo()
        assert terms.weighted(weights) == pytest.approx(known.weighted(weights), rel=1e-13)
        assert tuple(forward) == tuple(backward) == names
        size = max(np.abs(leaf).max() for leaf in backward.values())
        for name in names:
            assert forward[name].shape == np.shape(theta[name])
            np.testing.assert_allclose(forward[name], backward[name], atol=1e-9 * size, rtol=0)


def test_scores_at_the_theta_of_a_slope_move_nothing_again(monkeypatch):
    likelihood, theta = engine()
    calls = []
    moves = _evaluate.unit_moves
    monkeypatch.setattr(_evaluate, "unit_moves", lambda *args: (calls.append(1), moves(*args))[1])
    rewards = likelihood.space.free_directions()
    rewards = {name: rewards[name] for name in ("RC", "cost")}
    theta = theta | {"RC": np.array(2.1)}
    likelihood.pull(theta, np.ones((4, 2)), ("RC", "cost"))
    assert len(calls) == 1
    there = likelihood.push(theta, rewards)[1]
    assert len(calls) == 1
    theta = theta | {"RC": np.array(2.2)}
    assert np.abs(likelihood.push(theta, rewards)[1] - there).max() > 0
    likelihood.push(theta, likelihood.space.free_directions())  # more entries than were moved
    assert len(calls) == 3


@pytest.mark.parametrize(
    "make",
    ["engine", *(pytest.param(name, marks=pytest.mark.full) for name in ("leased", "nested"))],
)
def test_scores_of_a_large_panel_are_those_of_a_small_one(make, monkeypatch):
    """All entries at once, against a few at a time; of some entries, and of all."""
    likelihood, theta = globals()[make]()
    every = likelihood.space.free_directions()
    for directions in (every, {"RC": every["RC"]}):
        _, few = likelihood.push(theta, directions)
        monkeypatch.setattr(_likelihood, "SMALL_PANEL", 0)
        fresh = likelihood.on(likelihood.panel)
        _, together = fresh.push(theta, directions)
        monkeypatch.undo()
        np.testing.assert_allclose(few, together, rtol=1e-12, atol=1e-12 * np.abs(few).max())


def test_second_derivatives_ask_for_moves_that_scores_did_not_need(monkeypatch):
    """Of a large panel too, whose scores are zero in what was not asked for."""
    likelihood, theta = engine()
    every, weights = likelihood.space.free_directions(), np.ones((4, 2))
    known = likelihood.curvature(theta, weights, every, {0: 1e-5})
    for rows in (_likelihood.SMALL_PANEL, 0):
        monkeypatch.setattr(_likelihood, "SMALL_PANEL", rows)
        fresh = likelihood.on(likelihood.panel)
        fresh.push(theta, {"RC": every["RC"]})
        found = fresh.curvature(theta, weights, every, {0: 1e-5})
        np.testing.assert_allclose(found, known, atol=1e-9 * np.abs(known).max(), rtol=0)


# ---- what is kept of the last theta ---------------------------------------------------------


@pytest.fixture
def solves(monkeypatch):
    """A list that grows with every solution."""
    calls, solve = [], _evaluate.solve_contexts
    counting = lambda *args: (calls.append(1), solve(*args))[1]
    monkeypatch.setattr(_evaluate, "solve_contexts", counting)
    return calls


def test_a_theta_is_solved_once_however_much_is_asked_there(solves):
    likelihood, theta = engine()
    theta = theta | {"RC": np.array(2.4)}
    found = likelihood(theta)
    weights, directions = np.ones((4, 2)), likelihood.space.free_directions()
    likelihood.gradient(theta, start=found.start)
    likelihood.push(theta, directions, start=found.start)
    likelihood.curvature(theta, weights, directions, {0: 1e-5}, start=found.start)
    likelihood.choice_probabilities(theta, start=found.start)
    assert len(solves) == 1
    likelihood(theta | {"RC": np.array(2.5)})
    assert len(solves) == 2
    likelihood(theta)  # not the last one any more
    assert len(solves) == 3


def test_what_is_kept_is_what_would_be_found_again(solves):
    """From the same start, or from the value itself, at which a solver stops at once."""
    likelihood, theta = engine()
    theta = theta | {"RC": np.array(2.6)}
    first = likelihood(theta)
    again, warm = likelihood(theta), likelihood(theta, start=first.start)
    assert len(solves) == 1
    fresh, kept = likelihood.on(likelihood.panel), likelihood.on(likelihood.panel)
    assert fresh(theta).steps == first.steps == again.steps > 0
    known = kept(theta, start=first.start)
    assert len(solves) == 3
    assert known.steps == warm.steps == 0
    for other in (again, warm, known):
        np.testing.assert_array_equal(other.start, first.start)
        np.testing.assert_array_equal(other.choice, first.choice)


def test_arrays_that_are_written_into_are_not_taken_for_what_they_were(solves):
    likelihood, theta = engine()
    mine = {name: np.array(leaf) for name, leaf in theta.items()}
    before = likelihood(mine).total
    mine["RC"][...] = 2.9
    assert likelihood(mine).total == likelihood(theta | {"RC": np.array(2.9)}).total != before
    assert len(solves) == 2
    weights, directions = np.ones((4, 2)), likelihood.space.free_directions()
    ask = lambda: likelihood.complete_information(mine, weights, directions, part=Part.OBSERVATION)
    likelihood.pull(mine, weights, tuple(directions), part=Part.OBSERVATION)
    weights[...] = 2.0
    np.testing.assert_allclose(
        ask(),
        likelihood.on(likelihood.panel).complete_information(
            mine, weights, directions, part=Part.OBSERVATION
        ),
        rtol=1e-12,
    )


@pytest.mark.full
def test_rows_are_scored_in_three_entries_as_in_all_of_them():
    """Fewer than programs are made for, and no other entry is free."""
    likelihood, theta = engine()
    names = ("RC", "cost")
    held = likelihood.space.fix({n: theta[n] for n in theta if n not in names})
    alone = pf.Likelihood(
        likelihood.model,
        likelihood.panel,
        grid=likelihood.grid,
        prior=pf.CommonPrior(),
        space=held,
        solver=EXACT,
    )
    assert alone.space.free_leaves == names
    directions = alone.space.free_directions()
    _, by_row = alone.push_rows(theta, directions)
    _, by_agent = alone.push(theta, directions)
    assert by_row.shape[-1] == 3
    np.testing.assert_allclose(by_row.sum(axis=1), by_agent, atol=1e-12 * np.abs(by_agent).max())


def test_another_start_is_another_solution(solves):
    likelihood, theta = engine()
    theta = theta | {"RC": np.array(2.7)}
    found = likelihood(theta)
    elsewhere = likelihood(theta, start=found.start + 1.0)
    assert len(solves) == 2
    assert elsewhere.steps > 0
    assert elsewhere.total == pytest.approx(found.total, rel=1e-10)


def test_choices_are_not_taken_from_observations_alone(solves):
    likelihood, theta = engine()
    theta = theta | {"RC": np.array(2.8)}
    alone = likelihood.terms(theta, part=Part.OBSERVATION)
    assert len(solves) == 0
    assert not alone.choice.any()
    both = likelihood(theta)
    assert len(solves) == 1
    assert both.choice.any()
    np.testing.assert_allclose(both.observation, alone.observation, rtol=1e-13)


def test_what_was_found_last_is_not_sent_to_other_processes():
    likelihood, theta = engine()
    likelihood.scores(theta)
    before = cloudpickle.dumps(likelihood)
    likelihood.scores(theta | {"RC": np.array(2.3)})
    assert cloudpickle.dumps(likelihood) == before
    other = cloudpickle.loads(before)
    assert other(theta).total == likelihood(theta).total


# ---- second derivatives ---------------------------------------------------------------------


def leased():
    model = Lease(bins=10, discount=0.95)
    theta = model.example() | arrays(BLIND)
    return small(model, theta, pf.CommonPrior(), pf.Smooth(21), lengths=(6, 4, 6)), theta


def with_a_stationary_prior():
    likelihood, theta = engine()
    theta = {name: leaf for name, leaf in theta.items() if name != "x0"}
    return pf.Likelihood(likelihood.model, likelihood.panel, prior=pf.StationaryPrior()), theta


class Nested(pf.models.EngineReplacement):
    """Shocks with parameters of their own: two nests, their dissimilarities and the scale."""

    def parameters(self):
        own = {"nests": pf.Parameter([0.4, 0.9], pf.Positive()), "scale": pf.Parameter(1.5)}
        return super().parameters() | own

    def shock(self, theta):
        return pf.NestedLogit(((0,), (1,)), theta["nests"], theta["scale"])


def nested():
    model = Nested(bins=10, discount=0.95)
    theta = model.example() | arrays(BLIND)
    return small(model, theta, pf.CommonPrior(), pf.Smooth(21)), theta


def test_parameters_of_the_shocks_have_the_score_of_differences():
    model = Nested(bins=5, increments=3, discount=0.95)
    theta = model.example() | arrays(BLIND)
    likelihood = small(model, theta, pf.CommonPrior(), pf.Smooth(7), lengths=(6, 4, 6))
    assert {"nests[0]", "nests[1]", "scale"} <= set(likelihood.space.free_names)
    assert_gradient_equals_differences(likelihood, theta)


OTHERS = [
    pytest.param(m, marks=pytest.mark.full) for m in (leased, with_a_stationary_prior, nested)
]


@pytest.mark.parametrize("make", [engine, *OTHERS])
def test_scores_of_agents_are_the_sums_of_those_of_their_rows(make):
    """Backwards for all directions at once, against forwards along each of them."""
    likelihood, theta = make()
    directions = likelihood.space.free_directions()
    terms, by_agent = likelihood.push(theta, directions)
    known, by_row = likelihood.push_rows(theta, directions)
    assert terms.total == pytest.approx(known.total, rel=1e-13)
    np.testing.assert_allclose(terms.belief, known.belief, atol=1e-14)
    size = np.abs(by_row).sum(axis=1).max()
    np.testing.assert_allclose(by_agent, by_row.sum(axis=1), atol=1e-12 * size, rtol=0)


@pytest.mark.parametrize(
    "make",
    [engine, *(pytest.param(m, marks=pytest.mark.full) for m in (leased, with_a_stationary_prior))],
)
@pytest.mark.parametrize("part", [Part.BOTH, Part.CHOICE, Part.OBSERVATION])
def test_curvature_is_what_differences_of_gradients_say(make, part):
    """The Lagrangian at one solution, against a solution for each difference."""
    likelihood, theta = make()
    directions = likelihood.space.free_directions()
    steps = dict.fromkeys(range(len(next(iter(directions.values())))), 1e-5)
    weights = np.random.default_rng(0).uniform(size=(likelihood.panel.agent_count, 2))
    weights = weights * [Part.OBSERVATION in part, Part.CHOICE in part]
    found = likelihood.curvature(theta, weights, directions, steps, part=part)
    known = AbstractLikelihood.curvature(likelihood, theta, weights, directions, steps, part=part)
    np.testing.assert_allclose(found, known, atol=1e-6 * np.abs(known).max(), rtol=0)


# ---- the implicit function theorem ---------------------------------------------------------


@pytest.mark.full
def test_implicit_derivative_equals_that_of_unrolled_value_iteration():
    """0.9^300 = 2e-14: what value iteration has not yet seen after 300 sweeps."""
    model, grid = pf.models.EngineReplacement(bins=8, discount=0.9), pf.Smooth(15)
    theta = model.example() | {"RC": jnp.asarray(2.0), "cost": jnp.array([20.0, 150.0])}
    first = model.primitives(theta)
    start, plan = cold_start(first, grid), make_plan(first.kernel)
    weights = np.random.default_rng(5).normal(size=start.shape)

    def implicit(theta):
        primitives = model.primitives(theta)
        solved = solve_infinite(primitives, grid, EXACT, plan, start).coefficients
        return (weights * implicit_value(primitives, solved, scheme=grid, plan=plan)).sum()

    def unrolled(theta):
        operator = bellman_operator(model.primitives(theta), grid)
        sweep = lambda value, _: (operator(value), None)
        return (weights * jax.lax.scan(sweep, start, None, length=300)[0]).sum()

    value, ours = eqx.filter_jit(jax.value_and_grad(implicit))(theta)
    plain, expected = eqx.filter_jit(jax.value_and_grad(unrolled))(theta)
    assert value == pytest.approx(float(plain), rel=1e-11)
    size = max(np.abs(leaf).max() for leaf in expected.values())
    for name in theta:
        np.testing.assert_allclose(ours[name], expected[name], atol=1e-8 * size, rtol=0)
        assert np.abs(expected[name]).max() > 0, name


def test_a_derivative_without_numbers_is_refused():
    with pytest.raises(pf.SolveError, match="derivative was not solved"):
        finite_derivative(np.array([1.0, np.nan]))


@pytest.mark.full
def test_a_derivative_whose_system_is_not_solved_is_refused(monkeypatch):
    """Nothing solves a system to a residual of zero."""
    monkeypatch.setattr(_linear, "_WORST_RESIDUAL", 0.0)
    likelihood, theta = engine(grid=pf.Smooth(35))
    with pytest.raises(pf.SolveError, match="derivative"):
        likelihood.gradient(theta)
