"""The set of estimates that an unknown prior allows."""

import matplotlib as mpl

mpl.use("Agg")
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pomdpfit as pf
import small_hidden
from pomdpfit import plots
from pomdpfit.identification.priors._prior_fits import scored_periods

ENGINE = pf.models.EngineReplacement(bins=12, increments=3, discount=0.8)
TRUTH = {
    "RC": 3.0,
    "cost": np.array([50.0, 400.0]),
    "stay": np.array([0.85, 0.9]),
    "increment": np.array([[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]]),
    "discount": 0.8,
}
REWARDS = {"RC": TRUTH["RC"], "cost": TRUTH["cost"]}
GRID = pf.Linear(5)  # dynamics do not depend on it, and it compiles fast


class Coin(pf.Model):
    """Two coins, one of them tossed for ever: heads with probability p or q, q known."""

    def parameters(self):
        return {
            "p": pf.Parameter(0.6, pf.Interval()),
            "q": pf.Parameter(0.2, pf.Interval(), fixed=True),
            "discount": pf.discount_parameter(0.9),
        }

    def kernel(self, theta):
        heads = jnp.array([theta["p"], theta["q"]])
        law = jnp.stack([1 - heads, heads], axis=1)  # [s, z']
        table = jnp.einsum("sk,st->skt", law, jnp.eye(2))
        return pf.dense_kernel(jnp.broadcast_to(table[None, :, None], (2, 2, 1, 2, 2)))

    def reward(self, theta):
        return np.zeros((2, 2, 1))


def tossed(heads, agents):
    z = np.zeros((agents, 2), dtype=int)
    z[:heads, 1] = 1
    return pf.Panel.from_arrays(z, np.zeros((agents, 1), dtype=int))


def test_the_range_of_one_toss_is_that_of_the_closed_form():
    """f = x0 p + (1 - x0) q has the solution p = (f - (1 - x0) q) / x0; at x0 = 0 none."""
    heads, agents, q = 90, 300, 0.2
    x0 = np.array([1.0, 0.8, 0.5, 0.25, 0.0])
    beliefs = np.stack([x0, 1 - x0], axis=1)
    found = pf.prior_set(
        Coin(), tossed(heads, agents), pf.TwoStage(), beliefs=beliefs, beside=(), grid=GRID
    )
    inside = x0[:-1]
    expected = (heads / agents - (1 - inside) * q) / inside
    rows = found.estimates
    np.testing.assert_allclose(rows["p"][:-1], expected, atol=1e-5)  # the climb's tolerance
    assert rows["converged"].tolist() == [True] * 4 + [False]
    assert "p" in rows["reason"].iloc[-1]
    assert "do not identify" in rows["reason"].iloc[-1]
    only = found.ranges.loc[(2, "p")]
    np.testing.assert_allclose([only["lowest"], only["highest"]], expected[[0, -1]], atol=1e-5)
    assert (only["x0 at lowest"], only["x0 at highest"]) == ("(1, 0)", "(0.25, 0.75)")
    assert (only["fits"], only["left out"]) == (4, 1)
    np.testing.assert_allclose(
        found.sizes.loc[2, "dynamics"], expected[-1] - expected[0], atol=2e-5
    )
    # One toss says nothing about x0: every x0 that fits explains it equally well.
    region = found.region()
    f = heads / agents
    best = heads * np.log(f) + (agents - heads) * np.log(1 - f)
    np.testing.assert_allclose(region["llf_observation"][:-1], best, atol=1e-6)
    assert region["within"].tolist()[:-1] == [True] * 4
    # At x0 = 0 the coin q alone is tossed. The fit did not converge (p is not there to be found):
    # its likelihood, which is known, rejects x0, but a fit that did not converge never may.
    there = heads * np.log(q) + (agents - heads) * np.log(1 - q)
    np.testing.assert_allclose(region["2 (best - llf)"].iloc[-1], 2 * (best - there), rtol=1e-6)
    assert region["2 (best - llf)"].iloc[-1] > stats.chi2.ppf(0.95, 1)
    assert region["within"].isna().tolist() == [False] * 4 + [True]
    text = found.summary().as_text()
    assert "4 of 5 assumed x0 lie within the 95 %" in text.replace("\n  ", " ")
    assert "not converged, in `estimates` but not in the ranges: (0, 1) with 2" in text


def test_lengths_priors_and_what_is_skipped_are_those_of_the_closed_form():
    """With x0 = (1, 0) the estimate is the share of heads among the tosses that are scored."""
    z = np.random.default_rng(0).random((60, 5)) < 0.6
    panel = pf.Panel.from_arrays(z.astype(int), np.zeros((60, 4), dtype=int))
    sure, heard = pf.KnownPrior([1.0, 0.0]), []
    options = {"beliefs": [[1.0, 0.0], [0.9, 0.1]], "known": sure, "grid": GRID}
    found = pf.prior_set(
        Coin(),
        panel,
        pf.TwoStage(),
        periods=[4, 2],
        beside=(pf.CommonPrior(),),
        progress=lambda what, done, of: heard.append((done, of)),
        **options,
    )
    assert heard == [(k, 8) for k in range(1, 9)]  # two lengths, of four fits each
    assert found.periods == [2, 4]
    rows = found.estimates.set_index(["periods", "prior"])
    for periods in (2, 4):
        share = z[:, 1 : periods + 1].mean()
        for prior in ("known", "(1, 0)"):
            assert rows.loc[(periods, prior), "p"] == pytest.approx(share, abs=1e-5)
        assumed = rows.loc[periods].query("kind == 'assumed'")["llf_observation"].max()
        assert rows.loc[(periods, "CommonPrior"), "llf_observation"] > assumed - 1e-8
    later = pf.prior_set(
        Coin(), panel, pf.TwoStage(), periods=4, skip=2, beside=(), **options
    ).estimates
    assert later["p"].iloc[0] == pytest.approx(z[:, 3:].mean(), abs=1e-5)


def engine_panel(agents, periods, seed=0):
    """Each engine has an x0 of its own; the two conditions are easily told apart."""
    rng = np.random.default_rng(seed)
    good = rng.uniform(size=agents)
    prior = pf.KnownPrior(np.stack([good, 1 - good], axis=1))
    z0 = rng.integers(0, 12, size=agents)
    panel = pf.simulate(
        ENGINE, TRUTH, agents=agents, periods=periods, seed=seed, prior=prior, z0=z0, grid=GRID
    )
    return panel, prior


@pytest.fixture(scope="module")
def figure_2():
    """A small Figure 2: dynamics alone, which need no solution of the Bellman equation."""
    panel, prior = engine_panel(400, 17)
    heard = []
    found = pf.prior_set(
        ENGINE,
        panel,
        pf.TwoStage(),
        beliefs=3,
        periods=[16, 4, 8],
        known=prior,
        beside=(),
        start={name: TRUTH[name] for name in ("stay", "increment")},
        fixed=REWARDS,
        grid=GRID,
        progress=lambda what, done, of: heard.append((done, of)),
    )
    return found, panel, prior, heard


@pytest.mark.full
def test_figure_2_falls_with_the_number_of_periods(figure_2):
    found, _, _, heard = figure_2
    assert heard == [(k, 12) for k in range(1, 13)]  # three lengths, of four fits each
    assert found.periods == [4, 8, 16]
    truth = ENGINE.space().to_series(TRUTH)
    points = found.deviations(truth=truth)
    assumed = points[(points["kind"] == "assumed") & points["converged"]]
    worst = assumed.groupby("periods")["dynamics: from known x0"].max()
    assert worst.index.tolist() == [4, 8, 16]
    assert (np.diff(worst) < 0).all()
    # A wrong x0 sits in the first terms alone: its pull is O(1), the information O(T).
    assert 0.25 < worst[16] / worst[8] < 0.75
    assert (np.diff(found.sizes["dynamics"]) < 0).all()
    # The middle of the simplex is the mean of the true x0: nearer than its ends.
    at_8 = assumed[assumed["periods"] == 8].set_index("prior")["dynamics: from known x0"]
    assert at_8["(0.5, 0.5)"] == at_8.min()


@pytest.mark.full
def test_periods_that_only_forget_save_most_of_the_deviation(figure_2):
    """Terms scored while x0 still matters are what moves the estimate."""
    found, panel, prior, _ = figure_2
    later = pf.prior_set(
        ENGINE,
        panel,
        pf.TwoStage(),
        beliefs=3,
        periods=16,
        skip=8,
        known=prior,
        beside=(),
        start={name: TRUTH[name] for name in ("stay", "increment")},
        fixed=REWARDS,
        grid=GRID,
    )
    assert later.estimates["converged"].all()
    # Beliefs differ by less than a tenth after 8 periods in the median agent (of two vertices).
    forgotten = pf.forgetting(ENGINE, TRUTH, panel).curve["TV median"][8]
    assert forgotten < 0.1
    assert later.sizes.loc[16, "dynamics"] < 0.5 * found.sizes.loc[16, "dynamics"]


def test_cutting_a_panel_by_masks_is_cutting_it():
    panel = small_hidden.hidden_panel()
    means = {"prior": small_hidden.PRIOR, "grid": small_hidden.GRID}
    model, theta = small_hidden.ENGINE, small_hidden.TRUTH
    ll = lambda p: pf.log_likelihood(model, theta, p, **means).by_agent
    short = pf.Panel.from_arrays(panel.z[:, :5], panel.a[:, :4])
    np.testing.assert_allclose(ll(scored_periods(panel, 4)), ll(short), rtol=1e-9)
    # What is skipped is what a shorter cut has.
    rest = ll(scored_periods(panel, 9, skip=4)) + ll(scored_periods(panel, 4))
    np.testing.assert_allclose(ll(scored_periods(panel, 9)), rest, rtol=1e-9)


@pytest.mark.full
def test_each_row_is_the_fit_that_it_names(figure_2):
    found, panel, prior, _ = figure_2
    longest = scored_periods(panel, 16)
    names = list(found.groups["dynamics"])
    start = {name: TRUTH[name] for name in ("stay", "increment")}
    for kind, one in (("known", prior), ("assumed", pf.KnownPrior(np.full((400, 2), 0.5)))):
        alone = pf.fit(
            ENGINE,
            longest,
            pf.TwoStage(),
            prior=one,
            start=start,
            starts=1,
            fixed=REWARDS,
            grid=GRID,
            skip_hessian=True,
        )
        rows = found.estimates[(found.estimates["periods"] == 16)]
        rows = rows[(rows["kind"] == kind) & rows["prior"].isin(["known", "(0.5, 0.5)"])]
        np.testing.assert_allclose(rows[names].iloc[0], alone.params[names], atol=1e-9)
        np.testing.assert_allclose(rows["llf"].iloc[0], alone.llf, atol=1e-6)


@pytest.mark.full
def test_deviations_are_two_norms_between_rows(figure_2):
    found = figure_2[0]
    points = found.deviations({"moves": ["stay[good]", "stay[bad]"]})
    row = points[(points["periods"] == 8) & (points["prior"] == "(1, 0)")].iloc[0]
    rows = found.estimates[found.estimates["periods"] == 8].set_index("prior")
    gap = [rows.loc["(1, 0)", n] - rows.loc["known", n] for n in ("stay[good]", "stay[bad]")]
    np.testing.assert_allclose(row["moves: from known x0"], np.hypot(*gap), rtol=1e-12)


def by_hand(rows, **options):
    """A set whose numbers are written down: one parameter, two periods, two hidden states."""
    columns = ["periods", "kind", "prior", "x0(a)", "x0(b)", "p", "llf", "converged"]
    frame = pd.DataFrame(rows, columns=columns).assign(reason="")
    frame["llf_observation"] = frame["llf"] / 2
    facts = {"estimator": "Joint", "by_stages": False, "agents": 9, "skip": 0, "seed": 0}
    return pf.PriorSet(frame, {"dynamics": ("p",)}, ("a", "b"), **(facts | options))


ROWS = [
    (2, "assumed", "(1, 0)", 1.0, 0.0, 0.1, -103.0, True),
    (2, "assumed", "(0.5, 0.5)", 0.5, 0.5, 0.4, -101.5, True),
    (2, "assumed", "(0.2, 0.8)", 0.2, 0.8, 0.5, -101.0, False),
    (2, "assumed", "(0, 1)", 0.0, 1.0, 0.9, -104.0, False),
    (2, "beside", "CommonPrior", 0.4, 0.6, 0.45, -100.0, True),
]


def test_the_region_of_x0_is_a_likelihood_ratio():
    """chi-square with one degree: 3.84. Twice the distances are 6, 3, 2, 8 and 0."""
    found = by_hand(ROWS)
    region = found.region()
    assert region["2 (best - llf)"].tolist() == [6, 3, 2, 8, 0]
    # What did not converge may be within, but is not rejected.
    assert region["within"].tolist() == [False, True, True, pd.NA, True]
    assert found.region(0.99)["within"].iloc[0]  # 6.63
    # Ranges: of fits that converged; over all assumed, and over those within.
    assert found.ranges.loc[(2, "p"), ["lowest", "highest", "fits", "left out"]].tolist() == [
        *(0.1, 0.4),
        *(2, 2),
    ]
    assert found.likely_ranges().loc[(2, "p"), ["lowest", "highest"]].tolist() == [0.4, 0.45]
    # After two stages the dynamics maximise the observations' part, which is half of it here.
    halved = by_hand(ROWS, by_stages=True).region()
    assert halved["2 (best - llf)"].tolist() == [3, 1.5, 1, 4, 0]
    with pytest.raises(pf.EstimationError, match="level"):
        found.region(95)
    with pytest.raises(pf.EstimationError, match="no parameter 'RC'"):
        found.deviations({"mine": ["RC"]})
    text = found.summary().as_text().replace("\n  ", " ")
    assert "2 of 4 assumed x0 lie within" in text
    assert "(1 left open by fits that did not converge)" in text
    assert "beside: CommonPrior, log-likelihood -100.00, x0 = (0.400, 0.600)" in text


@pytest.mark.full
def test_pictures_show_the_points(figure_2):
    found = figure_2[0]
    (ax,) = plots.prior_set(found, truth=ENGINE.space().to_series(TRUTH))
    labels = [line.get_label() for line in ax.lines]
    assert labels[-1] == "x0 known, from the truth"
    worst = ax.lines[labels.index("largest")]
    points = found.deviations()
    points = points[points["converged"] & (points["kind"] == "assumed")]
    expected = points.groupby("periods")["dynamics: from known x0"].max()
    np.testing.assert_allclose(worst.get_ydata(), expected)
    ax = plots.prior_ranges(found, "stay[good]", truth=0.85)
    assert ax.get_ylabel() == "stay[good]"


def test_deviations_are_two_norms_and_are_drawn():
    known = (2, "known", "known", np.nan, np.nan, 0.3, -101.0, True)
    frame = by_hand([*ROWS[:2], known]).estimates.assign(q=[0.7, 0.2, 0.5])
    facts = {"estimator": "Joint", "by_stages": False, "agents": 9, "skip": 0, "seed": 0}
    found = pf.PriorSet(frame, {"dynamics": ("p", "q")}, ("a", "b"), **facts)
    points = found.deviations().set_index("prior")["dynamics: from known x0"]
    expected = [np.hypot(0.2, 0.2), np.hypot(0.1, 0.3)]
    np.testing.assert_allclose(points[["(1, 0)", "(0.5, 0.5)"]], expected, rtol=1e-12)
    (ax,) = plots.prior_set(found)
    worst = next(line for line in ax.lines if line.get_label() == "largest")
    np.testing.assert_allclose(worst.get_ydata(), max(expected))
    assert plots.prior_ranges(found, "p").get_ylabel() == "p"


def test_without_a_known_prior_the_most_likely_x0_is_the_reference():
    x0 = np.array([[1.0, 0.0], [0.5, 0.5]])
    found = pf.prior_set(Coin(), tossed(70, 300), pf.TwoStage(), beliefs=x0, beside=(), grid=GRID)
    assert not found.has_known
    points = found.deviations()
    assert points["dynamics: from most likely x0"].min() == 0
    expected = 70 / 300 - (70 / 300 - 0.5 * 0.2) / 0.5
    np.testing.assert_allclose(
        points["dynamics: from most likely x0"].max(), abs(expected), atol=1e-5
    )


def test_what_cannot_be_fitted_is_refused_before_anything_is(monkeypatch):
    monkeypatch.setattr("pomdpfit.identification.priors._prior_fits.fit", _never)
    panel = pf.Panel.from_arrays([[0, 1, 2, 3, 4]] * 3, [[0, 0, 0, 0]] * 3)
    refusals = [
        ({"estimator": pf.TwoStage(), "beside": (pf.AgentPriors(),)}, "Use pf.Joint"),
        ({"estimator": pf.TwoStage(), "beside": (pf.StationaryPrior(),)}, "Use pf.Joint"),
        ({"periods": [4, 9]}, "at most 5"),
        ({"periods": 2, "skip": 2}, "above skip=2"),
        ({"beliefs": 1}, "at least 2"),
    ]
    for options, told in refusals:
        with pytest.raises(pf.EstimationError, match=told):
            pf.prior_set(ENGINE, panel, **options)
    with pytest.raises(pf.ModelError, match="rows of 2 probabilities"):
        pf.prior_set(ENGINE, panel, beliefs=[0.5, 0.5])
    alone = pf.models.EngineReplacement(bins=12, increments=3, discount=0.8, conditions=1)
    with pytest.raises(pf.EstimationError, match="only one prior"):
        pf.prior_set(alone, panel)


def _never(*args, **kwargs):
    raise AssertionError("a fit was begun")


@pytest.mark.full
def test_all_rules_for_x0_stand_beside_the_set():
    """Joint likelihood: common, one for each agent, stationary; the richer the higher."""
    panel, prior = engine_panel(60, 10)
    found = pf.prior_set(
        ENGINE,
        panel,
        beliefs=[[0.5, 0.5]],
        known=prior,
        beside=(pf.CommonPrior(), pf.AgentPriors(), pf.StationaryPrior()),
        start=TRUTH,
        grid=pf.Smooth(7),
    )
    rows = found.estimates.set_index("prior")
    assert rows["llf"]["AgentPriors"] > rows["llf"]["CommonPrior"] > rows["llf"]["(0.5, 0.5)"]
    assert np.isfinite(rows["llf"]["StationaryPrior"])
    assert np.isfinite(rows.loc["AgentPriors", found.x0_columns].astype(float)).all()
    assert found.summary().as_text().count("beside:") == 3


@pytest.mark.full
def test_processes_change_nothing():
    panel, prior = engine_panel(60, 9)
    options = {"beliefs": 2, "periods": [4, 8], "known": prior, "start": TRUTH, "grid": GRID}
    alone, two = (
        pf.prior_set(ENGINE, panel, pf.TwoStage(), **options, fixed=REWARDS, n_jobs=n)
        for n in (1, 2)
    )
    pd.testing.assert_frame_equal(alone.estimates, two.estimates)


@pytest.mark.study
def test_table_1_with_eight_periods():
    """The paper: dynamics within 0.1 of the truth. So they are, but not from the simplex's ends."""
    from pomdpfit.replication._synthetic_tables import MODEL, START, design

    panel, prior = design(0, 1000, 17)
    truth = MODEL.example()
    found = pf.prior_set(
        MODEL,
        panel,
        pf.TwoStage(),
        beliefs=5,
        periods=[8, 16],
        known=prior,
        start={name: START[name] for name in ("stay", "increment")},
        fixed={name: truth[name] for name in ("RC", "cost")},
        grid=pf.Smooth(15),
    )
    points = found.deviations(truth=MODEL.space().to_series(truth))
    assert points["converged"].all()
    # The estimated common x0 maximises over x0 what the others hold x0 at.
    assert (found.region().groupby("periods")["llf_observation"].idxmax() == [6, 13]).all()
    points = points[points["kind"] == "assumed"].set_index(["periods", "prior"])
    inside, ends = ["(0.25, 0.75)", "(0.5, 0.5)", "(0.75, 0.25)"], ["(0, 1)", "(1, 0)"]
    at_8 = points.loc[8]["dynamics: from truth"]
    assert (at_8[inside] < 0.1).all()
    assert (at_8[ends] > 0.1).all()
    caused = points["dynamics: from known x0"]
    ratio = caused.loc[16] / caused.loc[8]
    assert ratio[inside + ends].between(0.3, 0.7).all()  # O(1/T): about one half
