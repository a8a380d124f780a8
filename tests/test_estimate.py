"""The result of a fit: numbers that agree with one another, safe tables, predictions."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pomdpfit as pf
from pomdpfit._summary import Summary
from pomdpfit.baselines import MDP, NFXPLikelihood
from small_bus import MODEL, TRUTH, bus_fit, draw_panel
from small_hidden import hidden_fit

ENTRIES = ["RC", "cost", "increment[0]", "increment[1]", "increment[2]"]
FREE = ENTRIES[:-1]
Z975 = 1.959963984540054


@pytest.fixture(scope="module")
def panel():
    return draw_panel(0, agents=80)


@pytest.fixture(scope="module")
def joint(panel):
    return bus_fit(panel)


@pytest.fixture(scope="module")
def staged(panel):
    return bus_fit(panel, pf.TwoStage())


@pytest.fixture(scope="module")
def quick(panel):
    return bus_fit(panel, skip_hessian=True)


@pytest.fixture(scope="module")
def on_bound():
    """An increment that never occurs."""
    rare = draw_panel(3, agents=40, theta=TRUTH | {"increment": np.array([0.4, 0.6, 0.0])})
    with pytest.warns(pf.ConvergenceWarning, match="boundary"):
        return bus_fit(rare)


@pytest.fixture(scope="module")
def ragged():
    panel = draw_panel(5, agents=40, periods=22)  # of the shape of hidden_panel
    lengths = np.append(22, np.random.default_rng(0).integers(3, 23, size=39))
    z = [row[:n] for row, n in zip(panel.z, lengths, strict=True)]
    a = [row[: n - (i % 2)] for i, (row, n) in enumerate(zip(panel.a, lengths, strict=True))]
    panel = pf.Panel.from_arrays(z, a, agents=[f"bus {i}" for i in range(40)])
    return panel.score(choice=np.random.default_rng(1).random(panel.z.shape) < 0.8)


@pytest.fixture(scope="module")
def hidden(ragged):
    """A model with hidden states, known dynamics and three rewards."""
    start = {"RC": 2.0, "cost": [300.0, 900.0]}
    restricted = {"constraints": "cost[bad] = 3 * cost[good]", "skip_hessian": True}
    return hidden_fit(ragged, start=start, starts=1, **restricted)


# ---- names and shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["joint", "staged", "quick"])
def test_every_series_has_the_entries_of_params(which, request):
    est = request.getfixturevalue(which)
    assert est.params.index.tolist() == ENTRIES
    for series in (est.bse, est.tvalues, est.pvalues):
        assert series.index.tolist() == ENTRIES
    assert est.conf_int().index.tolist() == est.to_frame().index.tolist() == ENTRIES
    assert est.conf_int().columns.tolist() == ["lower", "upper"]
    assert est.cov_params().index.tolist() == est.cov_params().columns.tolist() == FREE
    assert est.derived == ("increment[2]",)
    np.testing.assert_array_equal(est.params.to_numpy()[2:], est.theta["increment"])


def test_constraints_show_in_names_and_numbers(hidden):
    assert hidden.params.index.tolist() == ["RC", "cost[good]", "cost[bad]"]
    assert hidden.params["cost[bad]"] == pytest.approx(3 * hidden.params["cost[good]"], rel=1e-12)
    assert len(hidden.cov_params()) == hidden.df_model == 2
    assert hidden.bse["cost[bad]"] == pytest.approx(3 * hidden.bse["cost[good]"], rel=1e-9)
    assert hidden.restrictions == ("cost[bad] = 3 * cost[good]",)
    assert "restrictions: cost[bad] = 3 * cost[good]" in str(hidden.summary())


def test_an_entry_that_is_fixed_is_shown_as_fixed(panel):
    """Neither derived from the others nor, where it is held at zero, found to be on its bound."""
    far = np.diff(panel.z, axis=1, append=0) == 2  # which a value of zero makes impossible
    for value, data in ((0.12, panel), (0.0, panel.exclude_transitions(far))):
        est = bus_fit(data, fixed={"increment[2]": value}, skip_hessian=True)
        assert est.params["increment[2]"] == value
        assert est.status("increment[2]") == "fixed"
        assert est.derived == ("increment[1]",)
        assert not est.on_boundary
        assert est.df_model == 3
        said = str(est.summary())
        assert f"fixed: discount = 0.9, increment[2] = {value:g}" in said
        assert "derived from the others: increment[1]." in said
        assert "restrictions:" not in said
        assert np.isnan(est.bse["increment[2]"])


def test_sizes(joint, panel):
    assert joint.nobs == panel.nobs == panel.score_choice.sum()
    assert joint.df_model == 4
    assert joint.llf_obs.shape == (80, 2)
    assert joint.llf_obs.index.tolist() == list(panel.agents)


# ---- likelihood ---------------------------------------------------------------------------------


def test_likelihood_and_criteria_by_formula(joint, panel):
    ll = NFXPLikelihood(MODEL, panel).terms(joint.theta)
    assert joint.llf == pytest.approx(ll.total, rel=1e-13)
    assert joint.llf_observation == pytest.approx(ll.observation.sum(), rel=1e-13)
    assert joint.llf_choice == pytest.approx(ll.choice.sum(), rel=1e-13)
    assert joint.llf_obs.to_numpy().sum() == pytest.approx(joint.llf, rel=1e-13)
    assert joint.aic == pytest.approx(-2 * joint.llf + 2 * 4, rel=1e-14)
    assert joint.bic == pytest.approx(-2 * joint.llf + 4 * np.log(960), rel=1e-14)


def test_out_of_sample(joint):
    new = draw_panel(9, agents=17, periods=5)
    found = joint.log_likelihood(new)
    expected = NFXPLikelihood(MODEL, new).terms(joint.theta)
    np.testing.assert_array_equal(found.observation, expected.observation)
    np.testing.assert_array_equal(found.choice, expected.choice)
    assert found.choice.shape == (17, 5)
    assert joint.log_likelihood().total == pytest.approx(joint.llf, rel=1e-13)


# ---- uncertainty --------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["joint", "staged", "quick"])
def test_z_p_and_intervals_follow_from_estimate_and_error(which, request):
    est = request.getfixturevalue(which)
    np.testing.assert_allclose(est.tvalues, est.params / est.bse, rtol=1e-14)
    p = 2 * stats.norm.sf(np.abs(est.tvalues))
    np.testing.assert_allclose(est.pvalues[["RC", "cost"]], p[:2], rtol=1e-13)
    # A probability of zero is the end of its range: a normal test of it means nothing.
    assert est.pvalues[ENTRIES[2:]].isna().all()
    interval = est.conf_int()
    np.testing.assert_allclose(interval["upper"] - est.params, Z975 * est.bse, rtol=1e-9)
    np.testing.assert_allclose(est.params - interval["lower"], Z975 * est.bse, rtol=1e-9)
    wide = est.conf_int(alpha=0.01)
    np.testing.assert_allclose(wide["upper"] - est.params, 2.5758293035489 * est.bse, rtol=1e-9)
    frame = est.to_frame(alpha=0.1)
    assert frame.columns.tolist() == [
        "estimate",
        "std err",
        "z",
        "P>|z|",
        "[0.05",
        "0.95]",
        "status",
    ]
    np.testing.assert_allclose(frame["std err"], est.bse, rtol=1e-14)
    np.testing.assert_allclose(frame["[0.05"], est.conf_int(0.1)["lower"], rtol=1e-14)
    assert frame["status"].tolist() == ["free"] * 4 + ["derived"]


@pytest.mark.parametrize("kind", [None, "hessian", "opg", "sandwich"])
def test_derived_entries_have_the_errors_of_the_delta_method(joint, kind):
    """p2 = 1 - p0 - p1: var p2 = v00 + 2 v01 + v11."""
    V = joint.cov_params(kind)
    v = V.loc[FREE[2:], FREE[2:]].to_numpy()
    se = joint.standard_errors(kind)
    assert se["increment[2]"] == pytest.approx(np.sqrt(v.sum()), rel=1e-12)
    np.testing.assert_allclose(se[FREE], np.sqrt(np.diag(V)), rtol=1e-12)


KINDS = [
    ("joint", ["hessian", "opg", "sandwich"]),
    ("staged", ["hessian", "opg", "sandwich", "uncorrected"]),
    ("quick", ["opg"]),
]


@pytest.mark.parametrize(("which", "kind"), [(w, k) for w, kinds in KINDS for k in kinds])
def test_covariances_have_full_rank(which, kind, request):
    est = request.getfixturevalue(which)
    V = est.cov_params(kind)
    assert V.index.tolist() == V.columns.tolist() == FREE
    np.testing.assert_allclose(V, V.T, rtol=1e-8, atol=1e-12 * np.abs(V.to_numpy()).max())
    scale = np.sqrt(np.diag(V))
    assert np.linalg.eigvalsh(V / np.outer(scale, scale)).min() > 1e-3
    # Eighty agents of one law: all kinds estimate the same matrix, to some tens of percent.
    np.testing.assert_allclose(np.log(scale / joint_se(request)), 0, atol=0.5)


def joint_se(request):
    return request.getfixturevalue("joint").bse[FREE].to_numpy()


def test_the_default_kind(joint, staged, quick):
    assert (joint.cov_type, staged.cov_type, quick.cov_type) == ("hessian", "sandwich", "opg")
    for est in (joint, staged, quick):
        pd.testing.assert_frame_equal(est.cov_params(), est.cov_params(est.cov_type))
        se = np.sqrt(np.diag(est.cov_params()))
        np.testing.assert_allclose(est.bse[FREE], se, rtol=1e-12)
        assert f"Covariance:         {est.cov_type}" in str(est.summary())


def test_opg_by_hand(quick, panel):
    """The inverse of the sum of squares of agents' scores, along p2 = 1 - p0 - p1."""
    directions = {
        "RC": np.array([1.0, 0, 0, 0]),
        "cost": np.array([0, 1.0, 0, 0]),
        "increment": np.array([[0, 0, 0], [0, 0, 0], [1, 0, -1], [0, 1, -1.0]]),
    }
    s = NFXPLikelihood(MODEL, panel).push(quick.theta, directions)[1].sum(axis=1)
    np.testing.assert_allclose(quick.cov_params("opg"), np.linalg.inv(s.T @ s), rtol=1e-8)


def test_kinds_that_cannot_be_had_are_refused(joint, quick):
    for kind in ("hc0", "", "Hessian"):
        with pytest.raises(pf.EstimationError, match="there are hessian, opg, sandwich"):
            joint.cov_params(kind)
    with pytest.raises(pf.EstimationError, match="no first stage"):
        joint.cov_params("uncorrected")
    for kind in ("hessian", "sandwich"):
        with pytest.raises(pf.EstimationError, match="skipped the Hessian"):
            quick.cov_params(kind)


def test_skipping_the_hessian_changes_no_estimate_and_is_said(joint, quick):
    np.testing.assert_array_equal(joint.params, quick.params)
    assert quick.converged
    assert "no Hessian was asked for" in quick.reason
    np.testing.assert_array_equal(quick.bse, joint.standard_errors("opg"))


# ---- boundary -----------------------------------------------------------------------------------


def test_what_moves_with_entries_on_the_boundary_alone_has_no_standard_error(on_bound):
    """Where it is on its bound, its error is not normal, and certainly not zero."""
    with pytest.warns(UserWarning, match="p has no .* entries on the boundary alone"):
        found = on_bound.delta_method(lambda th: {"p": th["increment"][2], "RC": th["RC"]})
    assert found["std err"].isna().tolist() == [True, False]
    assert found.loc["RC", "std err"] == pytest.approx(on_bound.bse["RC"])


def test_converged_and_boundary_are_told_apart(joint, on_bound):
    assert on_bound.converged
    assert on_bound.on_boundary
    assert on_bound.boundary == ("increment[2]",)
    assert np.isnan(on_bound.bse["increment[2]"])
    assert on_bound.conf_int().loc["increment[2]"].isna().all()
    assert on_bound.cov_params().index.tolist() == ["RC", "cost", "increment[0]"]
    assert on_bound.df_model == 4  # a parameter on its bound was estimated too
    assert on_bound.status("increment[2]") == "on the boundary"
    for est, answer in ((joint, "no"), (on_bound, "yes")):
        text = str(est.summary())
        assert re.search(r"Converged: +yes", text)
        assert re.search(rf"On the boundary: +{answer}", text)
    assert "These have no standard errors" in str(on_bound.summary())
    assert "--" in str(on_bound.summary())


def test_entries_near_a_bound_are_named(panel):
    """Forty moves with one of them of two bins: 1 / n lies within two errors of zero."""
    z, a = panel.z[:4].copy(), np.zeros((4, 12), dtype=int)
    z[:] = np.minimum(np.arange(12) // 3, 5)
    a[:2, -1] = 1
    z[0, -1] += 1  # from 3 to 4 where the others stay: an increment of one
    z[1, 3:] = np.minimum(z[1, 3:] + 1, 5)  # an increment of two
    small = pf.Panel.from_arrays(z, a)
    est = bus_fit(small, pf.TwoStage(), fixed={"RC": 2.0, "cost": 600.0})
    assert est.near_boundary == ("increment[2]",)
    assert est.conf_int().loc["increment[2]", "lower"] < 0
    assert "near its bound" in est.status("increment[2]")
    assert "near a bound (within two standard errors): increment[2]" in str(est.summary())


# ---- tables -------------------------------------------------------------------------------------

SCRIPT = "<script>alert(1)</script>"
NASTY = "50%_off & #1 ${x}^2~ \\input{secret} |"


class Shop(MDP):
    """Two shelves with labels that no table should trust."""

    P: np.ndarray = eqx.field(default_factory=lambda: np.full((2, 2, 2), 0.5))

    def parameters(self):
        return {
            "gain_%": pf.Parameter([0.5, -0.5], labels=((SCRIPT, NASTY),)),
            "discount": pf.discount_parameter(0.5),
        }

    def transition(self, theta):
        return jnp.asarray(self.P)

    def reward(self, theta):
        gain = jnp.asarray(theta["gain_%"])
        return jnp.stack([gain, jnp.zeros(2)], axis=1)

    def action_labels(self):
        return ("<b>buy</b>", "a_b")


@pytest.fixture(scope="module")
def shop():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, size=(30, 6))
    return pf.fit(Shop(), pf.Panel.from_arrays(z, rng.integers(0, 2, size=(30, 6))))


class Reader(HTMLParser):
    """Tags and text of a page as a browser would take them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text.append(data)


def test_html_escapes_what_users_write(shop):
    page = shop.summary().as_html()
    read = Reader(page)
    assert "script" not in read.tags
    assert "b" not in read.tags
    assert f"gain_%[{SCRIPT}]" in read.text
    assert f"gain_%[{NASTY}]" in read.text
    assert shop.summary()._repr_html_() == page


def test_latex_escapes_what_users_write(shop):
    text = shop.summary().as_latex()
    commands = set(re.findall(r"\\([A-Za-z]+)", text))
    assert "input" not in commands
    assert commands <= {
        "begin",
        "caption",
        "toprule",
        "midrule",
        "bottomrule",
        "multicolumn",
        "end",
        "par",
        "textbar",
        "textbackslash",
        "textasciitilde",
        "textasciicircum",
        "textless",
        "textgreater",
    }
    assert r"gain\_\%[" in text
    for special in "%#$~^":
        assert not re.search(rf"(?<!\\)\{special}", text), special
    # Every row has as many columns as the table: no & came in from a label.
    body = text.split("\\midrule")[1]
    columns = {len(re.findall(r"(?<!\\)&", line)) for line in body.strip().splitlines()}
    assert columns == {7}
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")


@pytest.mark.parametrize("which", ["joint", "staged", "on_bound", "hidden", "shop"])
def test_every_parameter_appears_in_every_form(which, request):
    est = request.getfixturevalue(which)
    summary = est.summary()
    read = "".join(Reader(summary.as_html()).text)
    unescaped = summary.as_latex().replace("\\_", "_").replace("\\%", "%")
    for name in est.params.index:
        assert name in summary.as_text()
        assert name in read
        assert which == "shop" or name in unescaped
    for form in (summary.as_text(), read, summary.as_latex()):
        for fact in ("Converged", "On the boundary", "Covariance", "AIC", "BIC", "Log-likelihood"):
            assert fact in form
        assert type(est.model).__name__ in form
        assert type(est.setting.estimator).__name__ in form
    assert str(est) == str(summary) == repr(summary) == summary.as_text()


def test_a_table_of_many_parameters_is_shown_in_full(joint):
    """Pandas cuts tables of more than sixty rows, and wide cells, unless told otherwise."""
    names = [
        f"gain[a rather long label, and the {k}th of the many that there are]" for k in range(70)
    ]
    table = pd.DataFrame(1.0, names, joint.to_frame().columns)
    summary = Summary("Wide", (("Estimator", "Joint"),), table, ())
    read = "".join(Reader(summary.as_html()).text)
    for name in names:
        assert name in str(summary)
        assert name in read
        assert name in summary.as_latex()


def test_numbers_are_printed_with_digits_that_count(joint):
    text = str(joint.summary())
    assert f"{joint.params['RC']:.4f}" in text
    assert f"{joint.bse['RC']:.4f}" in text
    assert f"{joint.pvalues['RC']:.2e}" in text
    assert f"{joint.llf:,.3f}" in text


def test_repr_is_short(joint, hidden, on_bound):
    for est in (joint, hidden, on_bound):
        assert len(repr(est)) < 1500


# ---- prediction and simulation ------------------------------------------------------------------


@pytest.mark.parametrize("which", ["joint", "hidden"])
def test_predictions_row_by_row(which, request):
    est = request.getfixturevalue(which)
    frame, panel = est.predict(), est.panel
    rows = panel.to_frame()
    pd.testing.assert_frame_equal(frame[["agent", "time", "z", "a"]], rows)
    P = frame[["P(keep)", "P(replace)"]].to_numpy()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-14)
    assert (P > 0).all()
    # The probability of what was chosen is what the likelihood scores.
    acted = frame["a"].notna().to_numpy()
    chosen = P[np.flatnonzero(acted), frame["a"][acted].astype(int)]
    scored = panel.score_choice[panel.present][acted]
    log_choice = est.log_likelihood().choice[panel.present][acted]
    np.testing.assert_allclose(chosen[scored], np.exp(log_choice[scored]), rtol=1e-12)
    np.testing.assert_array_equal(log_choice[~scored], 0)


def test_beliefs_are_those_of_the_filter(hidden, ragged):
    frame = hidden.predict()
    expected = pf.filter_beliefs(hidden.model, hidden.theta, ragged, prior=hidden.setting.prior)
    x = frame[["x(good)", "x(bad)"]].to_numpy()
    np.testing.assert_allclose(x, expected.x[ragged.present], rtol=1e-13)
    np.testing.assert_allclose(x.sum(axis=1), 1, rtol=1e-13)
    assert not any(name.startswith("x(") for name in bus_fit(ragged).predict().columns)


def test_predictions_for_another_panel(hidden):
    new = draw_panel(9, agents=3, periods=4)
    frame = hidden.predict(new)
    assert len(frame) == 12
    ll = hidden.log_likelihood(new)
    chosen = np.where(frame["a"] == 1, frame["P(replace)"], frame["P(keep)"]).astype(float)
    np.testing.assert_allclose(np.log(chosen), ll.choice.ravel(), rtol=1e-10)
    assert "observation" not in frame  # which has no names
    named = dataclasses.replace(new, observation_labels=tuple(range(1, MODEL.bins + 1)))
    told = hidden.predict(named)["observation"]
    assert told.tolist() == [str(z + 1) for z in frame["z"]]


def test_predictions_carry_the_labels_of_the_actions(shop):
    assert shop.predict().columns[-2:].tolist() == ["P(<b>buy</b>)", "P(a_b)"]


@pytest.mark.parametrize("which", ["joint", "hidden"])
def test_simulation_is_reproducible_and_can_be_fitted(which, request):
    est = request.getfixturevalue(which)
    first, again, other = est.simulate(3), est.simulate(3), est.simulate(4)
    np.testing.assert_array_equal(first.z, again.z)
    np.testing.assert_array_equal(first.a, again.a)
    assert not np.array_equal(first.a, other.a)
    np.testing.assert_array_equal(first.present, est.panel.present)
    np.testing.assert_array_equal(first.z[:, 0], est.panel.z[:, 0])
    assert np.isfinite(est.log_likelihood(first).total)


def test_simulated_choices_have_the_predicted_frequency(joint):
    """Given z, choices are draws of their own: a binomial count at each z, at level 1e-4."""
    z, a = [], []
    for seed in range(20):
        made = joint.simulate(seed)
        z.append(made.z.ravel())
        a.append(made.a.ravel())
    z, a = np.concatenate(z), np.concatenate(a)
    frame = joint.predict().drop_duplicates("z").set_index("z")
    for k in range(MODEL.bins):
        found = stats.binomtest(
            int(a[z == k].sum()), int((z == k).sum()), frame.loc[k, "P(replace)"]
        )
        assert found.pvalue > 1e-4


# ---- the record of the search -------------------------------------------------------------------


def test_the_trace_rises_to_the_likelihood(joint):
    trace = joint.trace()
    assert trace["llf"].iloc[-1] == pytest.approx(joint.llf, abs=1e-9)
    assert (np.diff(trace["llf"]) >= -1e-10).all()
    assert joint.modes["llf"].iloc[0] == pytest.approx(joint.llf, abs=1e-9)
    assert joint.starts["mode"].tolist() == [1]


def test_facts_are_plain_values(joint):
    """So that they can be written down anywhere."""
    facts = {name: getattr(joint, name) for name in ("llf", "aic", "bic", "nobs", "df_model")}
    facts |= {name: getattr(joint, name) for name in ("converged", "on_boundary", "seed")}
    assert json.loads(json.dumps(facts)) == facts


def test_a_model_is_needed_for_what_the_model_says(joint):
    bare = dataclasses.replace(joint, setting=dataclasses.replace(joint.setting, model=None))
    assert bare.bse.notna().all()
    assert "RC" in str(bare.summary())
    for ask in (bare.log_likelihood, bare.predict, lambda: bare.simulate(0)):
        with pytest.raises(pf.EstimationError, match="loaded without its model"):
            ask()
    with pytest.raises(pf.EstimationError, match="needs the model"):
        pf.bootstrap(bare, 2)
