"""What can be told apart: ranks against brute force, directions without effect, and why."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import subspace_angles

import pomdpfit as pf
from helpers import random_kernel
from pomdpfit.identification.rank._designs import all_sequences, count_sequences
from pomdpfit.identification.rank._invisible import invisible_moves
from pomdpfit.identification.rank._singular_kernels import kernels_in_words, singular_kernels
from reference import rank as brute
from report_kinds import Kind
from small_hidden import ENGINE, TRUTH, hidden_panel
from tests.small_bus import bus_fit, draw_panel

ONE = pf.KnownPrior([0.3, 0.7])
TWO = pf.KnownPrior([[0.3, 0.7], [0.6, 0.4]])
THIRDS = np.array([[0.2, 0.3, 0.5], [0.5, 0.25, 0.25], [0.1, 0.6, 0.3]])
EVERYWHERE = None


def tabular(states, actions=1, seed=1):
    model = pf.models.Tabular(2, states, actions)
    rng = np.random.default_rng(seed)
    reward = np.concatenate(
        [np.zeros((2, states, 1)), rng.normal(size=(2, states, actions - 1))], axis=-1
    )
    inside = 0.5 * random_kernel(rng, 2, states, actions) + 0.5 / (2 * states)  # room to move
    return model, model.space().check(model.theta_of(inside, reward))


def table_of(model, theta):
    Z, S, A = model.sizes
    return np.asarray(theta["kernel"]).reshape(Z, S, A, Z, S)


@pytest.fixture(scope="module")
def hidden():
    """Two observations, two states, one action, one prior: 10 of 12."""
    model, theta = tabular(2)
    return model, theta, pf.identify(model, theta, pf.Design(6, EVERYWHERE), prior=ONE)


# ---- ranks against brute force --------------------------------------------------------------


def test_the_gauge_of_two_states(hidden):
    """With one prior the rank climbs to 10 of 12 at three periods and stays there."""
    model, theta, report = hidden
    P = table_of(model, theta)
    for T in (1, 2, 3, 4):
        expected = np.linalg.matrix_rank(brute.jacobian(P, [[0.3, 0.7]], [0, 1], T), tol=1e-10)
        assert report.observations.by_period[T] == expected
    assert list(report.observations.by_period) == [2, 6, 10, 10, 10, 10]
    assert report.observations.reached == 3
    assert not report.identified


def test_two_priors_tell_two_states_apart():
    model, theta = tabular(2)
    report = pf.identify(model, theta, pf.Design(2, EVERYWHERE), prior=TWO)
    assert report.everything.rank == report.everything.dimension == 12


@pytest.mark.parametrize(
    ("priors", "expected"),
    [
        pytest.param(1, 22, marks=pytest.mark.full),
        pytest.param(2, 26, marks=pytest.mark.full),
        (3, 30),
    ],
)
def test_three_states_need_three_priors(priors, expected):
    model, theta = tabular(3)
    prior = pf.KnownPrior(THIRDS[:priors])
    report = pf.identify(model, theta, pf.Design(4, EVERYWHERE), prior=prior, grid=pf.Linear(3))
    assert (report.observations.rank, report.observations.dimension) == (expected, 30)
    J = brute.jacobian(table_of(model, theta), THIRDS[:priors], [0, 1], 4)
    assert np.linalg.matrix_rank(J, tol=1e-10) == expected


def test_null_directions_are_those_of_brute_force(hidden):
    model, theta, report = hidden
    J = brute.jacobian(table_of(model, theta), [[0.3, 0.7]], [0, 1], 4)
    null = np.linalg.svd(J)[2][10:].T
    assert np.abs(J @ report.observations.null).max() < 1e-10
    assert subspace_angles(null, report.observations.null).max() < 1e-7  # arccos near one


def test_the_engine_reaches_full_rank_at_three_periods():
    """The paper's structure and a new engine: 3, 6, then all 8 parameters of the dynamics."""
    model = pf.models.EngineReplacement(bins=13, discount=0.99)
    report = pf.identify(
        model, model.example(), pf.Design(4), prior=pf.KnownPrior([1.0, 0.0]), grid=pf.Smooth(5)
    )
    assert list(report.observations.by_period) == [3, 6, 8, 8]
    assert report.observations.dimension == 8
    assert report.identified
    assert report.everything.dimension == 11
    kinds = report.kernels.groupby("a")["kind"].unique()
    assert list(kinds["replace"]) == ["reset"]
    assert "harmless" in str(report)


def test_scores_of_all_sequences_are_an_expectation(hidden):
    """Probabilities sum to one over all sequences, and scores have mean zero."""
    _, _, report = hidden
    found = report.evidence
    terms = found.likelihood.terms(report.question.theta)
    by_first = [terms.parts().sum(axis=1)[found.likelihood.panel.z[:, 0] == z] for z in (0, 1)]
    np.testing.assert_allclose([np.exp(part).sum() for part in by_first], 1.0, rtol=1e-12)
    mean = np.einsum("n,ntkp->tp", found.weights, found.scores)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)


def test_expected_standard_errors_are_those_of_the_information():
    """From all sequences: the inverse of sum_i p_i s_i s_i', with s_i the sequences' scores."""
    model, theta = tabular(2)
    report = pf.identify(model, theta, pf.Design(3, EVERYWHERE), prior=TWO)
    found = report.evidence
    scores = found.scores.sum(axis=(1, 2))
    information = np.einsum("n,np,nq->pq", found.weights, scores, scores)
    np.testing.assert_allclose(report.everything.information, information, rtol=1e-9, atol=1e-12)
    expected = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(report.everything.standard_errors(), expected, rtol=1e-7)


# ---- directions without effect --------------------------------------------------------------


@pytest.mark.parametrize("direction", [1, 2])
def test_walking_along_a_direction_changes_no_likelihood(hidden, direction):
    model, theta, report = hidden
    moved = report.walk(direction, distance=0.05)
    panel = pf.simulate(model, theta, agents=100, periods=30, seed=4, prior=ONE)
    before = pf.log_likelihood(model, theta, panel, prior=ONE).total
    after = pf.log_likelihood(model, moved, panel, prior=ONE).total
    assert np.abs(moved["kernel"] - theta["kernel"]).max() > 0.02
    assert abs(after - before) < 1e-10


def test_a_direction_that_is_told_does_change_it(hidden):
    """The same distance across: the test above would fail for a direction that is told."""
    model, theta, report = hidden
    across = np.linalg.svd(report.everything.null.T)[2][-1]
    space = report.evidence.likelihood.space
    step = 0.02 * across / np.abs(across).max()
    moved = space.from_vector(np.asarray(space.to_vector(theta)) + step, theta)
    panel = pf.simulate(model, theta, agents=100, periods=30, seed=4, prior=ONE)
    gap = [pf.log_likelihood(model, at, panel, prior=ONE).total for at in (theta, moved)]
    assert abs(gap[0] - gap[1]) > 1e-3


@pytest.mark.full
def test_rewards_follow_the_gauge():
    """With choices and free rewards the gauge remains: 26 of 28, and the likelihood stays."""
    model, theta = tabular(2, actions=2)
    grid = pf.Smooth(61)
    report = pf.identify(model, theta, pf.Design(3, EVERYWHERE), prior=ONE, grid=grid)
    assert (report.everything.rank, report.everything.dimension) == (26, 28)
    assert report.invisible.counts["gauge"] == 2
    moved = report.walk(1, distance=0.03)
    panel = pf.simulate(model, theta, agents=40, periods=20, seed=4, prior=ONE, grid=grid)
    total = lambda at: pf.log_likelihood(model, at, panel, prior=ONE, grid=grid).total
    # Interpolation is not turned by the gauge: what is left is the grid's error.
    assert abs(total(moved) - total(theta)) < 1e-6
    assert np.abs(moved["reward"] - theta["reward"]).max() > 1e-3


def test_directions_are_moves_of_all_entries(hidden):
    """Rows of probabilities keep their sum, and each direction has an entry of its own."""
    _, _, report = hidden
    rows = report.directions.to_numpy().reshape(len(report.directions), 4, 4)
    np.testing.assert_allclose(rows.sum(axis=-1), 0.0, atol=1e-9)
    own = report.directions.round(9)
    for k in own.index:
        assert ((own.loc[k] == 1.0) & (own.drop(index=k) == 0.0).all()).any()


def test_a_walk_ends_at_the_bounds(hidden):
    with pytest.raises(pf.EstimationError, match="leaves the parameter space after"):
        hidden[2].walk(1, distance=0.9)


def test_there_is_no_third_direction(hidden):
    with pytest.raises(pf.ModelError, match="there are 2 directions"):
        hidden[2].walk(3)


# ---- what no data could show ----------------------------------------------------------------


def test_the_gauge_is_all_there_is(hidden):
    _, _, report = hidden
    assert report.invisible_observations.counts == {
        **{"gauge": 2, "shaping": 0, "scale": 0},
        "together": 2,
    }
    assert report.invisible_observations.gauge_of_the_kernel == 2
    assert (
        subspace_angles(report.invisible_observations.gauge, report.observations.null).max() < 1e-7
    )
    assert "2 of 2 are a gauge" in str(report)
    assert report.remedies.loc["agents with 2 independent priors", "dynamics: rank"] == 12


@pytest.mark.full
def test_the_gauge_is_known_where_only_some_parameters_move():
    """Agents first seen at z = 0 with two priors: what is left is the gauge at z = 1."""
    model, theta = tabular(2)
    report = pf.identify(model, theta, pf.Design(4), prior=TWO)
    assert report.observations.rank == 10
    assert "2 of 2 are a gauge" in str(report)
    assert report.remedies.loc["agents first seen at every z", "dynamics: rank"] == 12


@pytest.mark.full
@pytest.mark.parametrize(
    "grid", [pf.Smooth(11), pytest.param(pf.Linear(21), marks=pytest.mark.full)]
)
def test_a_coarse_grid_does_not_pass_for_identification(grid):
    """Interpolation moves a little along the gauge: what is known not to show is taken out."""
    model, theta = tabular(2, actions=2)
    report = pf.identify(model, theta, pf.Design(3), prior=TWO, grid=grid)
    assert (report.everything.rank, report.everything.dimension) == (26, 28)


class Shaped(pf.Model):
    """One hidden state; every reward is free, so that shaping is too."""

    def parameters(self):
        return {
            "r": pf.Parameter([[0.0, 1.0], [0.5, -0.5]]),
            "discount": pf.discount_parameter(0.8),
        }

    def kernel(self, theta):
        P = np.array([[[0.3, 0.7], [0.6, 0.4]], [[0.8, 0.2], [0.1, 0.9]]])  # z, a, z'
        return pf.dense_kernel(P[:, None, :, :, None])

    def reward(self, theta):
        return theta["r"][:, None, :]


class Ending(Shaped):
    """Shaped with a last epoch: c may change from epoch to epoch."""

    def horizon(self):
        return 3


def test_shaping_with_a_horizon():
    """All rewards free, nothing after the end: a constant added to each of them is not seen.

    The paper's Corollary 1 takes the terminal value as known; c_t = constant * (1 + beta + ...).
    """
    model = Ending()
    report = pf.identify(model, model.example(), pf.Design(3, EVERYWHERE))
    assert (report.everything.rank, report.everything.dimension) == (3, 4)
    assert report.invisible.counts["shaping"] == 1
    np.testing.assert_allclose(report.directions.to_numpy(), 1.0, atol=1e-6)


class KnownReference(pf.models.Tabular):
    """Known rewards of action 0, which depend on s."""

    def reward(self, theta):
        return super().reward(theta).at[..., 0].set(np.array([[0.3, -0.4], [0.2, 0.5]]))


def test_families_together_are_told():
    """A known reference reward that depends on s: the gauge needs shaping to stay in the model."""
    _, theta = tabular(2, actions=2)
    model, first = KnownReference(2, 2, 2), np.array([[0.3, 0.7]])
    found = invisible_moves(
        model, theta, model.space(), [0, 1], {0: first, 1: first}, choices=True, periods=3
    )
    assert found.counts == {"gauge": 0, "shaping": 0, "scale": 0, "together": 2}


def test_a_prior_that_is_estimated_widens_the_gauge():
    """x0 -> x0 S with one S for both first observations: 12 + 1 parameters, one dimension more."""
    model, theta = tabular(2)
    theta = {**theta, "x0": np.array([0.3, 0.7])}
    report = pf.identify(model, theta, pf.Design(4, EVERYWHERE), prior=pf.CommonPrior())
    missing = report.observations.dimension - report.observations.rank
    assert report.observations.dimension == 13
    assert missing == report.invisible_observations.counts["gauge"] == 3
    assert report.invisible_observations.gauge_of_the_kernel == 3


def test_shaping_is_found():
    """|Z| = 2 and every reward free: two directions, c(z) - discount E c, and only those."""
    model = Shaped()
    report = pf.identify(model, model.example(), pf.Design(2, EVERYWHERE))
    assert (report.everything.rank, report.everything.dimension) == (2, 4)
    assert report.invisible.counts["shaping"] == 2
    assert report.observations is None
    assert "2 of 2 are shaping" in str(report)


class Scaled(Shaped):
    """Shaped with the reference fixed, and the scale of the shocks free."""

    def parameters(self):
        return {
            **{"r": pf.Parameter([1.0, -0.5]), "scale": pf.Parameter(1.5, pf.Positive())},
            "discount": pf.discount_parameter(0.8),
        }

    def reward(self, theta):
        other = theta["r"][:, None, None]
        return jnp.concatenate([jnp.zeros_like(other), other], axis=-1)

    def shock(self, theta):
        return pf.Gumbel(theta["scale"])


def test_the_scale_is_found():
    model = Scaled()
    report = pf.identify(model, model.example(), pf.Design(2, EVERYWHERE))
    assert (report.everything.rank, report.everything.dimension) == (2, 3)
    assert report.invisible.counts["scale"] == 1
    assert "scale of rewards and shocks" in str(report)
    assert report.normalised.loc["scale of the shocks", "taken as"].startswith("estimated")


def test_what_is_never_met_is_said_to_be_so():
    """From z = 0 alone, in one period, the rows of z = 1 are not seen."""
    model, theta = tabular(2)
    beliefs = {0: np.asarray(TWO.belief)}
    found = invisible_moves(model, theta, model.space(), [0], beliefs, choices=False, periods=1)
    assert found.unmoved.shape[1] == 6


@pytest.mark.full
def test_reports_name_what_no_data_could_show():
    """Rows that are never met, and families of directions that only count together."""
    model, theta = tabular(2)
    assert "never met" in str(pf.identify(model, theta, pf.Design(1, 0), prior=TWO))
    _, theta = tabular(2, actions=2)
    report = pf.identify(KnownReference(2, 2, 2), theta, pf.Design(3, EVERYWHERE), prior=ONE)
    assert report.everything.rank == 26
    assert report.invisible.counts["together"] == 2
    assert "taken together" in str(report)


def test_structure_leaves_no_gauge():
    model = pf.models.EngineReplacement(bins=8, increments=3, discount=0.9)
    found = invisible_moves(
        model,
        model.example(),
        model.space(),
        [0],
        {0: np.array([[1.0, 0.0]])},
        choices=True,
        periods=4,
    )
    assert found.counts["together"] == 0
    assert found.gauge_of_the_kernel == 1 + 7 * 2


# ---- names, kernels, normalisations ---------------------------------------------------------


def test_states_can_be_renamed_where_nothing_names_them():
    model, theta = tabular(2)
    even = pf.KnownPrior([0.5, 0.5])
    report = pf.identify(model, theta, pf.Design(2, EVERYWHERE), prior=even)
    (mirror,) = report.mirrors
    assert mirror.order == ("1", "0")
    panel = pf.simulate(model, theta, agents=100, periods=30, seed=4, prior=even)
    gap = [pf.log_likelihood(model, at, panel, prior=even).total for at in (theta, mirror.theta)]
    assert abs(gap[0] - gap[1]) < 1e-9
    assert np.abs(mirror.theta["kernel"] - theta["kernel"]).max() > 0.01


def test_a_known_prior_names_the_states(hidden):
    assert hidden[2].mirrors == ()


def test_equal_states_are_named():
    """States 1 and 2 of three behave alike: not a reset, and not harmless."""
    rng = np.random.default_rng(0)
    P = random_kernel(rng, 2, 3, 1)
    P[:, 2] = P[:, 1]
    model = pf.models.Tabular(2, 3, 1)
    theta = model.space().check(model.theta_of(P, np.zeros((2, 3, 1))))
    table = singular_kernels(model, model.primitives(theta))
    assert set(table["kind"]) == {"equal states"}
    assert len(table) == 4  # every (z', z)
    assert "1 = 2" in " ".join(kernels_in_words(table))


def test_rank_one_without_a_reset_is_no_reset():
    """Rows in proportion: the next belief forgets, but z' tells what was believed."""
    rng = np.random.default_rng(0)
    P = random_kernel(rng, 2, 2, 1)
    P[:, :, 0, 0] = np.einsum("zs,t->zst", P[:, :, 0, 0].sum(axis=-1), [0.4, 0.6])
    model = pf.models.Tabular(2, 2, 1)
    theta = model.space().check(model.theta_of(P, np.zeros((2, 2, 1))))
    table = singular_kernels(model, model.primitives(theta))
    assert list(zip(table["z'"], table["z"], strict=True)) == [(0, 0), (0, 1)]
    assert set(table["kind"]) == {"rank one"}


def test_what_is_taken_as_given_is_told(hidden):
    table = hidden[2].normalised
    assert table.loc["discount", "taken as"] == "0.9"
    assert "nothing is chosen" in table.loc["discount", "if it were not"]
    assert table.loc["reward of a reference action", "taken as"] == "known for 0"


# ---- panels, limits, refusals ---------------------------------------------------------------


def test_a_panel_tells_its_own_information():
    """The outer products of its rows, divided by the number of agents."""
    model, theta = tabular(2)
    first = np.arange(300) // 2 % 2  # both priors at both observations
    panel = pf.simulate(model, theta, agents=300, periods=6, seed=2, prior=TWO_BY_AGENT, z0=first)
    report = pf.identify(model, theta, panel, prior=TWO_BY_AGENT)
    rows = report.evidence.scores.sum(axis=2).reshape(-1, 12)
    np.testing.assert_allclose(report.everything.information, rows.T @ rows / 300, atol=1e-10)
    assert report.identified
    assert "300 agents of the panel" in str(report)


TWO_BY_AGENT = pf.KnownPrior(np.tile([[0.3, 0.7], [0.6, 0.4]], (150, 1)))


def test_too_many_sequences_are_simulated():
    model, theta = tabular(2)
    report = pf.identify(model, theta, pf.Design(2, EVERYWHERE), prior=TWO, limit=10)
    assert report.observations.rank == 12
    assert "simulated" in report.evidence.source


def test_sequences_are_counted_before_they_are_listed():
    model = pf.models.EngineReplacement(bins=9, increments=3, discount=0.9)
    primitives = model.primitives(model.example())
    first = np.array([0, 7])
    listed = all_sequences(primitives, np.array([[0.5, 0.5]]), first, 4)
    assert count_sequences(primitives, first, 4) == len(listed.kind)
    pairs = np.concatenate([listed.z, listed.a], axis=1)
    assert len(np.unique(pairs, axis=0)) == len(pairs)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pf.Design(2, 5), r"z0 must lie in 0\.\.1"),
        ("panel", "must be a pf.Design or a pf.Panel"),
    ],
)
def test_bad_data_are_refused(data, message):
    model, theta = tabular(2)
    with pytest.raises(pf.ModelError, match=message):
        pf.identify(model, theta, data, prior=ONE)


def test_no_periods_are_refused():
    with pytest.raises(pf.ModelError, match="periods must be"):
        pf.Design(0)


@pytest.mark.parametrize(
    ("prior", "message"),
    [(pf.AgentPriors(), "single agents"), (pf.StationaryPrior(), "goes with a panel")],
)
def test_priors_that_a_design_cannot_have(prior, message):
    model, theta = tabular(2)
    with pytest.raises(pf.ModelError, match=message):
        pf.identify(model, theta, pf.Design(2), prior=prior)


def test_an_unknown_name_to_hold_is_refused():
    model, theta = tabular(2)
    with pytest.raises(pf.ModelError, match="no parameter named 'x1'"):
        pf.identify(model, theta, pf.Design(2), prior=ONE, fixed=["x1"])


@pytest.mark.full
def test_names_are_taken_as_they_come():
    """A single name, and a prior's parameter."""
    model, theta = tabular(2)
    theta = {**theta, "x0": np.array([0.3, 0.7])}
    common = pf.CommonPrior()
    report = pf.identify(model, theta, pf.Design(3, EVERYWHERE), prior=common, fixed="x0")
    assert (report.observations.rank, report.observations.dimension) == (10, 12)


# ---- after a fit ----------------------------------------------------------------------------


@pytest.mark.full
def test_an_estimate_brings_its_own_setting():
    estimate = Kind(ENGINE, hidden_panel(), TRUTH, known=()).written_down()
    report = pf.identify(estimate)
    assert report.data is estimate.panel
    assert report.everything.names == tuple(estimate.space.free_names)
    assert "these agents" in report.table.columns[-1]


def test_restrictions_between_entries_are_refused():
    est = bus_fit(draw_panel(0), constraints="increment[0] = 2 * increment[2]")
    with pytest.raises(pf.ModelError, match="restrictions between entries"):
        pf.identify(est)
