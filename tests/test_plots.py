"""Pictures: what is drawn is what the functions give, under the model's own names."""

import inspect

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from scipy import stats

import pomdpfit as pf
from pomdpfit import plots
from pomdpfit.plots._fit import autocorrelation, wilson
from pomdpfit.plots._over_beliefs import triangle_place
from pomdpfit.plots._palette import plain
from report_kinds import Kind
from small_bus import bus_fit, draw_panel
from small_hidden import (
    DYNAMICS,
    ENGINE,
    EVIL,
    GRID,
    PRIOR,
    TRUTH,
    hidden_fit,
    hidden_panel,
)

mpl.use("Agg")


@pytest.fixture(autouse=True)
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


@pytest.fixture(scope="module")
def solution():
    return pf.solve(ENGINE, TRUTH, grid=GRID)


@pytest.fixture
def estimate(badly_labelled_estimate):
    return badly_labelled_estimate


@pytest.fixture(scope="module")
def observed():
    return bus_fit(draw_panel(0), pf.TwoStage())


@pytest.fixture(scope="module")
def three():
    model = pf.models.EquipmentInspection()
    return model, pf.solve(model, model.example(), grid=pf.Linear(5))


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


def colorbar_label(ax):
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    return bar.get_ylabel()


# ---- policies and values ---------------------------------------------------------------------


def test_a_policy_over_two_states_is_a_map(solution, ax):
    assert plots.policy(solution, "replace", model=ENGINE, ax=ax) is ax
    (mesh,) = [c for c in ax.collections if isinstance(c, mpl.collections.QuadMesh)]
    drawn = np.asarray(mesh.get_array()).reshape(201, ENGINE.bins)
    for row, z in [(0, 0), (40, 5), (200, 3)]:
        x = [1 - row / 200, row / 200]
        assert drawn[row, z] == pytest.approx(float(solution.policy(z, x)[1]), rel=1e-12)
    assert ax.get_xlabel() == "observation z"
    assert ax.get_ylabel() == "belief x(bad)"
    assert colorbar_label(ax) == "P(replace | z, x)"


def test_the_current_axes_are_used_where_none_are_given(solution, ax):
    assert plots.policy(solution, 0) is ax
    assert colorbar_label(ax) == "P(action 0 | z, x)"
    assert ax.get_ylabel() == "belief x(state 1)"


def test_lines_show_the_policy_at_chosen_observations(solution, ax):
    plots.policy(solution, z=[1, 4], model=ENGINE, ax=ax)
    assert list(lines(ax)) == ["z = 1", "z = 4"]
    share, drawn = lines(ax)["z = 4"].get_data()
    x = np.stack([1 - share, share], axis=-1)
    np.testing.assert_array_equal(drawn, solution.policy(4, x)[:, 1])  # the last action
    assert ax.get_xlabel() == "belief x(bad)"
    styles = {(line.get_color(), line.get_linestyle()) for line in ax.lines}
    assert len({c for c, _ in styles}) == len({s for _, s in styles}) == 2


def test_the_value_is_drawn(solution, ax):
    plots.value(solution, z=2, ax=ax)
    share, drawn = ax.lines[0].get_data()
    np.testing.assert_array_equal(drawn, solution.value(2, np.stack([1 - share, share], axis=-1)))
    assert ax.get_ylabel() == "value V(z, x)"


def test_an_estimate_is_drawn_at_its_parameters(estimate, ax):
    plots.policy(estimate, z=3, ax=ax)
    solved = pf.solve(ENGINE, estimate.theta, grid=GRID)
    share, drawn = ax.lines[0].get_data()
    expected = solved.policy(3, np.stack([1 - share, share], axis=-1))[:, 1]
    np.testing.assert_allclose(drawn, expected, rtol=1e-12)
    assert ax.get_ylabel() == f"P({EVIL} | z, x)"
    ax.figure.canvas.draw()


@pytest.mark.full
def test_three_states_are_a_triangle(three, ax):
    model, solved = three
    plots.policy(solved, "inspect", z=2, model=model, ax=ax)
    assert {t.get_text() for t in ax.texts} == {f"x({s}) = 1" for s in model.state_labels()}
    assert colorbar_label(ax) == "P(inspect | z, x), z = 2"
    (mesh,) = ax.collections
    drawn = np.asarray(mesh.get_array())
    assert len(drawn) == 30**2  # small triangles, each with the mean of its corners
    places = np.array([path.vertices[:3] for path in mesh.get_paths()])
    frame = np.vstack([triangle_place(np.eye(3)).T, np.ones(3)])
    at = np.concatenate([places, np.ones((*places.shape[:2], 1))], axis=-1)
    x = np.clip(np.linalg.solve(frame, at.reshape(-1, 3).T).T, 0, 1)
    x /= x.sum(axis=1, keepdims=True)
    corners = np.asarray(solved.policy(2, x))[:, 1].reshape(-1, 3)
    np.testing.assert_allclose(drawn, corners.mean(axis=1), rtol=1e-9)


def test_corners_of_the_triangle_are_one_apart():
    corners = triangle_place(np.eye(3))
    gaps = [np.linalg.norm(corners[i] - corners[j]) for i, j in [(0, 1), (0, 2), (1, 2)]]
    np.testing.assert_allclose(gaps, 1.0)
    np.testing.assert_allclose(triangle_place([1 / 3] * 3), corners.mean(axis=0))


@pytest.mark.full
def test_lines_along_an_edge(three, ax):
    model, solved = three
    plots.policy(solved, 0, edge=("good", "failing"), z=[0], model=model, ax=ax)
    share, drawn = ax.lines[0].get_data()
    x = np.stack([1 - share, 0 * share, share], axis=-1)
    np.testing.assert_array_equal(drawn, solved.policy(0, x)[:, 0])
    assert ax.get_xlabel() == "belief x(failing), the rest in good"


def test_a_fully_observed_policy_is_a_line(observed, ax):
    plots.policy(observed, "replace", ax=ax)
    drawn = ax.lines[0].get_ydata()
    panel = observed.panel
    rows = observed.predict()
    for k in np.unique(panel.z[panel.present]):
        assert drawn[k] == pytest.approx(rows.loc[rows["z"] == k, "P(replace)"].iloc[0])
    assert ax.get_ylabel() == "P(replace | z)"
    plots.value(observed, ax=ax)
    assert ax.lines[-1].get_ydata()[0] == 0


class Short(pf.models.EngineReplacement):
    def horizon(self):
        return 3


def test_a_finite_horizon_has_its_epochs(ax):
    model = Short(bins=6, increments=3, discount=0.9)
    solved = pf.solve(model, TRUTH, grid=GRID)
    plots.policy(solved, z=4, t=2, model=model, ax=ax)
    share, drawn = ax.lines[0].get_data()
    x = np.stack([1 - share, share], axis=-1)
    np.testing.assert_array_equal(drawn, solved.policy(4, x, 2)[:, 1])
    assert ax.get_title() == "epoch 2"


def test_a_covariate_that_the_model_does_not_read_is_refused(ax):
    model = pf.models.Grouped(ENGINE, ["north", "south"], own=["RC"])
    panel = hidden_panel().with_groups(["south"] * 20 + ["north"] * 20, groups=["north", "south"])
    estimate = Kind(model, panel, {**TRUTH, "RC": np.array([2.0, 2.5])}).written_down()
    with pytest.raises(pf.ModelError, match=r"no covariate 'price': it reads group"):
        plots.policy(estimate, covariates={"price": 1.0}, ax=ax)


@pytest.mark.full
def test_groups_are_named(ax):
    model = pf.models.Grouped(ENGINE, ["north", "south"], own=["RC"])
    panel = hidden_panel(agents=20, periods=10)
    panel = panel.with_groups(["south"] * 10 + ["north"] * 10, groups=["north", "south"])
    start = {**TRUTH, "RC": np.array([2.0, 2.0])}
    fixed = {**DYNAMICS, "cost": TRUTH["cost"]}
    est = hidden_fit(panel, model, start=start, fixed=fixed, starts=1, skip_hessian=True)
    plots.policy(est, z=4, ax=ax)
    assert ax.get_title() == "group south"
    plots.policy(est, z=4, covariates={"group": 0.0}, ax=ax)
    assert ax.get_title() == "group north"
    for line, k in zip(ax.lines, (1, 0), strict=True):
        own = {n: v for n, v in est.theta.items() if n != "group"} | {"RC": est.theta["RC"][k]}
        share, drawn = line.get_data()
        x = np.stack([1 - share, share], axis=-1)
        solved = pf.solve(ENGINE, own, grid=GRID)
        np.testing.assert_allclose(drawn, solved.policy(4, x)[:, 1], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"action": "buy"}, r"no action 'buy': there are keep, replace \(0..1\)"),
        ({"action": 2}, "no action 2"),
        ({"edge": ("good", "ugly")}, "no state 'ugly'"),
        ({"edge": (1, "bad")}, "both ends"),
        ({"z": 6}, r"z must be one of 0..5, but it is 6"),
        ({"z": 0, "t": 1}, "takes no epoch"),
    ],
)
def test_what_is_not_there_is_not_drawn(solution, options, told, ax):
    with pytest.raises(pf.ModelError, match=told):
        plots.policy(solution, model=ENGINE, ax=ax, **options)


def test_only_solutions_and_estimates_are_drawn(ax):
    with pytest.raises(pf.ModelError, match=r"pf\.Solution or an estimate, not .*dict"):
        plots.policy(TRUTH, ax=ax)


# ---- beliefs ---------------------------------------------------------------------------------


def test_belief_paths_are_those_of_the_filter(estimate, ax):
    plots.beliefs(estimate, [3, 7], ax=ax)
    panel = estimate.panel
    x = pf.filter_beliefs(ENGINE, estimate.theta, panel, prior=estimate.setting.prior).x
    by_label = lines(ax)
    for agent in (3, 7):
        periods, drawn = by_label[f"agent {agent}"].get_data()
        np.testing.assert_array_equal(periods, np.flatnonzero(panel.present[agent]))
        np.testing.assert_allclose(drawn, x[agent, panel.present[agent], 1], rtol=1e-12)
    assert ax.get_ylabel() == f"belief x({EVIL})"


def test_unusual_actions_are_marked_where_they_were_taken(estimate, ax):
    panel = estimate.panel
    agent = int(np.argmax((panel.a * panel.acted).sum(axis=1)))
    plots.beliefs(estimate, [panel.agents[agent]], state="good", ax=ax)
    when, _ = lines(ax)[EVIL].get_data()
    np.testing.assert_array_equal(when, np.flatnonzero(panel.acted[agent] & (panel.a[agent] == 1)))
    assert len(when) > 0


def test_agents_must_be_there(estimate, observed, ax):
    with pytest.raises(pf.ModelError, match=r"no agent 'x': it has 0, 1, 2, 3, 4 \.\.\."):
        plots.beliefs(estimate, ["x"], ax=ax)
    with pytest.raises(pf.ModelError, match="give a list"):
        plots.beliefs(estimate, "3", ax=ax)
    with pytest.raises(pf.ModelError, match="nothing is hidden"):
        plots.beliefs(observed, ax=ax)


def test_a_simulated_agent_has_a_truth_beside_its_belief(ax):
    draw = {"agents": 3, "periods": 12, "seed": 0, "prior": PRIOR, "grid": GRID}
    found = pf.simulate(ENGINE, TRUTH, hidden=True, **draw)
    plots.beliefs(found, [1], model=ENGINE, ax=ax)
    (truth,) = [c for c in ax.collections if c.get_label() == "truly bad"]
    assert bool(truth.get_paths()) == bool((found.s[1] == 1).any())
    here = found.panel.present[1]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found.belief[1, here, 1])
    assert ax.get_ylabel() == "belief x(bad)"
    with pytest.raises(pf.ModelError, match=r"hidden=True\) gives, not Panel"):
        plots.beliefs(found.panel, ax=ax)


@pytest.mark.full
def test_beliefs_over_three_states_add_up(three, ax):
    model, solved = three
    draw = {"agents": 2, "periods": 8, "seed": 0, "prior": pf.KnownPrior([1.0, 0.0, 0.0])}
    found = pf.simulate(model, model.example(), hidden=True, solution=solved, **draw)
    plots.beliefs(found, model=model, ax=ax)
    assert [area.get_label() for area in ax.collections] == ["x(good)", "x(worn)", "x(failing)"]
    tops = [area.get_paths()[0].vertices[:, 1].max() for area in ax.collections]
    x = found.belief[0, found.panel.present[0]]
    np.testing.assert_allclose(tops, np.cumsum(x, axis=1).max(axis=0))
    ax.clear()
    plots.beliefs(found, state="worn", model=model, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), x[:, 1])


# ---- the search ------------------------------------------------------------------------------


def test_modes_are_drawn_by_their_log_likelihood(estimate, ax):
    plots.modes(estimate, ax=ax)
    drawn = np.concatenate([line.get_xdata() for line in ax.lines[1:]])
    gaps = estimate.modes["llf"] - estimate.modes["llf"].iloc[0]
    assert sorted(drawn) == pytest.approx(sorted(gaps))
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"mode {k}" for k in gaps.index]
    sides = ["right" if gap < 0 else "left" for gap in gaps]
    assert [t.get_ha() for t in ax.texts] == sides  # none across the line at the estimate


def test_the_climb_of_each_stage_is_drawn(observed, ax):
    plots.convergence(observed, ax=ax)
    assert set(lines(ax)) == {"stage 1", "stage 2"}
    for k in range(2):
        llf = np.array(observed.traces[k][0])
        left = llf.max() - llf
        np.testing.assert_array_equal(lines(ax)[f"stage {k + 1}"].get_ydata(), left[left > 0])
    assert ax.get_yscale() == "log"


# ---- fit -------------------------------------------------------------------------------------


def test_shares_are_those_of_the_panel(observed, ax):
    test = pf.chi_square_test(observed, cells=[0, 2, 4])
    plots.fit(test, "replace", ax=ax)
    panel = observed.panel
    z, a = panel.z[panel.score_choice], panel.a[panel.score_choice]
    chosen = observed.predict()["P(replace)"].to_numpy()[panel.score_choice[panel.present]]
    cell = np.searchsorted([0, 2, 4], z, side="right") - 1
    shares = [a[cell == k].mean() for k in range(3)]
    expected = [chosen[cell == k].mean() for k in range(3)]
    by_label = lines(ax)
    np.testing.assert_allclose(by_label["observed, 95 % interval"].get_ydata(), shares)
    np.testing.assert_allclose(by_label["predicted"].get_ydata(), expected)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0..1", "2..3", "4.."]
    assert f"p = {test.test.pvalue:.3g}" in ax.get_title()
    assert ax.get_ylabel() == "share of replace"
    top = max(path.vertices[:, 1].max() for path in ax.collections[0].get_paths())
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent().transformed(ax.transData.inverted())
    assert box.y0 > max(top, *expected)  # the legend hides nothing


def test_an_estimate_is_tested_first(observed, ax):
    plots.fit(observed, cells=3, ax=ax)
    assert len(lines(ax)["predicted"].get_ydata()) == len(pf.chi_square_test(observed, 3).table)


@pytest.mark.parametrize(("share", "count"), [(0.0, 7), (0.2, 50), (0.5, 9), (1.0, 3)])
def test_intervals_of_shares_are_wilsons(share, count):
    low, high = wilson(np.array([share]), np.array([float(count)]), 0.1)
    successes = round(share * count)
    if successes != share * count:
        count, successes = 10 * count, round(10 * share * count)
        low, high = wilson(np.array([successes / count]), np.array([float(count)]), 0.1)
    peer = stats.binomtest(successes, count).proportion_ci(0.9, method="wilson")
    assert (low[0], high[0]) == pytest.approx((peer.low, peer.high), abs=1e-12)


def test_autocorrelation_is_that_of_the_pairs():
    rng = np.random.default_rng(0)
    e = rng.normal(size=(1, 200))
    found, pairs = autocorrelation(e, 3)
    for k in (1, 2, 3):
        expected = np.mean(e[0, k:] * e[0, :-k]) / np.mean(e**2)
        assert found[k - 1] == pytest.approx(expected)
    assert list(pairs) == [199, 198, 197]


def test_gaps_are_no_neighbours():
    e = np.array([[1.0, np.nan, -1.0, 1.0, -1.0, np.nan]])
    found, pairs = autocorrelation(e, 2)
    assert list(pairs) == [2, 2]
    assert found == pytest.approx([-1.0, 0.0])


def test_serial_dependence_is_drawn(ax):
    e = np.random.default_rng(1).normal(size=(5, 30))
    plots.serial(e, lags=4, ax=ax)
    np.testing.assert_array_equal(lines(ax)["residuals"].get_ydata(), autocorrelation(e, 4)[0])
    with pytest.raises(pf.EstimationError, match=r"shape \(3,\)"):
        plots.serial(np.ones(3), ax=ax)


# ---- labels ----------------------------------------------------------------------------------


def test_labels_stand_for_themselves(ax):
    for label in ("a$b$c", r"$\frac", "_hidden", EVIL):
        ax.plot([0, 1], label=plain(label))
    legend = ax.legend()
    ax.figure.canvas.draw()  # a formula that is none would fail here
    assert len(legend.get_texts()) == 4


# ---- one kind of name, one kind of signature -------------------------------------------------


@pytest.mark.parametrize("name", plots.__all__)
def test_every_picture_takes_axes_and_gives_them_back(name):
    """`ax=None` and one pair of axes, or `axes=None` where a picture has several panels."""
    signature = inspect.signature(getattr(plots, name))
    (given,) = [p for p in signature.parameters.values() if p.name in {"ax", "axes"}]
    assert given.default is None
    assert given.kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.return_annotation is (Axes if given.name == "ax" else np.ndarray)
    assert not name.startswith("plot")
