"""Tests of hypotheses, of fit and between models: formulas written out anew, size and power."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pomdpfit as pf
from pomdpfit.baselines import BusEngine
from reference import nfxp
from report_kinds import Kind
from small_bus import MODEL, TRUTH, bus_fit, draw_panel, tables
from small_hidden import PRIOR, hidden_fit, hidden_panel

LEVEL = 1e-4  # of every statistical statement below
REPLICATIONS = 150

pytestmark = pytest.mark.filterwarnings("ignore::pomdpfit.ConvergenceWarning")


@pytest.fixture(scope="module")
def panel():
    return draw_panel(0, agents=80)


@pytest.fixture(scope="module")
def full(panel):
    return bus_fit(panel)


@pytest.fixture(scope="module")
def restricted(panel):
    return bus_fit(panel, fixed={"RC": 2.3}, constraints="increment[0] = increment[2]")


@pytest.fixture(scope="module")
def staged(panel):
    return bus_fit(panel, pf.TwoStage())


@pytest.fixture(scope="module")
def unfinished(panel):
    return bus_fit(panel, pf.Joint(pf.BHHH(max_steps=1)), start={"RC": 9.0}, fixed={"cost": 100.0})


class Quadratic(BusEngine):
    """Costs that rise with the square of the mileage: as many parameters, not nested."""

    per_square: float = eqx.field(static=True, default=1 / 5)

    def reward(self, theta):
        z = np.arange(self.bins, dtype=float)
        keep = -0.001 * jnp.asarray(theta["cost"]) * self.per_square * z**2
        return jnp.stack([keep, jnp.ones(self.bins) * -jnp.asarray(theta["RC"])], axis=1)


@pytest.fixture(scope="module")
def quadratic(panel):
    return bus_fit(panel, model=Quadratic(bins=6, increments=3, discount=0.9))


# ---- size: p-values under the null are uniform --------------------------------------------------


@pytest.fixture(scope="module")
def p_values():
    """p-values of every test in panels of the truth; "naive" ignores that theta was estimated."""
    found = {}
    keep = lambda name, p: found.setdefault(name, []).append(p)
    everywhere = range(MODEL.bins)
    for seed in range(REPLICATIONS):
        panel = draw_panel(10_000 + seed, agents=150, periods=10)
        two = bus_fit(panel, pf.TwoStage())
        joint = bus_fit(panel, start=two.theta)
        held = bus_fit(panel, start=two.theta, fixed={"RC": TRUTH["RC"]}, skip_hessian=True)
        keep("likelihood ratio", pf.likelihood_ratio_test(held, joint).pvalue)
        keep("Wald", joint.wald_test({"RC": TRUTH["RC"]}).pvalue)
        keep("Wald, two stages", two.wald_test({"RC": TRUTH["RC"]}).pvalue)
        keep("score", pf.score_test(held).pvalue)
        for name, est in (("joint", joint), ("two-stage", two)):
            keep(f"chi-square, {name}, few cells", pf.chi_square_test(est, 3).test.pvalue)
            keep(f"chi-square, {name}, each z", pf.chi_square_test(est, everywhere).test.pvalue)
        keep("naive", naive_chi_square(joint, everywhere))
    return found


def residuals(est, first_z):
    """Each agent's replacements less the predicted ones, by cell of z."""
    frame = est.predict()
    gap = (frame["a"].astype(int) - frame["P(replace)"]).to_numpy()
    cell = np.searchsorted(list(first_z), frame["z"], side="right") - 1
    m = np.zeros((est.panel.agent_count, len(first_z)))
    np.add.at(m, (frame["agent"], cell), gap)
    return m


def naive_chi_square(est, first_z):
    m = residuals(est, first_z)
    return stats.chi2.sf(m.sum(axis=0) @ np.linalg.solve(m.T @ m, m.sum(axis=0)), len(first_z))


TESTS = [
    "likelihood ratio",
    "Wald",
    "Wald, two stages",
    "score",
    "chi-square, joint, few cells",
    "chi-square, joint, each z",
    "chi-square, two-stage, few cells",
    "chi-square, two-stage, each z",
]


@pytest.mark.full
@pytest.mark.parametrize("name", TESTS)
def test_p_values_are_uniform_under_the_null(p_values, name):
    assert stats.kstest(p_values[name], "uniform").pvalue > LEVEL


@pytest.mark.full
@pytest.mark.parametrize("name", TESTS)
def test_a_test_at_five_percent_rejects_as_often(p_values, name):
    rejected = (np.array(p_values[name]) < 0.05).sum()
    low, high = stats.binom.ppf([LEVEL / 2, 1 - LEVEL / 2], REPLICATIONS, 0.05)
    assert low <= rejected <= high


@pytest.mark.full
def test_a_chi_square_that_forgets_the_estimation_is_told(p_values):
    """Two of six sums vanish by the first-order conditions: the law above could fail."""
    assert stats.kstest(p_values["naive"], "uniform").pvalue < LEVEL


# ---- likelihood ratio ---------------------------------------------------------------------------


def test_likelihood_ratio_is_twice_the_difference(restricted, full):
    found = pf.likelihood_ratio_test(restricted, full)
    assert found.statistic == pytest.approx(2 * (full.llf - restricted.llf), rel=1e-12)
    assert found.df == 2
    assert found.pvalue == pytest.approx(np.exp(-found.statistic / 2), rel=1e-12)  # two degrees
    assert "RC" in found.hypothesis
    assert "increment[0] = increment[2]" in found.hypothesis
    assert f"{found.statistic:.4f}" in str(found)


def test_likelihood_ratio_has_power(full, panel):
    """RC moved by 6 standard errors: the statistic is about 36."""
    away = bus_fit(panel, fixed={"RC": float(full.params["RC"] + 6 * full.bse["RC"])})
    assert pf.likelihood_ratio_test(away, full).pvalue < LEVEL
    assert full.wald_test({"RC": float(away.theta["RC"])}).statistic == pytest.approx(36)
    assert pf.score_test(away).pvalue < LEVEL


def test_likelihood_ratio_refusals(restricted, full, staged, unfinished, panel, quadratic):
    with pytest.raises(pf.EstimationError, match="full estimate is a two-stage one"):
        pf.likelihood_ratio_test(restricted, staged)
    with pytest.raises(pf.EstimationError, match="restricted estimate is a two-stage one"):
        pf.likelihood_ratio_test(staged, full)
    with pytest.raises(pf.EstimationError, match="fewer parameters"):
        pf.likelihood_ratio_test(full, restricted)
    with pytest.raises(pf.EstimationError, match="fewer parameters"):
        pf.likelihood_ratio_test(full, quadratic)
    with pytest.raises(pf.EstimationError, match="restricted estimate has not converged"):
        pf.likelihood_ratio_test(unfinished, full)
    other = bus_fit(draw_panel(1, agents=80))
    with pytest.raises(pf.EstimationError, match="different data"):
        pf.likelihood_ratio_test(restricted, other)
    # A "full" model that is worse than the restricted one does not hold it.
    poor = bus_fit(panel, fixed={"cost": 0.0})
    good = bus_fit(panel, fixed={"RC": 2.0, "increment": TRUTH["increment"]})
    with pytest.raises(pf.EstimationError, match="not nested"):
        pf.likelihood_ratio_test(good, poor)


# ---- score test ---------------------------------------------------------------------------------


def agent_scores(est):
    """d log l_i by central differences in (RC, cost, p0, p1), p2 = 1 - p0 - p1."""
    likelihood = pf.baselines.NFXPLikelihood(MODEL, est.panel)
    at = np.array([est.theta["RC"], est.theta["cost"], *est.theta["increment"][:2]])

    def parts(x):
        theta = {"RC": x[0], "cost": x[1], "increment": [x[2], x[3], 1 - x[2] - x[3]]}
        return likelihood.terms({**theta, "discount": 0.9}).parts().sum(axis=1)

    columns = []
    for k, h in enumerate([1e-4, 1e-2, 1e-5, 1e-5]):
        step = h * np.eye(4)[k]
        columns.append((parts(at + step) - parts(at - step)) / (2 * h))
    return np.stack(columns, axis=1)


def test_score_statistic_by_hand(restricted):
    S = agent_scores(restricted)
    total = S.sum(axis=0)
    expected = total @ np.linalg.inv(S.T @ S) @ total
    found = pf.score_test(restricted)
    # Steps h of a millionth or so of each scale: h^2 against eps / h leaves some 1e-7.
    assert found.statistic == pytest.approx(expected, rel=1e-5)
    assert found.df == 2
    assert found.pvalue == pytest.approx(stats.chi2.sf(expected, 2), rel=1e-4)
    assert "RC" in found.hypothesis


def test_score_test_of_a_parameter_that_the_model_fixes(full):
    found = pf.score_test(full, free=["discount"])
    assert found.df == 1
    assert found.pvalue > LEVEL  # 0.9 is the truth
    freed = bus_fit(full.panel, free=["discount"], start=full.theta)
    # To first order the same as the likelihood ratio, both being small.
    ratio = pf.likelihood_ratio_test(full, freed)
    assert found.statistic == pytest.approx(ratio.statistic, rel=0.5, abs=0.7)


def test_score_test_refusals(full, staged, unfinished):
    with pytest.raises(pf.EstimationError, match="joint estimates"):
        pf.score_test(staged)
    with pytest.raises(pf.EstimationError, match="nothing to test"):
        pf.score_test(full)
    with pytest.raises(pf.EstimationError, match="has not converged"):
        pf.score_test(unfinished)


def test_score_test_refuses_a_value_on_its_bound():
    short = draw_panel(3, agents=40, theta=TRUTH | {"increment": np.array([0.4, 0.6, 0.0])})
    held = bus_fit(short, fixed={"increment": [0.4, 0.6, 0.0]})
    with pytest.raises(pf.EstimationError, match=r"increment\[2\] is held at its bound"):
        pf.score_test(held)


# ---- Wald and the delta method ------------------------------------------------------------------


def whole_covariance(est):
    """Of (RC, cost, p0, p1, p2), from that of the free ones: p2 = 1 - p0 - p1."""
    J = np.vstack([np.eye(4), [0, 0, -1, -1]])
    return J @ est.cov_params().to_numpy() @ J.T


@pytest.mark.parametrize("which", ["full", "staged"])
def test_wald_statistic_by_hand(which, request):
    est = request.getfixturevalue(which)
    found = est.wald_test(["RC = 1.9", "2 * increment[0] = increment[2] + 0.3"])
    R, q = np.array([[1, 0, 0, 0, 0], [0, 0, 2, 0, -1]]), np.array([1.9, 0.3])
    gap = R @ est.params.to_numpy() - q
    expected = gap @ np.linalg.inv(R @ whole_covariance(est) @ R.T) @ gap
    assert found.statistic == pytest.approx(expected, rel=1e-9)
    assert found.df == 2
    assert found.pvalue == pytest.approx(np.exp(-expected / 2), rel=1e-9)


def test_wald_test_of_one_entry_is_the_squared_z(full):
    for name in full.params.index:
        found = full.wald_test({name: 0.1})
        z = (full.params[name] - 0.1) / full.bse[name]
        assert found.statistic == pytest.approx(z**2, rel=1e-9)
    robust = full.wald_test({"RC": 0.0}, kind="sandwich")
    se = full.standard_errors("sandwich")["RC"]
    assert robust.statistic == pytest.approx((full.params["RC"] / se) ** 2, rel=1e-12)


@pytest.mark.parametrize(
    ("restrictions", "message"),
    [
        (["RC = 1", "2 * RC = 2"], "repeat one another"),
        ("increment[0] + increment[1] + increment[2] = 1", "hold by construction"),
        ("RC * cost = 1", "not linear"),
        ("RX = 1", "no such entry"),
        ("discount = 0.9", "no such entry"),
    ],
)
def test_wald_refusals(full, restrictions, message):
    with pytest.raises((pf.EstimationError, pf.ModelError), match=message):
        full.wald_test(restrictions)


@pytest.mark.parametrize("kind", [None, "opg", "sandwich"])
def test_delta_method_of_a_ratio_by_hand(full, kind):
    """d (7513 c / RC) = 7513 / RC dc - 7513 c / RC^2 dRC."""
    RC, c = full.params["RC"], full.params["cost"]
    V = full.cov_params(kind).loc[["RC", "cost"], ["RC", "cost"]].to_numpy()
    g = np.array([-7513 * c / RC**2, 7513 / RC])
    se = np.sqrt(g @ V @ g)
    found = full.delta_method(lambda th: 7513 * th["cost"] / th["RC"], ["dollars"], kind)
    value, half = 7513 * c / RC, 1.959963984540054 * se
    expected = [value, se, value - half, value + half]
    np.testing.assert_allclose(found.loc["dollars"], expected, rtol=1e-8)


def test_delta_method_of_linear_functions_is_exact(full):
    """The mean increment 0 p0 + 1 p1 + 2 p2, and an entry itself, the derived one too."""
    V = whole_covariance(full)
    w = np.array([0, 0, 0, 1, 2.0])
    found = full.delta_method(lambda th: th["increment"] @ jnp.arange(3.0))
    assert found.index.tolist() == ["f[0]"]
    assert found["std err"].iloc[0] == pytest.approx(np.sqrt(w @ V @ w), rel=1e-10)
    rows = full.delta_method(lambda th: th["increment"])
    np.testing.assert_allclose(rows["std err"], full.bse.iloc[2:], rtol=1e-10)
    logs = full.delta_method(lambda th: jnp.log(th["RC"]))
    assert logs["std err"].iloc[0] == pytest.approx(full.bse["RC"] / full.params["RC"], rel=1e-10)


def test_delta_method_keeps_the_names_of_what_it_is_given(full):
    found = full.delta_method(lambda th: {"twice": 2 * th["RC"], "step": th["increment"]})
    assert found.index.tolist() == ["twice", "step[0]", "step[1]", "step[2]"]
    assert found.loc["twice", "std err"] == pytest.approx(2 * full.bse["RC"], rel=1e-10)
    series = full.delta_method(lambda th: pd.Series([th["RC"], th["cost"]], ["a", "b"]))
    assert series.index.tolist() == ["a", "b"]
    np.testing.assert_allclose(series["std err"], full.bse[["RC", "cost"]], rtol=1e-10)


def test_delta_method_of_what_is_fixed_has_no_error(full, restricted):
    assert full.delta_method(lambda th: th["discount"])["std err"].iloc[0] == 0
    assert restricted.delta_method(lambda th: th["RC"])["std err"].iloc[0] == 0
    tied = restricted.delta_method(lambda th: th["increment"][0] - th["increment"][2])
    assert tied["estimate"].iloc[0] == pytest.approx(0, abs=1e-14)
    assert tied["std err"].iloc[0] == pytest.approx(0, abs=1e-14)


# ---- Vuong --------------------------------------------------------------------------------------


def test_vuong_by_hand_and_antisymmetric(full, quadratic):
    d = (full.llf_obs.sum(axis=1) - quadratic.llf_obs.sum(axis=1)).to_numpy()
    expected = d.sum() / np.sqrt((d**2).sum() - len(d) * d.mean() ** 2)
    found = pf.vuong_test(full, quadratic)
    assert found.statistic == pytest.approx(expected, rel=1e-9)
    assert found.pvalue == pytest.approx(2 * stats.norm.sf(abs(expected)), rel=1e-9)
    assert pf.vuong_test(quadratic, full).statistic == pytest.approx(-expected, rel=1e-9)
    assert ("first" in found.note) == (expected > 0)


def test_vuong_corrections_count_parameters(restricted, quadratic):
    """Two parameters fewer: -2 in the sum by AIC, -log(nobs) by BIC."""
    plain = pf.vuong_test(restricted, quadratic)
    gap = (restricted.terms - quadratic.terms).sum(axis=1)
    unit = np.sqrt(len(gap)) * gap.std()
    for name, penalty in (("aic", -2.0), ("bic", -np.log(restricted.nobs))):
        corrected = pf.vuong_test(restricted, quadratic, name)
        assert corrected.statistic == pytest.approx(plain.statistic - penalty / unit, rel=1e-9)


def test_vuong_finds_the_true_model():
    panel = draw_panel(5, agents=400, cost=lambda z: 0.2 * z**2)
    wrong = bus_fit(panel)
    right = bus_fit(panel, model=Quadratic(bins=6, increments=3, discount=0.9))
    found = pf.vuong_test(right, wrong)
    assert found.statistic > stats.norm.isf(LEVEL)


def test_vuong_refusals(full, quadratic):
    with pytest.raises(pf.EstimationError, match="cannot be told apart"):
        pf.vuong_test(full, full)
    with pytest.raises(pf.EstimationError, match="'hqic'"):
        pf.vuong_test(full, quadratic, "hqic")
    with pytest.raises(pf.EstimationError, match="different data"):
        pf.vuong_test(full, bus_fit(draw_panel(1, agents=80)))


def test_vuong_of_a_true_restriction_is_half_a_normal(full, panel):
    """sum d is LR / 2 and sum d^2 nearly LR, so |z| = |N(0, 1)| / 2, above 1.96 in .01 %."""
    held = bus_fit(panel, fixed={"RC": TRUTH["RC"]})
    d = (full.llf_obs - held.llf_obs).sum(axis=1).to_numpy()
    z = d.sum() / (np.sqrt(len(d)) * d.std())
    ratio = pf.likelihood_ratio_test(held, full).statistic
    # Scores' outer products of 80 agents are the information up to 4 sqrt(2 / 80) or so.
    assert z == pytest.approx(np.sqrt(ratio) / 2, rel=0.6)
    assert 2 * stats.norm.sf(2 * 1.96) == pytest.approx(1e-4, rel=0.2)
    for pair in ((held, full), (full, held)):
        with pytest.raises(pf.EstimationError, match=r"special case.*likelihood_ratio_test"):
            pf.vuong_test(*pair)


def written(model, panel, prior=PRIOR, free=(), restrictions=(), seed=0, **known):
    """An estimate with drawn likelihoods, at a theta that was not searched for."""
    grid = None if prior is None else pf.Linear(3)
    x0 = {"x0": [0.5, 0.5]} if isinstance(prior, pf.CommonPrior) else {}
    est = Kind(model, panel, {**known, **x0}, prior, grid, tuple(known)).written_down()
    space = est.space.free(*free)
    sizes = [
        np.prod(p.constraint.free_shape(p.shape)) for p in space.parameters.values() if not p.fixed
    ]
    return dataclasses.replace(
        est,
        space=space,
        terms=np.random.default_rng(seed).normal(size=est.terms.shape),
        restrictions=tuple(restrictions),
        dimension=int(sum(sizes)) - len(restrictions),
    )


def engine(**options):
    return pf.models.EngineReplacement(**({"bins": 6, "increments": 3, "discount": 0.9} | options))


ONE = [1.0, 0.0]
GROUPS = ["north", "south"]
NESTED = {
    "a known prior in a common one": [(engine(), {}), (engine(), {"prior": pf.CommonPrior()})],
    "a common prior in the agents' own": [
        (engine(), {"prior": pf.CommonPrior()}),
        (engine(), {"prior": pf.AgentPriors()}),
    ],
    "what groups share": [
        (engine(), {}),
        (pf.models.Grouped(engine(), GROUPS, own=["RC", "increment"]), {}),
    ],
    "what more groups share": [
        (pf.models.Grouped(engine(), GROUPS, own=["RC"]), {}),
        (pf.models.Grouped(engine(), GROUPS, own=["RC", "cost"]), {}),
    ],
    "a discount": [(engine(discount=0.95), {}), (engine(), {"free": ("discount",)})],
    "a new engine's condition": [(engine(), {}), (engine(new="free"), {})],
    "one condition": [(engine(conditions=1), {"prior": None}), (engine(), {})],
    "the engine without conditions": [(MODEL, {"prior": None}), (engine(), {})],
    "two conditions of three": [
        (engine(), {"prior": pf.KnownPrior(ONE)}),
        (engine(conditions=3), {"prior": pf.KnownPrior([*ONE, 0.0])}),
    ],
    "an equation": [
        (engine(), {"restrictions": ["cost[good] = cost[bad]"]}),
        (engine(), {}),
    ],
}
APART = {
    "other resets": [(engine(), {}), (engine(reset="increment"), {})],
    "other discounts": [(engine(), {}), (engine(discount=0.95), {})],
    "other known priors": [(engine(), {}), (engine(), {"prior": pf.KnownPrior(ONE)})],
    "increments that differ": [
        (MODEL, {"prior": None}),
        (engine(), {"increment": np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])}),
    ],
    "another discount beside": [
        (engine(conditions=1, discount=0.95), {"prior": None}),
        (engine(), {}),
    ],
    "values of one model": [(engine(), {"RC": 2.0}), (engine(), {"RC": 3.0, "stay": [0.9, 0.9]})],
    "a restriction of what groups have": [
        (engine(), {}),
        (
            pf.models.Grouped(engine(), GROUPS, own=["cost"]),
            {"restrictions": ["RC = 2", "cost[south, bad] = 2 * cost[north, bad]"]},
        ),
    ],
    "a Quadratic": [
        (MODEL, {"prior": None}),
        (Quadratic(bins=6, increments=3, discount=0.9), {"prior": None}),
    ],
}
WITHOUT_A_LAW = {
    "a common prior in the agents' own": "as many of them as agents",
    "one condition": "choose_states",
    "the engine without conditions": "choose_states",
    "two conditions of three": "choose_states",
}


@pytest.fixture(scope="module")
def grouped_panel():
    return hidden_panel().with_groups(["south"] * 20 + ["north"] * 20, groups=GROUPS)


@pytest.mark.parametrize("name", NESTED)
def test_models_that_are_known_to_be_nested_have_no_vuong_test(name, grouped_panel):
    """Whichever comes first; and no chi-square where there is none either."""
    pair = [
        written(model, grouped_panel, seed=k, **more)
        for k, (model, more) in enumerate(NESTED[name])
    ]
    advice = WITHOUT_A_LAW.get(name, r"pf\.likelihood_ratio_test")
    with pytest.raises(pf.EstimationError, match=f"first model is a special case.*{advice}"):
        pf.vuong_test(*pair)
    with pytest.raises(pf.EstimationError, match=f"second model is a special case.*{advice}"):
        pf.vuong_test(*reversed(pair))
    if name in WITHOUT_A_LAW:
        with pytest.raises(pf.EstimationError, match=advice):
            pf.likelihood_ratio_test(*pair)


@pytest.mark.parametrize("name", APART)
def test_models_that_are_not_known_to_be_nested_have_one_that_says_what_it_presumes(
    name, grouped_panel
):
    pair = [
        written(model, grouped_panel, seed=k, **more) for k, (model, more) in enumerate(APART[name])
    ]
    found = pf.vuong_test(*pair)
    d = (pair[0].terms - pair[1].terms).sum(axis=1)
    assert found.statistic == pytest.approx(d.sum() / (np.sqrt(len(d)) * d.std()))
    assert "presumes that neither model is a special case" in found.note


def test_two_fits_that_differ_by_rounding_alone_have_no_vuong_test(full, quadratic):
    """Other models that say the same, up to where their searches stopped; one model twice."""
    noise = 1e-6 * np.random.default_rng(0).normal(size=full.terms.shape)
    alike = dataclasses.replace(quadratic, terms=full.terms + noise)
    with pytest.raises(pf.EstimationError, match="cannot be told apart"):
        pf.vuong_test(full, alike)
    again = bus_fit(full.panel, start={"RC": 2.5, "cost": 500.0})
    with pytest.raises(pf.EstimationError, match="fits of one model under the same restrictions"):
        pf.vuong_test(full, again)


def test_models_that_fit_alike_are_said_to_in_all_but_a_twentieth_of_samples(full, quadratic):
    """y is noise and its regressors are not of it: each model is right, each has its own slope."""
    rng, N, said = np.random.default_rng(1), len(full.terms), []
    for _ in range(100):
        y, x, w = rng.normal(size=(3, N))
        fits = [-0.5 * (y - (v @ y) / (v @ v) * v) ** 2 for v in (x, w)]
        terms = [np.column_stack([fit, np.zeros(N)]) for fit in fits]
        pair = [
            dataclasses.replace(est, terms=t, dimension=1)
            for est, t in zip((full, quadratic), terms, strict=True)
        ]
        said.append("hardly differ" in pf.vuong_test(*pair).note)
    # At least 95 %, less four binomial standard errors.
    assert np.mean(said) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / len(said))
    assert "hardly differ" not in pf.vuong_test(*written_apart(full, quadratic)).note


def written_apart(full, quadratic):
    """The same two, of which the first fits each agent much better."""
    rng = np.random.default_rng(2)
    return full, dataclasses.replace(quadratic, terms=full.terms - 5 * rng.random(full.terms.shape))


def test_a_restriction_on_a_bound_is_said_to_have_no_chi_square(grouped_panel):
    """A new engine that is good for certain: the p-value of chi-square is an upper limit."""
    small = written(engine(), grouped_panel, prior=pf.KnownPrior(ONE))
    large = written(engine(), grouped_panel, prior=pf.CommonPrior())
    large = dataclasses.replace(large, terms=small.terms + 0.1)
    found = pf.likelihood_ratio_test(small, large)
    assert "x0[good], x0[bad] on its bound" in found.note
    inside = written(engine(), grouped_panel)
    inside = dataclasses.replace(inside, terms=small.terms)
    assert pf.likelihood_ratio_test(inside, large).note == ""


# ---- chi-square test of fit ---------------------------------------------------------------------


def replacement(x):
    """P(replace | z) at (RC, cost, p0, p1), by the reference solver."""
    RC, cost, p0, p1 = x
    P, r = tables(MODEL.bins, [p0, p1, 1 - p0 - p1], RC, lambda z: 0.001 * cost * z)
    return nfxp.solve_mdp(P, r, 0.9)[2][:, 1]


@pytest.mark.parametrize("which", ["full", "staged"])
@pytest.mark.parametrize("first_z", [[0, 3], [0, 1, 2, 3, 4, 5]])
def test_chi_square_by_hand(which, first_z, request):
    """Binomial variances, by z; less what fitting takes away, plus what a first stage adds."""
    est = request.getfixturevalue(which)
    x = est.params.to_numpy()[:4]
    p, n = replacement(x), np.bincount(est.panel.z[est.panel.score_choice], minlength=6)
    h = np.array([1e-4, 1e-2, 1e-5, 1e-5])
    d = np.stack([replacement(x + e) - replacement(x - e) for e in np.diag(h)], axis=1) / (2 * h)
    member = (
        np.searchsorted(first_z, range(6), side="right") - 1 == np.arange(len(first_z))[:, None]
    )
    V, D = np.diag(member @ (n * p * (1 - p))), member @ (n[:, None] * d)
    J = d.T @ (d * (n / (p * (1 - p)))[:, None])
    o = est.information.scores[:, 0]
    if which == "full":
        W = V - D @ np.linalg.solve(J + o.T @ o, D.T)
    else:
        fitted = D[:, :2] @ np.linalg.inv(J[:2, :2])
        G = D[:, 2:] - fitted @ J[:2, 2:]
        W = V - fitted @ D[:, :2].T + G @ np.linalg.inv(o[:, 2:].T @ o[:, 2:]) @ G.T
    m = residuals(est, first_z).sum(axis=0)
    # With a cell for each z the two rewards' equations are combinations of m: they leave the rank.
    df = 2 if len(first_z) == 2 else 4
    expected = m @ np.linalg.pinv(W, rcond=1e-7, hermitian=True) @ m
    found = pf.chi_square_test(est, first_z).test
    assert found.df == df
    # Differences with steps of a thousandth of a standard error against steps of h.
    assert found.statistic == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("estimator", [pf.Joint(), pf.TwoStage()])
def test_chi_square_with_restrictions_and_on_a_bound(estimator):
    """An increment that never occurs, and rewards that are tied: fewer equations are met."""
    never = draw_panel(3, agents=60, theta=TRUTH | {"increment": np.array([0.4, 0.6, 0.0])})
    est = bus_fit(never, estimator, constraints="cost = 300 * RC")
    assert est.boundary == ("increment[2]",)
    found = pf.chi_square_test(est, range(MODEL.bins)).test
    assert found.df == 5  # six cells less one free reward
    assert found.pvalue > LEVEL  # the restriction holds in the truth


def test_chi_square_refusals(full, unfinished):
    with pytest.raises(pf.EstimationError, match="not converged"):
        pf.chi_square_test(unfinished)
    with pytest.raises(pf.EstimationError, match="at least one cell"):
        pf.chi_square_test(full, 0)


@pytest.mark.parametrize("estimator", [pf.Joint(), pf.TwoStage()])
def test_chi_square_has_power_against_another_cost_function(estimator):
    panel = draw_panel(7, agents=400, cost=lambda z: 3.0 * (z >= 3))
    assert pf.chi_square_test(bus_fit(panel, estimator), range(6)).test.pvalue < LEVEL


def test_chi_square_counts_add_up(full, panel):
    found = pf.chi_square_test(full, [2, 4])
    table = found.table
    assert table.index.tolist() == ["0..1", "2..3", "4.."]
    assert table["rows"].sum() == full.nobs
    for label in ("observed", "predicted"):
        both = table[f"keep: {label}"] + table[f"replace: {label}"]
        np.testing.assert_allclose(both, table["rows"], rtol=1e-12)
    for row, (low, high) in zip(table.itertuples(), [(0, 2), (2, 4), (4, 6)], strict=True):
        here = (panel.z >= low) & (panel.z < high)
        assert row.rows == here.sum()
        assert table.loc[row.Index, "replace: observed"] == panel.a[here].sum()
    assert "fit of the choices" in str(found)
    assert "replace: predicted" in str(found)
    assert f"{panel.agent_count} agents" in found.test.note


def test_chi_square_leaves_out_what_is_not_scored(panel):
    mask = np.ones(panel.z.shape, dtype=bool)
    mask[:, ::3] = False
    est = bus_fit(panel.score(choice=mask))
    table = pf.chi_square_test(est, 2).table
    assert table["rows"].sum() == mask.sum() == est.nobs
    assert table["replace: observed"].sum() == panel.a[mask].sum()


# ---- comparison ---------------------------------------------------------------------------------


def test_compare_orders_by_aic_and_shows_the_parts(full, restricted, quadratic):
    table = pf.compare(full, square=quadratic, tied=restricted)
    assert set(table.index) == {"BusEngine 1", "square", "tied"}
    assert (np.diff(table["aic"]) >= 0).all()
    fits = {"BusEngine 1": full, "square": quadratic, "tied": restricted}
    best = max(est.llf for est in fits.values())
    for name, est in fits.items():
        row = table.loc[name]
        assert row["llf"] == est.llf
        assert row["observation"] + row["choice"] == pytest.approx(est.llf, rel=1e-13)
        assert row["loss %"] == pytest.approx(100 * (best - est.llf) / -best, abs=1e-12)
        assert row["aic"] == pytest.approx(-2 * est.llf + 2 * est.df_model)
        assert row["bic"] == pytest.approx(-2 * est.llf + est.df_model * np.log(est.nobs))
        assert row["converged"]
    assert table["loss %"].min() == 0


def test_compare_says_how_each_was_estimated(full, staged, unfinished):
    table = pf.compare(joint=full, staged=staged, unfinished=unfinished)
    assert table.loc["joint", "estimator"] == "Joint"
    assert table.loc["staged", "estimator"] == "TwoStage"
    assert not table.loc["unfinished", "converged"]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda p: p.score(choice=np.arange(p.z.size).reshape(p.z.shape) > 0), "scored choices"),
        (lambda p: p.score(observation=p.z < 4), "scored transitions"),
        (lambda p: p.exclude_transitions(p.z == 4), "excluded transitions"),
        (lambda p: draw_panel(1, agents=80), "observations, actions"),
        (lambda p: draw_panel(0, agents=70), "agents, .*observations"),
    ],
)
def test_compare_names_what_differs_in_the_data(full, panel, change, names):
    other = bus_fit(change(panel))
    with pytest.raises(pf.EstimationError, match=names) as error:
        pf.compare(full, other)
    assert "different data" in str(error.value)
    assert "estimates 1 and 2" in str(error.value)
    with pytest.raises(pf.EstimationError, match="estimates 1 and 3"):
        pf.compare(full, full, other)


def test_compare_needs_two(full):
    with pytest.raises(pf.EstimationError, match="at least two"):
        pf.compare(full)


def test_epochs_at_which_agents_enter_are_data(full):
    """With a finite horizon they change what is scored."""
    late = pf.Panel.from_arrays(full.panel.z, full.panel.a, entry=3)
    with pytest.raises(pf.EstimationError, match="epochs"):
        pf.compare(full, bus_fit(late))


def test_a_model_with_hidden_states_beside_one_without():
    """Mileage of two regimes that last: both models are scored on the same rows, one sees it."""
    rng, N, T = np.random.default_rng(2), 40, 22  # of the shape of hidden_panel
    stay, increment = np.array([0.85, 0.95]), np.array([[0.05, 0.15, 0.8], [0.8, 0.15, 0.05]])
    z, a = np.zeros((2, N, T), dtype=int)
    for i in range(N):
        s = int(rng.random() < 0.5)
        for t in range(T):
            a[i, t] = rng.random() < 0.1 + 0.1 * z[i, t]
            if t + 1 < T:
                up = rng.choice(3, p=increment[s])
                z[i, t + 1] = 0 if a[i, t] else min(z[i, t] + up, MODEL.bins - 1)
                s = 0 if a[i, t] else (s if rng.random() < stay[s] else 1 - s)
    panel = pf.Panel.from_arrays(z, a)
    start, known = {"RC": 2.0, "cost": [300.0, 900.0]}, {"stay": stay, "increment": increment}
    hidden = hidden_fit(panel, start=start, fixed=known, starts=1, skip_hessian=True)
    seen = bus_fit(panel, pf.TwoStage())
    table = pf.compare(seen=seen, hidden=hidden)
    assert table.index.tolist() == ["hidden", "seen"]
    assert table.loc["hidden", "observation"] > table.loc["seen", "observation"]
    assert pf.vuong_test(hidden, seen, "bic").statistic > stats.norm.isf(LEVEL)
