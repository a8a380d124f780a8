"""Priors: each agent's own, the stationary one and a common one, against independent references."""

import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_reward, revealing_kernel
from pomdpfit._log_likelihood import Part
from reference import enumeration, reachable

BUS = pf.models.EngineReplacement(bins=4, increments=2, discount=0.8, reset="increment")
GRID = pf.Smooth(7)
TRUTH = {
    "RC": 2.0,
    "cost": np.array([300.0, 4000.0]),
    # Round numbers would put beliefs on nodes, where interpolation has its kinks.
    "stay": np.array([0.853, 0.797]),
    "increment": np.array([[0.32, 0.68], [0.69, 0.31]]),
    "discount": 0.8,
}
HALF = pf.KnownPrior([0.5, 0.5])
REST = {name: TRUTH[name] for name in ("cost", "stay", "increment")}


def drawn(agents, periods, prior=HALF, seed=0, **options):
    options = {"z0": np.arange(agents) % 4} | options
    return pf.simulate(
        BUS, TRUTH, agents=agents, periods=periods, seed=seed, prior=prior, grid=GRID, **options
    )


def central_difference(function, space, theta, name):
    """The derivative in a free natural coordinate, by Richardson's fourth-order formula."""
    vector, k = np.asarray(space.to_vector(theta)), space.free_names.index(name)
    h = 1e-4 * max(abs(vector[k]), 0.1)
    unit = np.eye(len(vector))[k] * h
    at_step = lambda m: function(space.from_vector(vector + m * unit, theta))
    near, far = (at_step(m) - at_step(-m) for m in (1, 2))
    return (8 * near - far) / (12 * h)


# ---- each agent's own ----------------------------------------------------------------------


def copies(panel, beliefs):
    """Every agent once for every belief, and the prior that says so."""
    count = len(beliefs)
    pairs = [
        (panel.z[i, panel.present[i]], panel.a[i, panel.acted[i]]) for i in range(len(panel.z))
    ]
    z, a = zip(*(pair for pair in pairs for _ in range(count)), strict=True)
    return pf.Panel.from_arrays(z, a), pf.KnownPrior(np.tile(beliefs, (len(pairs), 1)))


def profile_by_brute_force(model, theta, panel, beliefs, grid):
    """Each agent's log-likelihood at all these beliefs, agents first."""
    many, prior = copies(panel, beliefs)
    ll = pf.log_likelihood(model, theta, many, prior=prior, grid=grid)
    return ll.by_agent["total"].to_numpy().reshape(panel.agent_count, len(beliefs))


@pytest.fixture(scope="module")
def few():
    """Twelve short lives, whose choices tell something of x0."""
    return drawn(12, 4, seed=3)


def test_the_best_prior_of_each_agent_is_that_of_a_fine_grid(few):
    share = np.linspace(0, 1, 1001)
    lattice = np.stack([share, 1 - share], axis=1)
    reference = profile_by_brute_force(BUS, TRUTH, few, lattice, GRID)
    likelihood = pf.Likelihood(BUS, few, prior=pf.AgentPriors(), grid=GRID)
    ll = likelihood(TRUTH)
    good = ll.belief[:, 0, 0]
    best = reference.max(axis=1)
    # No worse than any belief of the grid, and no better than what lies between two of them.
    gain = ll.by_agent["total"].to_numpy() - best
    assert (gain > -1e-10).all()
    assert (gain < 1e-5).all()
    assert (np.abs(good - share[reference.argmax(axis=1)]) <= 1e-3).all()
    interior = (good > 0) & (good < 1)
    assert interior.any()
    assert not interior.all()


def three_states(seed):
    rng = np.random.default_rng(seed)
    Z, S, A = 2, 3, 2
    model = Table(random_kernel(rng, Z, S, A), 2.0 * random_reward(rng, Z, S, A))
    z = rng.integers(0, Z, size=(20, 4))
    return model, pf.Panel.from_arrays(z, rng.integers(0, A, size=(20, 4)))


@pytest.mark.parametrize("seed", [7, *(pytest.param(s, marks=pytest.mark.full) for s in (8, 9))])
def test_the_best_prior_with_three_hidden_states(seed):
    model, panel = three_states(seed)
    M = 40
    lattice = np.array([(i, j, M - i - j) for i in range(M + 1) for j in range(M + 1 - i)]) / M
    grid = pf.Linear(5)
    reference = profile_by_brute_force(model, at(0.7), panel, lattice, grid).max(axis=1)
    likelihood = pf.Likelihood(model, panel, prior=pf.AgentPriors(), grid=grid)
    ll = likelihood(at(0.7))
    found = ll.by_agent["total"].to_numpy()
    # A kink of the interpolant is found to about 1e-6 in x0.
    assert (found > reference - 1e-7).all()
    x0 = ll.belief[:, 0]
    np.testing.assert_allclose(x0.sum(axis=1), 1, atol=1e-14)
    assert ((x0 > 0).sum(axis=1) > 1).any()


def test_the_profile_has_the_envelope_gradient(few):
    likelihood = pf.Likelihood(BUS, few, prior=pf.AgentPriors(), grid=GRID)
    _, gradient = likelihood.gradient(TRUTH)
    for name in gradient.index:
        difference = central_difference(
            lambda theta: likelihood(theta).total, likelihood.space, TRUTH, name
        )
        # x0 is found to about 1e-6, and the score moves with it.
        assert gradient[name] == pytest.approx(difference, rel=1e-5, abs=1e-5), name


def test_without_choices_the_best_prior_is_always_a_vertex(few):
    likelihood = pf.Likelihood(BUS, few, prior=pf.AgentPriors(), grid=GRID)
    terms = likelihood.terms(TRUTH, part=Part.OBSERVATION)
    P = BUS.kernel(TRUTH).to_dense()
    for i in range(few.agent_count):
        z, a = few.z[i], few.a[i, few.acted[i]]
        ends = [enumeration.sequence_log_likelihood(P, x, z, a) for x in np.eye(2)]
        # Linear in x0, so that the middle is the mean of the ends.
        middle = enumeration.sequence_log_likelihood(P, [0.5, 0.5], z, a)
        assert np.exp(middle) == pytest.approx(np.exp(ends).mean(), rel=1e-12)
        assert terms.observation[i].sum() == pytest.approx(max(ends), abs=1e-12)
        if abs(ends[0] - ends[1]) > 1e-9:
            np.testing.assert_array_equal(terms.belief[i, 0], np.eye(2)[int(np.argmax(ends))])


@pytest.fixture(scope="module")
def own_priors(few):
    return pf.fit(BUS, few, prior=pf.AgentPriors(), grid=GRID, starts=1, fixed=REST, start=TRUTH)


def test_a_fit_with_a_prior_for_each_agent(few, own_priors):
    est = own_priors
    assert est.converged
    assert list(est.params.index) == ["RC"]
    assert est.agent_priors.shape == (12, 2)
    assert list(est.agent_priors.columns) == ["good", "bad"]
    assert list(est.agent_priors.index) == list(few.agents)
    # The profile, climbed in RC by a search without gradients.
    likelihood = pf.Likelihood(BUS, few, prior=pf.AgentPriors(), grid=GRID)
    for step in (-1e-2, 1e-2):
        assert likelihood({**est.theta, "RC": est.theta["RC"] + step}).total < est.llf
    known = pf.KnownPrior(est.agent_priors)
    same = pf.log_likelihood(BUS, est.theta, few, prior=known, grid=GRID)
    # One value was solved for from a warm start, the other from zero, both to a residual of 1e-10.
    assert same.total == pytest.approx(est.llf, abs=1e-10)


def test_each_agents_prior_is_counted_and_has_no_standard_error(few, own_priors):
    est = own_priors
    assert est.df_model == 1 + 12 * (2 - 1)
    assert est.aic == pytest.approx(-2 * est.llf + 2 * 13)
    assert est.bic == pytest.approx(-2 * est.llf + 13 * np.log(few.nobs))
    assert est.bse.isna().all()
    assert est.cov_params().isna().all().all()
    text = str(est.summary())
    assert "12 prior probabilities were estimated agent by agent" in text
    assert "no standard errors" in " ".join(text.split())


@pytest.mark.parametrize("estimator", [pf.TwoStage(), pf.SoftPolicyGradient()])
def test_two_stages_refuse_a_prior_for_each_agent_and_say_why(few, estimator):
    message = r"linear in its x0, so the first stage would always put x0 on a vertex.*pf\.Joint"
    with pytest.raises(pf.EstimationError, match=message):
        pf.fit(BUS, few, estimator, prior=pf.AgentPriors(), grid=GRID)


def test_priors_that_need_a_panel_are_refused_where_there_is_no_likelihood(few):
    for prior in (pf.AgentPriors(), pf.StationaryPrior()):
        with pytest.raises(pf.ModelError, match=r"for fit and log_likelihood.*pf\.KnownPrior"):
            drawn(2, 2, prior=prior)
        with pytest.raises(pf.ModelError, match=r"pf\.KnownPrior"):
            pf.filter_beliefs(BUS, TRUTH, few, prior=prior)


# ---- stationary ----------------------------------------------------------------------------


def everywhere(observations):
    """A panel that starts once at every z, and says nothing more."""
    return pf.Panel.from_arrays([[z] for z in range(observations)], [[0]] * observations)


def stationary(model, theta, nodes=None, grid=GRID, panel=None):
    """E[x | z] at every z."""
    panel = everywhere(model.kernel(theta).observations) if panel is None else panel
    prior = pf.StationaryPrior(nodes)
    return pf.log_likelihood(model, theta, panel, prior=prior, grid=grid).belief[:, 0]


def test_the_stationary_prior_is_the_mean_belief_of_all_lives():
    """Listed from one replacement to the next: no grid but that of the policy."""
    policy = reachable.in_batches(pf.solve(BUS, TRUTH, grid=GRID).policy, 4096)
    life = reachable.life(BUS.kernel(TRUTH).to_dense(), policy, reset=1, most=16)
    # What longer lives add to the visits of a z: each has about two more periods, as from any state
    # more than four in ten engines are replaced.
    left_out = 2.5 * life.unfinished / life.visits.min()
    assert left_out < 5e-5
    np.testing.assert_allclose(stationary(BUS, TRUTH), life.mean_belief, atol=left_out)


@pytest.mark.full
def test_the_stationary_prior_is_the_mean_belief_of_a_long_simulation():
    agents, burn = 400, 60
    run = drawn(agents, 160, hidden=True, seed=5)
    z, x = run.panel.z[:, burn:], run.belief[:, burn:, 1]
    coarse, fine = (stationary(BUS, TRUTH, nodes)[:, 1] for nodes in (21, 41))
    for k in range(BUS.bins):
        # A ratio of sums over independent agents: its error from theirs.
        total, count = (np.where(z == k, v, 0.0).sum(axis=1) for v in (x, 1.0))
        mean = total.sum() / count.sum()
        error = np.sqrt(((total - mean * count) ** 2).sum()) / count.sum()
        assert error < 0.01
        assert abs(fine[k] - mean) < 4 * error + abs(fine[k] - coarse[k])


class Weather(pf.Model):
    """s moves by itself and z' tells of s': whatever is done, P(s | z) is Bayes' rule."""

    def parameters(self):
        return {
            "stay": pf.Parameter([0.8, 0.7], pf.Interval()),
            "umbrella": pf.Parameter([0.5, -0.5]),
            "discount": pf.discount_parameter(0.8),
        }

    def kernel(self, theta):
        stay = jnp.asarray(theta["stay"])
        move = jnp.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
        tell = jnp.asarray(np.array([[0.8, 0.2], [0.3, 0.7]]))
        return pf.factored_kernel(*(jnp.stack([m, m], axis=1) for m in (move, tell)))

    def reward(self, theta):
        value = jnp.asarray(theta["umbrella"])
        return jnp.broadcast_to(jnp.stack([value, jnp.zeros(2)], axis=-1), (2, 2, 2))


def weather(stay):
    return {"stay": np.array(stay), "umbrella": np.array([0.5, -0.5]), "discount": 0.8}


def test_the_stationary_prior_of_a_state_that_nobody_controls_is_bayes_rule():
    # P(s) = (0.3, 0.2) / 0.5, P(s, z) = P(s) P(z | s).
    joint = np.array([0.6, 0.4])[:, None] * np.array([[0.8, 0.2], [0.3, 0.7]])
    expected = (joint / joint.sum(axis=0)).T
    # Splitting between nodes keeps the mean, so that any grid will do.
    found = stationary(Weather(), weather([0.8, 0.7]))
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_the_stationary_prior_where_z_tells_the_state():
    rng = np.random.default_rng(2)
    model = Table(revealing_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2))
    np.testing.assert_allclose(stationary(model, at(0.8)), np.eye(2), atol=1e-12)


def test_the_stationary_prior_of_a_single_state_is_one():
    rng = np.random.default_rng(4)
    for _ in range(5):
        model = Table(random_kernel(rng, 2, 1, 2), random_reward(rng, 2, 1, 2))
        x0 = stationary(model, at(0.8), grid=pf.Linear(2))
        np.testing.assert_allclose(x0, np.ones((2, 1)), atol=1e-14)


def test_each_group_has_a_stationary_prior_of_its_own():
    model = pf.models.Grouped(BUS, ["A", "B"], own=["RC"])
    theta = TRUTH | {"RC": np.array([1.0, 4.0]), "group": 0.0}
    panel = everywhere(4).with_groups(["A", "B", "A", "B"])
    both = stationary(model, theta, 21, panel=panel)
    for k, cost in enumerate([1.0, 4.0]):
        alone = stationary(BUS, TRUTH | {"RC": cost}, 21)
        np.testing.assert_allclose(both[k::2], alone[k::2], atol=1e-10)
    assert np.abs(both[1] - stationary(BUS, TRUTH | {"RC": 1.0}, 21)[1]).max() > 1e-3


def test_the_stationary_prior_is_differentiated_through_the_policy(few):
    # The observation terms depend on rewards too: z0's belief follows from what is chosen.
    likelihood = pf.Likelihood(BUS, few, prior=pf.StationaryPrior(), grid=GRID)
    assert set(likelihood.space.parameters) == set(BUS.parameters())  # it has none of its own
    result, gradient = likelihood.gradient(TRUTH)
    assert {"RC", "cost[good]", "cost[bad]"} < set(gradient.index)
    for name in gradient.index:
        difference = central_difference(
            lambda theta: likelihood(theta).total, likelihood.space, TRUTH, name
        )
        # Beliefs that cross a node within the step make kinks of this size.
        assert gradient[name] == pytest.approx(difference, rel=1e-5, abs=1e-6), name
    scores = likelihood.scores(TRUTH)[1]
    np.testing.assert_allclose(scores.sum(), gradient, rtol=1e-8, atol=1e-9)
    moved = likelihood({**TRUTH, "RC": 2.5}).observation.sum()
    assert abs(moved - result.observation.sum()) > 1e-4


def leaving(seed=0):
    """z = 0 is left for ever, and s goes on moving at z = 1 and 2."""
    rng = np.random.default_rng(seed)
    P = random_kernel(rng, 3, 2, 2)
    P[1:, :, :, 0] = 0.0
    P /= P.sum(axis=(3, 4), keepdims=True)
    return Table(P, random_reward(rng, 3, 2, 2))


def test_an_observation_that_is_never_seen_again_has_no_stationary_prior():
    panel = pf.Panel.from_arrays([[0, 1, 2], [1, 2, 1]], [[0, 1], [1, 0]], agents=["old", "new"])
    message = r"agent 'old' starts at z=0.*never comes back.*Agents concerned: 1.*pf\.CommonPrior"
    with pytest.raises(pf.SolveError, match=message):
        stationary(leaving(), at(0.8), 11, panel=panel)


def test_gradients_are_not_spoilt_by_observations_that_are_never_seen():
    model = leaving()
    panel = pf.Panel.from_arrays([[1, 2, 1], [2, 2, 1]], [[0, 1], [1, 0]])
    space = model.space().free("discount")
    likelihood = pf.Likelihood(model, panel, prior=pf.StationaryPrior(11), grid=GRID, space=space)
    _, gradient = likelihood.gradient(at(0.8))
    difference = central_difference(lambda th: likelihood(th).total, space, at(0.8), "discount")
    assert gradient["discount"] == pytest.approx(difference, rel=1e-5, abs=1e-7)


def standing_still():
    P = np.zeros((2, 2, 2, 2, 2))
    for z, s in np.ndindex(2, 2):
        P[z, s, :, z, s] = 1.0
    return Table(P, random_reward(np.random.default_rng(0), 2, 2, 2)), at(0.8)


@pytest.mark.parametrize(
    ("model", "theta"),
    [
        standing_still(),
        (Weather(), weather([1.0, 1.0])),  # s never changes: beliefs end at either vertex
        (Weather(), weather([1 - 1e-7, 1 - 1e-7])),  # as good as never
    ],
    ids=["nothing moves", "s never changes", "s hardly ever changes"],
)
def test_chains_that_do_not_mix_are_an_error_not_a_number(model, theta):
    with pytest.raises(pf.SolveError, match=r"no stationary law.*hidden state never changes"):
        stationary(model, theta, 11)


def test_a_finite_horizon_has_no_stationary_prior():
    rng = np.random.default_rng(0)
    model = Table(random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2), epochs=2)
    with pytest.raises(pf.ModelError, match="needs an infinite horizon"):
        stationary(model, at(0.8))


@pytest.mark.parametrize("estimator", [pf.TwoStage(), pf.SoftPolicyGradient()])
def test_two_stages_refuse_a_stationary_prior_and_say_why(few, estimator):
    with pytest.raises(pf.EstimationError, match=r"depends on the policy.*Use pf\.Joint"):
        pf.fit(BUS, few, estimator, prior=pf.StationaryPrior(), grid=GRID)


def test_a_joint_fit_with_a_stationary_prior():
    # Agents enter at random times of an engine's life: the first beliefs are forgotten.
    whole = drawn(12, 34, seed=9)
    panel = pf.Panel.from_arrays(whole.z[:, 30:], whole.a[:, 30:34])
    prior = pf.StationaryPrior()
    fixed = {name: TRUTH[name] for name in ("stay", "increment", "cost")}
    est = pf.fit(BUS, panel, prior=prior, grid=GRID, starts=1, start={"RC": 1.0}, fixed=fixed)
    assert est.converged
    assert abs(est.params["RC"] - TRUTH["RC"]) < 4 * est.bse["RC"]
    # What the grid of the law may change is said where the estimate is read.
    assert est.prior_error == est.log_likelihood().prior_error
    assert 0 < est.prior_error < 1e-5
    assert f"changes by more than {est.prior_error:.1e}" in " ".join(str(est.summary()).split())
    likelihood = pf.Likelihood(BUS, panel, prior=prior, grid=GRID)
    for step in (-0.01, 0.01):
        assert likelihood({**est.theta, "RC": est.theta["RC"] + step}).total < est.llf


# ---- common and known ----------------------------------------------------------------------


def test_a_common_prior_is_recovered():
    truth = np.array([0.25, 0.75])
    panel = drawn(100, 4, prior=pf.KnownPrior(truth), seed=1, z0=0)
    fixed = {"RC": TRUTH["RC"]} | REST
    options = {"prior": pf.CommonPrior(), "grid": GRID, "starts": 1, "fixed": fixed}
    est = pf.fit(BUS, panel, pf.TwoStage(), **options)
    assert est.converged
    assert list(est.params.index) == ["x0[good]", "x0[bad]"]
    assert est.derived == ("x0[bad]",)
    assert est.params.sum() == pytest.approx(1.0, abs=1e-14)
    assert abs(est.params["x0[good]"] - truth[0]) < 4 * est.bse["x0[good]"]
    # One number: the maximum of the observation terms over a fine grid of known priors.
    share = np.linspace(0.02, 0.98, 49)
    totals = [
        pf.filter_beliefs(BUS, TRUTH, panel, prior=pf.KnownPrior([p, 1 - p])).log_sigma.sum()
        for p in share
    ]
    assert est.llf_observation >= max(totals)
    assert abs(est.params["x0[good]"] - share[int(np.argmax(totals))]) <= 0.02


def test_the_common_prior_has_its_own_name_and_clashes_are_refused():
    space = pf.Likelihood(BUS, everywhere(4), prior=pf.CommonPrior("first"), grid=GRID).space
    assert space.names[-2:] == ["first[good]", "first[bad]"]
    held = space.fix({"first": [0.3, 0.7]})
    assert set(space.free_names) - set(held.free_names) == {"first[good]"}
    with pytest.raises(pf.ModelError, match="both have a parameter named 'stay'"):
        pf.Likelihood(BUS, everywhere(4), prior=pf.CommonPrior("stay"), grid=GRID)


def test_a_common_prior_at_a_value_is_that_known_prior(few):
    x0 = np.array([0.3, 0.7])
    common = pf.Likelihood(BUS, few, prior=pf.CommonPrior(), grid=GRID)({**TRUTH, "x0": x0})
    known = pf.Likelihood(BUS, few, prior=pf.KnownPrior(x0), grid=GRID)(TRUTH)
    assert common.total == known.total


def test_known_priors_go_by_agent():
    panel = pf.Panel.from_arrays([[0, 1, 2], [1, 2, 2]], [[0, 0], [0, 0]], agents=["u", "v"])
    rows = np.array([[0.2, 0.8], [0.9, 0.1]])
    named = {"v": rows[1], "u": rows[0], "w": [0.5, 0.5]}
    both = [
        pf.log_likelihood(BUS, TRUTH, panel, prior=pf.KnownPrior(belief), grid=GRID)
        for belief in (rows, named)
    ]
    np.testing.assert_allclose(both[0].belief[:, 0], rows, atol=1e-15)
    assert both[0].total == both[1].total
    for belief, message in (
        ({"u": [0.5, 0.5]}, "no belief for agent 'v'"),
        ([0.5, 0.6], "x0"),
        (np.full((3, 2), 0.5), r"shape \(2,\) or \(2, 2\) here, but it has \(3, 2\)"),
    ):
        with pytest.raises(pf.ModelError, match=message):
            pf.log_likelihood(BUS, TRUTH, panel, prior=pf.KnownPrior(belief), grid=GRID)


@pytest.mark.full
def test_a_prior_that_is_fixed_stays_where_it_is():
    """To the last bit, and it does not count as a parameter."""
    x0 = np.array([0.3, 0.7])
    fixed = {"x0": x0, "RC": TRUTH["RC"], **REST}
    del fixed["stay"]
    options = {"grid": GRID, "starts": 1, "start": TRUTH, "skip_hessian": True}
    panel = drawn(60, 6)
    held = pf.fit(BUS, panel, prior=pf.CommonPrior(), fixed=fixed, **options)
    np.testing.assert_array_equal(held.theta["x0"], x0)
    assert set(held.params.index) == {"stay[good]", "stay[bad]"}
    del fixed["x0"]
    known = pf.fit(BUS, panel, prior=pf.KnownPrior(x0), fixed=fixed, **options)
    assert held.llf == pytest.approx(known.llf, abs=1e-7)
