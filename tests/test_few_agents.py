"""Fewer agents than twice the parameters: which standard errors there are, and what is said."""

import dataclasses
import re
import warnings

import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit._setting import Setting
from pomdpfit.cli._documents import bootstrap_document, estimate_document
from pomdpfit.report.estimate._estimates import summary_piece
from reference import nfxp
from report_kinds import Kind
from small_bus import MODEL, TRUTH, bus_fit, draw_panel, tables
from small_hidden import ENGINE, hidden_panel
from small_hidden import TRUTH as HIDDEN

FREE = ["RC", "cost", "increment[0]", "increment[1]"]
STEP = np.array([1e-3, 0.3, 1e-4, 1e-4])  # some hundredths of a standard error


@pytest.fixture(autouse=True)
def quiet():
    """What is warned of is asked for by name where it is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.fixture(scope="module")
def panel():
    """Twelve buses over 100 months, of which all, or some, are scored."""
    return draw_panel(0, agents=12, periods=100)


def only(panel, agents, **parts):
    """The panel with these agents scored, in both parts or in those that are named."""
    mask = np.zeros(panel.z.shape, dtype=bool)
    mask[:agents] = True
    return panel.score(**({name: mask for name in parts} or {"choice": mask, "observation": mask}))


@pytest.fixture(scope="module")
def one():
    """The issue's case: one agent, 400 periods."""
    return bus_fit(draw_panel(0, agents=1, periods=400), pf.TwoStage())


@pytest.fixture(scope="module")
def two(panel):
    return bus_fit(only(panel, 2), pf.TwoStage())


@pytest.fixture(scope="module")
def seven(panel):
    return bus_fit(only(panel, 7), pf.TwoStage())


@pytest.fixture(scope="module")
def eight(panel):
    """Twice as many as free parameters."""
    return bus_fit(only(panel, 8), pf.TwoStage())


# ---- an independent reference ------------------------------------------------------------------


def likelihoods(panel, x):
    """Both parts of the log-likelihood at (RC, cost, p0, p1), by plain numpy."""
    increment = [x[2], x[3], 1 - x[2] - x[3]]
    P, r = tables(MODEL.bins, increment, x[0], lambda z: 0.001 * x[1] * z)
    choice = nfxp.solve_mdp(P, r, 0.9)[2]
    i, t = np.nonzero(panel.score_choice)
    chosen = np.log(choice[panel.z[i, t], panel.a[i, t]]).sum()
    i, t = np.nonzero(panel.score_observation)
    return np.array([np.log(P[panel.z[i, t], panel.a[i, t], panel.z[i, t + 1]]).sum(), chosen])


def murphy_topel(est):
    """V1 and V2 + V2 C V1 C' V2, from second differences of the two parts."""
    x = est.params[FREE].to_numpy()
    at = lambda j, k, a, b: likelihoods(est.panel, x + STEP * (a * np.eye(4)[j] + b * np.eye(4)[k]))
    H = np.zeros((2, 4, 4))
    for j in range(4):
        for k in range(4):
            sums = at(j, k, 1, 1) - at(j, k, 1, -1) - at(j, k, -1, 1) + at(j, k, -1, -1)
            H[:, j, k] = sums / (4 * STEP[j] * STEP[k])
    V1, V2 = np.linalg.inv(-H[0, 2:, 2:]), np.linalg.inv(-H[1, :2, :2])
    C = -H[1, :2, 2:]
    V = np.zeros((4, 4))
    V[2:, 2:], V[:2, :2] = V1, V2 + V2 @ C @ V1 @ C.T @ V2
    V[:2, 2:] = -V2 @ C @ V1
    V[2:, :2] = V[:2, 2:].T
    return V


# Steps of some hundredths of a standard error: squares of these times third and fourth
# derivatives, and estimates within 1e-4 standard errors of the maximum.
CLOSE = 2e-3


@pytest.mark.parametrize("which", ["one", "two", "seven"])
def test_the_default_is_murphy_and_topel_below_two_agents_a_parameter(which, request):
    """One agent's sandwich gives RC an error of 1e-5; second derivatives give .28."""
    est = request.getfixturevalue(which)
    assert est.converged
    V = murphy_topel(est)
    se = np.sqrt(np.diag(V))
    assert est.cov_type == "hessian"
    np.testing.assert_allclose(
        est.cov_params() / np.outer(se, se), V / np.outer(se, se), atol=CLOSE
    )
    np.testing.assert_allclose(est.bse[FREE], se, rtol=CLOSE)
    np.testing.assert_allclose(est.standard_errors()[FREE], se, rtol=CLOSE)
    np.testing.assert_allclose(est.to_frame().loc[FREE, "std err"], se, rtol=CLOSE)
    np.testing.assert_allclose(est.tvalues[FREE], est.params[FREE] / se, rtol=CLOSE)
    half = est.conf_int()["upper"] - est.params
    np.testing.assert_allclose(half[FREE], 1.959964 * se, rtol=CLOSE)
    ratio = est.delta_method(lambda th: {"ratio": th["RC"] / th["cost"]})
    slope = np.array([1 / est.params["cost"], -est.params["RC"] / est.params["cost"] ** 2, 0, 0])
    assert ratio.loc["ratio", "std err"] == pytest.approx(np.sqrt(slope @ V @ slope), rel=CLOSE)
    wald = est.wald_test("RC = 1")
    assert wald.statistic == pytest.approx((est.params["RC"] - 1) ** 2 / V[0, 0], rel=2 * CLOSE)


def test_one_agents_sandwich_is_the_search_s_last_gradient(one):
    """What the first release printed: below 1e-4, where second derivatives give a fraction."""
    sandwich = one.standard_errors("sandwich")
    assert sandwich["RC"] < 1e-4
    assert 0.2 < one.bse["RC"] < 0.6
    assert one.bse["RC"] > 1e3 * sandwich["RC"]


@pytest.mark.full
def test_the_default_errors_of_one_agent_are_the_spread_of_its_estimates():
    """Over 60 panels of one agent: a standard deviation is known to 9 %, here within three times
    that; the share of intervals that hold the truth is 95 % but for three times 2.8 %."""
    fits = [bus_fit(draw_panel(s, agents=1, periods=400), pf.TwoStage()) for s in range(60)]
    fits = [est for est in fits if est.converged and not est.on_boundary]
    assert len(fits) > 56
    truth = np.array([TRUTH["RC"], TRUTH["cost"], *TRUTH["increment"][:2]])
    found = np.array([est.params[FREE] for est in fits])
    se = np.array([est.bse[FREE] for est in fits])
    np.testing.assert_allclose(np.median(se, axis=0) / found.std(axis=0), 1, atol=0.28)
    held = (np.abs(found - truth) <= 1.96 * se).mean(axis=0)
    assert (held > 0.86).all()


def test_as_many_as_twice_the_parameters_keep_the_sandwich(eight):
    assert eight.panel.agent_count == 12  # of whom four have no scored rows
    assert eight.cov_type == "sandwich"
    np.testing.assert_array_equal(eight.bse, eight.standard_errors("sandwich"))


def test_a_joint_estimate_has_its_hessian_whatever_the_number(panel):
    est = bus_fit(only(panel, 2))
    assert est.cov_type == "hessian"
    assert est.covariance_notes() == ()


# ---- who counts --------------------------------------------------------------------------------


def test_agents_without_scored_rows_do_not_count(panel, seven):
    """Nor do they change anything: as if they were not there."""
    alone = bus_fit(panel.take(range(7)), pf.TwoStage())
    assert seven.cov_type == alone.cov_type == "hessian"
    assert (seven.panel.agent_count, seven.panel.scored_agents) == (12, 7)
    np.testing.assert_allclose(seven.bse, alone.bse, rtol=1e-6)
    assert seven.covariance_notes() == alone.covariance_notes() != ()


def test_a_stage_with_few_agents_counts_by_itself(panel):
    """All transitions are scored, but the choices of three agents, for two parameters."""
    est = bus_fit(only(panel, 3, choice=True), pf.TwoStage())
    assert est.cov_type == "hessian"
    assert est.panel.scored_agents == 12
    assert "3 agents with scores for 2 free parameters (RC, cost)" in str(est.summary())


@pytest.fixture(scope="module")
def hidden():
    """Estimates written down, of two stages: rewards with a known Hessian and given scores."""
    panel = hidden_panel()
    est = Kind(ENGINE, panel, HIDDEN).written_down()
    information = dataclasses.replace(
        est.information,
        scores=np.random.default_rng(0).normal(size=(40, 2, 3)),
        hessian=-np.diag([25.0, 1e-4, 4e-5]),
        first=np.zeros(3, dtype=bool),
    )

    def at(agents, scores=None):
        mask = np.arange(40)[:, None] < np.full(panel.z.shape[1], agents)
        scored = panel.score(choice=mask, observation=mask)
        setting = Setting(ENGINE, scored, est.setting.prior, est.setting.grid, None, pf.TwoStage())
        found = dataclasses.replace(
            information,
            scores=(information.scores if scores is None else scores) * mask[:, :1, None],
        )
        return dataclasses.replace(est, setting=setting, information=found)

    return at


def test_a_group_of_one_agent_has_no_clustered_errors_of_its_own(hidden):
    """Scores of a parameter that only one agent of forty has: their sum is zero at a maximum."""
    assert hidden(40).cov_type == "sandwich"
    scores = hidden(40).information.scores.copy()
    scores[1:, :, 0] = 0.0
    est = hidden(40, scores)
    assert est.cov_type == "hessian"
    assert "1 agent with scores for 1 free parameter (RC)" in est.covariance_notes()[0]


# ---- what is said ------------------------------------------------------------------------------


def plain(text):
    """Without the breaks of lines."""
    return re.sub(r"\s+", " ", str(text))


def test_the_summary_says_so(one, two, eight):
    text = plain(one.summary())
    assert "Covariance: hessian" in text
    assert "1 agent with scored rows for 4 free parameters" in text
    assert "Murphy and Topel" in text
    assert "2 agents with scored rows for 4 free parameters" in plain(two.summary())
    for est in (one, two):
        assert "Murphy and Topel" in str(est.wald_test("RC = 2"))
        assert any(
            "Murphy and Topel" in note for note in estimate_document(est)["covariance_notes"]
        )
    text = plain(eight.summary())
    assert "Covariance: sandwich" in text
    assert "clustered by agent" in text
    assert "unreliable below 30 agents" in text


def test_forty_agents_need_no_word(hidden):
    assert hidden(40).covariance_notes() == hidden(30).covariance_notes() == ()
    assert "below 30" in hidden(29).covariance_notes()[0]


@pytest.mark.parametrize(
    "read",
    [
        lambda est: est.bse,
        lambda est: est.cov_params(),
        lambda est: est.standard_errors(),
        lambda est: est.conf_int(),
        lambda est: est.to_frame(),
        lambda est: est.delta_method(lambda th: th["RC"]),
    ],
)
def test_tables_without_room_for_words_warn(two, read):
    fresh = dataclasses.replace(two)  # nothing was read of it before
    with pytest.warns(UserWarning, match="2 agents with scored rows for 4 free parameters"):
        read(fresh)


@pytest.mark.parametrize("kind", ["sandwich", "opg"])
def test_what_is_asked_for_is_given_with_a_warning(seven, kind):
    with pytest.warns(UserWarning, match="7 agents with scored rows for 4 free parameters, fewer"):
        se = seven.standard_errors(kind)
    moments, A = seven.information.moments, -seven.information.hessian
    if kind == "sandwich":
        by_hand = np.linalg.inv(A) @ moments.T @ moments @ np.linalg.inv(A).T
        np.testing.assert_allclose(se[FREE], np.sqrt(np.diag(by_hand)), rtol=1e-9)
    assert "unreliable" in plain(seven.summary(kind=kind))
    assert "unreliable" in seven.wald_test("RC = 2", kind=kind).note


def test_a_report_says_so(two):
    piece = summary_piece(two)
    table, notes = piece.section.blocks
    assert "Covariance: hessian" in table.note
    for said in (piece.findings, notes.items):
        assert any("2 agents with scored rows for 4 free parameters" in line for line in said)


def test_saved_and_loaded_it_says_the_same(two, tmp_path):
    two.save(tmp_path / "two.zip")
    loaded = pf.load(tmp_path / "two.zip")
    assert loaded.cov_type == "hessian"
    np.testing.assert_array_equal(loaded.bse, two.bse)
    assert loaded.covariance_notes() == two.covariance_notes() != ()


# ---- no standard errors ------------------------------------------------------------------------


def test_outer_products_of_no_more_agents_than_parameters_have_a_reason(one, two):
    """A bare NaN, or what rounding makes of a singular matrix, in the first release."""
    for est in (one, two):
        table = est.summary(kind="opg")
        assert table.table["std err"].isna().all()
        assert table.table["status"].str.contains("no std err: too few agents").all()
        assert "outer products of their scores are singular" in plain(table)
        test = est.wald_test("RC = 2", kind="opg")
        assert np.isnan(test.statistic)
        assert "too few agents" in test.note
        with pytest.warns(UserWarning, match="RC has no standard error: too few agents"):
            est.delta_method(lambda th: {"RC": th["RC"]}, kind="opg")


def test_without_a_hessian_the_default_says_what_to_do(panel):
    """Two agents for two rewards, and for two increments: singular in each stage."""
    est = bus_fit(only(panel, 2), pf.TwoStage(), skip_hessian=True)
    assert est.cov_type == "opg"
    assert est.bse.isna().all()
    text = plain(est.summary())
    assert "Fit again without skip_hessian=True" in text
    assert "weak direction" not in text  # which such a matrix has whatever the data
    with pytest.raises(pf.EstimationError, match="skip_hessian"):
        pf.weak_directions(est)


def test_priors_of_agents_are_the_reason_where_they_are(hidden):
    est = dataclasses.replace(hidden(40), incidental=40)
    assert est.bse.isna().all()
    assert est.status("RC") == "free, no std err: each agent's prior was estimated"
    with pytest.raises(pf.EstimationError, match="each agent's prior was estimated"):
        pf.counterfactual(est, {"RC": 3.0}, z0=0, draws=0)


def test_a_hessian_that_is_not_that_of_a_maximum_is_the_reason(hidden):
    est = hidden(40)
    information = dataclasses.replace(est.information, hessian=np.diag([25.0, -1e-4, -4e-5]))
    est = dataclasses.replace(est, information=information)
    assert np.isnan(est.standard_errors("hessian")["RC"])
    status = est.to_frame(kind="hessian").loc["RC", "status"]
    assert status == "free, no std err: its variance is not positive"


def test_a_wald_test_with_more_restrictions_than_agents_has_no_statistic(two):
    """The sandwich of two agents has rank one: its inverse would be rounding alone."""
    found = two.wald_test(["RC = 2", "cost = 600", "increment[0] = .3"], kind="sandwich")
    assert np.isnan(found.statistic)
    assert np.isnan(found.pvalue)
    assert "singular" in found.note


# ---- siblings ----------------------------------------------------------------------------------


def test_a_score_test_of_few_agents_is_refused(panel):
    """With as many agents as parameters the statistic is their number, whatever the data."""
    for agents in (2, 4):
        est = bus_fit(only(panel, agents), fixed={"RC": 2.0})
        with pytest.raises(pf.EstimationError, match=r"more agents than parameters.*likelihood_ra"):
            pf.score_test(est)
    assert "unreliable" in pf.score_test(bus_fit(panel, fixed={"RC": 2.0})).note


def test_vuong_s_test_leaves_out_who_has_no_scored_rows(panel):
    """sum d / (sqrt(N) sd(d)) of seven agents, not of twelve with five zeros."""
    part = only(panel, 7)
    first, second = (bus_fit(part, fixed={"increment": [p, 0.5, 0.5 - p]}) for p in (0.3, 0.25))
    d = (first.llf_obs - second.llf_obs).sum(axis=1).to_numpy()[:7]
    found = pf.vuong_test(first, second)
    assert found.statistic == pytest.approx(d.sum() / np.sqrt(7) / d.std(), rel=1e-9)
    assert "unreliable with 7 agents" in found.note


def test_a_chi_square_test_of_few_agents_uses_second_derivatives(one):
    """It was refused: their outer product cannot give the information on the increments."""
    found = pf.chi_square_test(one, [0, 3]).test
    assert 0.001 < found.pvalue < 1.0
    assert found.df == 2


def test_a_bootstrap_draws_those_who_are_scored(one, two, tmp_path):
    with pytest.raises(pf.EstimationError, match=r"at least 2 agents.*parametric=True"):
        pf.bootstrap(one, 2)
    with pytest.warns(UserWarning, match="unreliable below 30 agents"):
        found = pf.bootstrap(two, 12, seed=0)
    # One of them twice, the other twice, or each once.
    distinct = found.used.round(5).drop_duplicates()
    assert len(found.failed) == 0
    assert len(distinct) == 3
    assert "below 30 agents" in plain(found.summary())
    assert any("below 30 agents" in note for note in bootstrap_document(found)["notes"])
    found.save(tmp_path / "draws.json")
    assert "below 30 agents" in plain(pf.Bootstrap.load(tmp_path / "draws.json").summary())


def test_a_study_says_which_errors_its_fits_reported():
    options = {"replications": 2, "information": 0, "seed": 0, "estimator": pf.TwoStage()}
    found = pf.design(MODEL, TRUTH, agents=[2], periods=[200], **options)
    assert any("N = 2, T = 200 (2 of 2 replications)" in note for note in found.notes)
    assert "Murphy and Topel" in plain(found.summary())
    # A share of 400 draws, but for those after a replacement: by the binomial's own error.
    se = found.errors["increment[0]"].to_numpy()
    np.testing.assert_allclose(se, np.sqrt(0.3 * 0.7 / 330), rtol=0.25)
