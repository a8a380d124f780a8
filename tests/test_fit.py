"""fit(): estimates against independent maximisers, restrictions, starts, modes, boundaries."""

import numpy as np
import pytest
from scipy.optimize import minimize

import pomdpfit as pf
from pomdpfit.estimators._starts import starting_points

MODEL = pf.models.EngineReplacement(bins=8, increments=3, discount=0.9)
GRID = pf.Smooth(9)
PRIOR = pf.KnownPrior([0.5, 0.5])
TRUTH = {
    "RC": 3.0,
    "cost": np.array([50.0, 400.0]),
    "stay": np.array([0.85, 0.9]),
    "increment": np.array([[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]]),
    "discount": 0.9,
}
START = {"RC": 2.0, "cost": np.array([100.0, 200.0]), "stay": np.array([0.7, 0.8])}


@pytest.fixture(scope="module")
def panel():
    z0 = np.random.default_rng(0).integers(0, MODEL.bins, size=60)
    return pf.simulate(MODEL, TRUTH, agents=60, periods=40, seed=0, prior=PRIOR, z0=z0, grid=GRID)


def fit(panel, estimator=None, **options):
    options = {"starts": 1, "start": START} | options
    return pf.fit(MODEL, panel, estimator, prior=PRIOR, grid=GRID, **options)


@pytest.fixture(scope="module")
def joint(panel):
    return fit(panel, pf.Joint())


@pytest.fixture(scope="module")
def staged(panel):
    return fit(panel, pf.TwoStage())


def scipy_maximum(likelihood, space, theta, part):
    """The maximum by scipy's Nelder-Mead on unconstrained coordinates, which takes no gradient."""

    def loss(u):
        moved = space.from_unconstrained(u, theta)
        ll = likelihood(moved)
        return -{"all": ll.total, "observation": ll.observation.sum(), "choice": ll.choice.sum()}[
            part
        ]

    start = np.asarray(space.to_unconstrained(theta))
    found = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9})
    return space.from_unconstrained(found.x, theta), -found.fun


def test_joint_estimate_is_the_maximum_that_scipy_finds_without_gradients(panel, joint):
    # Two free parameters, so that a search without gradients is exact; the rest as estimated.
    others = {n: v for n, v in joint.theta.items() if n not in {"RC", "cost"}}
    space = MODEL.space().fix(others)
    likelihood = pf.Likelihood(MODEL, panel, prior=PRIOR, grid=GRID, space=space)
    theta = {**joint.theta, "RC": np.asarray(2.5)}
    found, value = scipy_maximum(likelihood, space, theta, "all")
    assert joint.llf >= value - 1e-8
    # A log-likelihood known to 1e-9 locates its maximum to about sqrt(2e-9) standard errors.
    se = joint.bse[["RC", "cost[good]", "cost[bad]"]].to_numpy()
    gap = np.append(found["RC"], found["cost"]) - np.append(joint.theta["RC"], joint.theta["cost"])
    np.testing.assert_allclose(gap / se, 0, atol=1e-3)


def test_score_vanishes_at_the_joint_estimate_in_standard_errors(panel, joint):
    space = MODEL.space()
    score = pf.score(MODEL, joint.theta, panel, prior=PRIOR, grid=GRID, space=space)
    # A promised gain below 1e-8 is a distance below sqrt(2e-8) standard errors.
    assert np.abs(score * joint.bse[score.index]).max() < 2e-4
    assert joint.converged
    assert not joint.on_boundary
    assert joint.gain <= 1e-8


def test_two_stages_maximise_observations_then_choices(panel, staged, joint):
    space = MODEL.space()
    ll = pf.log_likelihood(MODEL, staged.theta, panel, prior=PRIOR, grid=GRID)
    assert staged.llf_observation == pytest.approx(ll.observation.sum(), abs=1e-9)
    # No other point has higher observation terms; the joint estimate trades some for choices.
    assert staged.llf_observation >= joint.llf_observation - 1e-8
    assert joint.llf >= staged.llf - 1e-8
    likelihood = pf.Likelihood(MODEL, panel, prior=PRIOR, grid=GRID)
    for name, index in (("stay", 0), ("stay", 1), ("increment", (0, 0))):
        for step in (-1e-3, 1e-3):
            moved = {n: np.array(v) for n, v in staged.theta.items()}
            moved[name][index] += step
            if name == "increment":
                moved[name][index[0], -1] -= step
            assert likelihood(moved).observation.sum() < staged.llf_observation
    for name, step in (("RC", 1e-2), ("RC", -1e-2)):
        moved = staged.theta | {name: staged.theta[name] + step}
        assert likelihood(moved).choice.sum() < staged.llf_choice
    assert list(space.names) == list(space.to_series(staged.theta).index)


def test_fixed_values_stay_to_the_last_bit_and_cost_likelihood(panel, joint):
    est = fit(panel, fixed={"RC": 2.7182818284590455, "cost[good]": 60.0})
    assert est.theta["RC"] == 2.7182818284590455
    assert est.theta["cost"][0] == 60.0
    assert "RC" not in est.params.index
    assert est.llf < joint.llf
    assert est.df_model == joint.df_model - 2


def test_equality_constraints_hold_and_the_tests_agree(panel, joint):
    est = fit(panel, constraints="stay[good] = stay[bad]")
    assert est.theta["stay"][0] == pytest.approx(est.theta["stay"][1], abs=1e-14)
    assert est.df_model == joint.df_model - 1
    ratio = pf.likelihood_ratio_test(est, joint)
    wald = joint.wald_test("stay[good] = stay[bad]")
    score = pf.score_test(est)
    assert ratio.df == wald.df == score.df == 1
    # The three are equal to first order; at a distance of a few standard errors not more.
    for other in (wald, score):
        assert other.statistic == pytest.approx(ratio.statistic, rel=0.5, abs=0.7)
    # A tied pair has one standard error between them.
    assert est.bse["stay[good]"] == pytest.approx(est.bse["stay[bad]"], rel=1e-9)


def test_a_restriction_between_rows_of_a_simplex(panel):
    est = fit(panel, constraints=["increment[good, 1] = increment[bad, 1]"])
    rows = est.theta["increment"]
    assert rows[0, 1] == pytest.approx(rows[1, 1], abs=1e-14)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-14)
    assert est.converged


def test_two_stages_refuse_restrictions_across_stages(panel):
    with pytest.raises(pf.EstimationError, match="ties dynamics to rewards"):
        fit(panel, pf.TwoStage(), constraints="RC = 10 * stay[good]")


def test_starts_are_all_told_and_lead_to_ranked_modes(panel, joint):
    mine = {"published": {**START, "RC": 4.0}}
    est = fit(panel, starts=mine, seed=3)
    assert list(est.starts.index) == [
        "start",
        "published",
        "drawn 1",
        "drawn 2",
        "drawn 3",
        "drawn 4",
    ]
    assert est.modes["starts"].sum() == (est.starts["mode"] > 0).sum()
    assert (np.diff(est.modes["llf"]) <= 1e-9).all()
    assert est.llf == pytest.approx(est.modes["llf"].iloc[0], abs=1e-8)
    assert est.llf >= joint.llf - 1e-6
    again = fit(panel, starts=mine, seed=3)
    np.testing.assert_array_equal(est.params, again.params)
    other = fit(panel, starts=2, seed=4)
    assert len(other.starts) == 2


def test_hidden_state_models_start_more_than_once_by_default(panel):
    likelihood = pf.Likelihood(MODEL, panel, prior=PRIOR, grid=GRID)
    assert len(starting_points(likelihood, None, None, None, 0)) == 5


class Weather(pf.Model):
    """Two hidden states with nothing to tell them apart but their parameters: labels are free."""

    def parameters(self):
        names = ("dry", "wet")
        return {
            "gain": pf.Parameter([0.5, 2.0], labels=[names]),
            "stay": pf.Parameter([[0.8, 0.2], [0.3, 0.7]], pf.Simplex(), labels=[names, names]),
            "seen": pf.Parameter([[0.8, 0.2], [0.3, 0.7]], pf.Simplex(), labels=[names, "01"]),
            "discount": pf.discount_parameter(0.8),
        }

    def kernel(self, theta):
        import jax.numpy as jnp

        twice = lambda table: jnp.stack([jnp.asarray(table)] * 2, axis=1)
        return pf.factored_kernel(twice(theta["stay"]), twice(theta["seen"]))

    def reward(self, theta):
        import jax.numpy as jnp

        gain = jnp.asarray(theta["gain"])
        return jnp.broadcast_to(jnp.stack([gain, jnp.ones(2)], axis=-1), (2, 2, 2))

    def state_labels(self):
        return ("dry", "wet")


def test_label_switching_is_found_and_undone():
    model, even = Weather(), pf.KnownPrior([0.5, 0.5])
    theta, grid = model.example(), pf.Smooth(9)
    panel = pf.simulate(model, theta, agents=80, periods=40, seed=1, prior=even, grid=grid)
    turned = {
        "gain": theta["gain"][::-1],
        "stay": theta["stay"][::-1, ::-1],
        "seen": theta["seen"][::-1],
    }
    est = pf.fit(model, panel, prior=even, grid=grid, starts={"turned": turned})
    assert est.starts.loc["turned", "mode"] == est.starts.loc["example", "mode"] == 1
    # Labelled as in the start: the wet state is the one that pays.
    assert est.theta["gain"][1] > est.theta["gain"][0]
    # With a prior that tells the states apart, a turned start is not the same point.
    known = pf.KnownPrior([0.9, 0.1])
    likelihood = pf.Likelihood(model, panel, prior=known, grid=grid)
    from pomdpfit.estimators._naming import find_naming

    assert find_naming(likelihood, theta).orders == ()


def test_a_probability_that_is_zero_in_the_data_ends_on_its_boundary():
    truth = TRUTH | {"increment": np.array([[0.1, 0.3, 0.6], [0.6, 0.4, 0.0]])}
    panel = pf.simulate(MODEL, truth, agents=60, periods=40, seed=5, prior=PRIOR, grid=GRID)
    with pytest.warns(pf.ConvergenceWarning, match="boundary"):
        est = fit(panel, pf.Joint(), seed=1)
    name = "increment[bad, 2]"
    assert est.converged
    assert est.on_boundary
    assert est.boundary == (name,)
    assert est.params[name] == 0.0
    assert np.isnan(est.bse[name])
    assert est.bse.drop(name).notna().all()
    assert name not in est.cov_params().index
    assert np.linalg.matrix_rank(est.cov_params().to_numpy()) == len(est.cov_params())
    text = str(est.summary())
    assert "On the boundary:" in text
    assert "These have no standard errors" in text
    # The likelihood falls in the one direction that is open.
    likelihood = pf.Likelihood(MODEL, panel, prior=PRIOR, grid=GRID)
    moved = {n: np.array(v) for n, v in est.theta.items()}
    moved["increment"][1] += [-1e-3, 0.0, 1e-3]
    assert likelihood(moved).total < est.llf
    with pytest.raises(pf.EstimationError, match="boundary"):
        est.wald_test({name: 0.0})


def test_a_fit_that_runs_out_of_steps_does_not_claim_to_have_converged(panel):
    with pytest.warns(pf.ConvergenceWarning, match="not converged"):
        est = fit(panel, pf.Joint(pf.BHHH(max_steps=1)))
    assert not est.converged
    assert est.result is pf.Result.MAX_STEPS
    assert "NO (max_steps)" in str(est.summary())
    assert "optimiser=pf.BHHH(max_steps=...)" in est.reason  # a climb's advice, not a solver's


@pytest.mark.full
def test_a_direction_that_the_data_do_not_identify_is_named(panel):
    # Never replaced: RC could be anything above some value.
    keep = pf.Panel.from_arrays(np.tile(np.arange(6) % 3, (5, 1)) * 0, np.zeros((5, 5), dtype=int))
    with pytest.warns(pf.ConvergenceWarning):
        est = fit(
            keep,
            pf.Joint(pf.BHHH(max_steps=30)),
            fixed={"stay": TRUTH["stay"], "increment": TRUTH["increment"]},
        )
    assert not est.converged


def test_no_start_with_a_likelihood_is_an_error_that_says_why(panel):
    z, a = np.zeros((2, *panel.z.shape), dtype=int)
    z[0, 1:] = 7  # seven bins up in a period
    bad = pf.Panel.from_arrays(z, a)
    with pytest.raises(pf.EstimationError, match="probability zero"):
        fit(bad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "joint"}, "object such as"),
        ({"starts": 0}, "at least 1"),
        ({"fixed": {"RCX": 1.0}}, "fixed names 'RCX', which is no parameter.* Did you mean 'RC'"),
        ({"fixed": {"stay[godo]": 0.9}}, r"Did you mean 'stay\[good\]'"),
        ({"constraints": "RC * stay[good] = 1"}, "not linear"),
        ({"start": {"RC": [1.0, 2.0]}}, "shape"),
        ({"free": ["group"]}, "no parameter named"),
        ({"fixed": {"cost": [1.0, 2.0], "cost[bad]": 3.0}}, r"both cost and cost\[bad\]"),
        ({"fixed": {"cost[bad]": 3.0, "cost": [1.0, 2.0]}}, r"both cost and cost\[bad\]"),
        ({"fixed": {"RC": 9.0}, "free": ["RC"]}, "RC is both fixed and free"),
        ({"start": {"discount": 0.5}}, "discount is given as 0.5, but the model fixes it at"),
        ({"starts": [{"discount": 0.5}]}, "discount is given as 0.5, but the model fixes it at"),
        ({"fixed": TRUTH}, r"Let one go with free=\[...\] \(--free NAME\): RC"),
    ],
)
def test_refusals(panel, options, message):
    with pytest.raises((pf.EstimationError, pf.ModelError), match=message):
        fit(panel, **options)


@pytest.mark.full
def test_freeing_the_discount(panel):
    est = fit(panel, free=["discount"], fixed={"cost": TRUTH["cost"]})
    assert "discount" in est.params.index
    assert 0 <= est.params["discount"] < 1
