"""Behaviour and value when something is different, and the bands around them."""

import dataclasses
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_reward
from pomdpfit._setting import Setting
from pomdpfit.inference._information import Information
from reference import nfxp, tree, worlds
from small_bus import tables

mpl.use("Agg")

BETA = 0.9
BUS = pf.models.EngineReplacement(bins=8, increments=3, discount=BETA)
THETA = {
    **BUS.example(),
    "RC": np.array(2.5),
    "cost": np.array([150.0, 700.0]),
    "stay": np.array([0.85, 0.9]),
    "increment": np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]),
}
NEW = pf.KnownPrior([1.0, 0.0])
GRID = pf.Smooth(16)
PAGE = Path(__file__).parents[1] / "docs" / "counterfactuals.md"


def share(found, action="replace", of="baseline") -> float:
    return float(found.to_frame().loc[(f"share[{action}]", of), "estimate"])


# ---- how often: against plain numpy ------------------------------------------------------------


def rust(RC: float, bins=8, cost=400.0, increment=(0.3, 0.5, 0.2)) -> float:
    """Replacements a period in the long run, by dense algebra."""
    P, r = tables(bins, increment, RC, lambda z: 0.001 * cost * z)
    return worlds.long_run_shares(P, nfxp.solve_mdp(P, r, BETA)[2])[1]


VALUES = [1.0, 2.0, 4.0, 8.0]
DOLLARS = [3600 * value for value in VALUES]  # where 2.5 are 9000


def test_the_demand_curve_of_a_fully_observed_fleet():
    model = pf.models.EngineReplacement(8, 3, BETA, conditions=1)
    theta = {**model.example(), "cost": [400.0], "increment": [[0.3, 0.5, 0.2]]}
    curve = pf.demand_curve(model, "RC", VALUES, "replace", at=theta, per=12 * 37).to_frame()
    expected = [12 * 37 * rust(RC) for RC in VALUES]
    np.testing.assert_allclose(curve["estimate"], expected, rtol=1e-9)
    assert curve["std err"].isna().all()  # theta is taken as known


def test_a_hidden_condition_that_does_not_matter_leaves_the_same_demand():
    theta = {**THETA, "cost": [400.0, 400.0], "increment": [[0.3, 0.5, 0.2]] * 2}
    curve = pf.demand_curve(BUS, "RC", VALUES, 1, at=theta, prior=NEW, grid=GRID).to_frame()
    np.testing.assert_allclose(curve["estimate"], [rust(RC) for RC in VALUES], rtol=1e-8)
    ask = {"at": theta, "prior": NEW, "grid": GRID}
    found = pf.counterfactual(BUS, {"RC": 4.0}, discounted=True, **ask)
    for of, RC in (("baseline", 2.5), ("counterfactual", 4.0)):
        P, r = tables(8, (0.3, 0.5, 0.2), RC, lambda z: 0.4 * z)
        policy = nfxp.solve_mdp(P, r, BETA)[2]
        moves = np.eye(8) - BETA * np.einsum("za,zay->zy", policy, P)
        expected = (1 - BETA) * np.linalg.solve(moves, policy[:, 1])[0]
        assert share(found, of=of) == pytest.approx(expected, rel=1e-8)
    assert found.to_frame().xs("baseline", level="of").index.str.startswith("periods").sum() == 0


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000))
def test_demand_slopes_down(seed):
    rng = np.random.default_rng(seed)
    theta = {**THETA, "cost": rng.uniform(0, 800, 2), "stay": rng.uniform(0.1, 0.95, 2)}
    theta["increment"] = rng.dirichlet(np.ones(3), size=2)
    curve = pf.demand_curve(BUS, "RC", VALUES, 1, at=theta, prior=NEW, grid=GRID)
    assert (np.diff(curve.to_frame()["estimate"]) < 0).all()


@pytest.mark.full
def test_a_hidden_condition_against_all_paths_of_a_cycle():
    """Renewal: replacements a period are one over the expected periods of an engine's life.

    Mileage moves in every period and must end at the top, so that there are finitely many paths.
    The policy is that of the solution's grid; the grid of the law is refined until it is known.
    """
    model = pf.models.EngineReplacement(6, 3, BETA, top="replace")
    theta = {**THETA, "increment": np.array([[0.0, 0.2, 0.8], [0.0, 0.8, 0.2]])}
    P = model.kernel(theta).to_dense()
    for nodes in (21, 81):
        grid = pf.Smooth(nodes)
        sol = pf.solve(model, theta, grid=grid)
        policy = lambda z, x, sol=sol: np.asarray(sol.policy(z, x))
        exact = 1 / worlds.cycle_length(P, policy, 1, 0, np.array([1.0, 0.0]))
        found = pf.counterfactual(model, {"RC": 5.0}, at=theta, prior=NEW, grid=grid)
        assert abs(share(found) - exact) <= found.share_error < 1e-4 * exact
        between = found.to_frame().loc[("periods between[replace]", "baseline"), "estimate"]
        assert between == pytest.approx(1 / share(found), rel=1e-12)


def test_over_some_periods_against_all_paths():
    rng = np.random.default_rng(0)
    model, x = Table(random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2)), [0.4, 0.6]
    grid, start = pf.Smooth(201), pf.KnownPrior(x)
    sol = pf.solve(model, at(0.8), grid=grid)
    policy = lambda z, x: np.asarray(sol.policy(z, x))
    for periods in (1, 3):
        expected = worlds.expected_counts(model.P, policy, periods, 1, np.array(x)) / periods
        found = pf.counterfactual(
            model, available=[0], at=at(0.8), z0=1, prior=start, periods=periods, grid=grid
        )
        error = found.share_error + 1e-12
        assert error < 1e-6
        np.testing.assert_allclose([share(found, a) for a in "01"], expected, rtol=0, atol=error)
        assert share(found, "1", "counterfactual") == 0.0
        assert share(found, "1", "difference") == pytest.approx(-expected[1], abs=error)


def test_with_a_last_epoch_against_all_paths():
    rng = np.random.default_rng(1)
    model = Table(random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2), epochs=2)
    x = np.array([0.4, 0.6])
    first = np.exp(tree.soft_q(model.P, model.r, 0.8, 2, 0, x, tree.gumbel_emax(1.0)))
    first /= first.sum()
    expected = first.copy()
    for a, z in np.ndindex(2, 2):
        m = x @ model.P[0, :, a, z]
        last = np.exp(m / m.sum() @ model.r[z])
        expected += first[a] * m.sum() * last / last.sum()
    found = pf.counterfactual(
        model, available=[0], at=at(0.8), prior=pf.KnownPrior(x), grid=pf.Smooth(201)
    )
    np.testing.assert_allclose([share(found, a) for a in "01"], expected / 2, atol=1e-5)
    table = found.to_frame()["estimate"]
    annuity = table["value", "baseline"] / (1 + 0.8)
    assert table["value per period", "baseline"] == pytest.approx(annuity, rel=1e-12)
    with pytest.raises(pf.ModelError, match="must not exceed the horizon of 2"):
        pf.counterfactual(
            model, available=[0], at=at(0.8), prior=pf.KnownPrior(x), grid=GRID, periods=3
        )


@pytest.mark.full
def test_discounted_shares_are_the_slope_of_the_value():
    """Envelope theorem: dV/dRC = -E sum_t beta^t 1{replace}, a code path of its own."""
    slope = pf.sensitivity(BUS, THETA, 2, [0.3, 0.7], grid=pf.Smooth(101))
    expected = -(1 - BETA) * slope.value[slope.names.index("RC")]
    found = pf.counterfactual(
        BUS, {"RC": 5.0}, at=THETA, z0=2, prior=pf.KnownPrior([0.3, 0.7]), discounted=True
    )
    # The slope is that of the smooth value, which is off by O(h^4); the law by what it says.
    assert share(found) == pytest.approx(expected, rel=1e-7, abs=found.share_error)
    assert found.to_frame().xs("baseline", level="of").index.str.startswith("periods").sum() == 0


@pytest.mark.full
def test_the_law_agrees_with_simulated_fleets():
    """1000 fleets of one; the mean over 20 periods within five of its standard errors."""
    found = pf.counterfactual(BUS, {"RC": 5.0}, at=THETA, prior=NEW, periods=20, grid=GRID)
    for of, model, theta in (
        ("baseline", BUS, THETA),
        ("counterfactual", found.model, found.theta),
    ):
        panel = pf.simulate(model, theta, agents=1000, periods=20, seed=3, prior=NEW, grid=GRID)
        each = panel.a[:, :20].mean(axis=1)
        assert abs(each.mean() - share(found, of=of)) < 5 * each.std() / np.sqrt(1000)


def test_a_world_that_falls_apart_has_no_long_run():
    stuck = {**THETA, "stay": np.array([1.0, 1.0])}
    model = pf.models.EngineReplacement(8, 3, BETA, new="free")
    theta = {**stuck, "new": np.array([0.5, 0.5])}
    free = pf.Restricted(model, ["keep"])  # nobody ever replaces: it stays what it was
    ask = {"at": theta, "prior": pf.KnownPrior([0.5, 0.5]), "grid": GRID}
    with pytest.raises(pf.SolveError, match=r"falls apart into \d+ sets"):
        pf.counterfactual(free, {"RC": 5.0}, **ask)
    found = pf.counterfactual(free, {"RC": 5.0}, periods=5, **ask)
    assert share(found, "keep") == pytest.approx(1.0, rel=1e-12)
    # From one of the two sets the other is never seen, and there is a long run.
    sure = pf.counterfactual(free, {"RC": 5.0}, **(ask | {"prior": NEW}))
    assert share(sure, "keep") == pytest.approx(1.0, rel=1e-12)


# ---- value -------------------------------------------------------------------------------------


def test_differences_do_not_depend_on_the_mean_of_the_shocks():
    """A constant on every reward is what shocks of another mean would be."""
    rng = np.random.default_rng(4)
    P, r = random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2)
    gaps = [
        pf.counterfactual(
            Table(P, r + level),
            information=pf.FullObservation(),
            at=at(0.9),
            prior=pf.KnownPrior([0.4, 0.6]),
            grid=GRID,
        ).difference["estimate"]
        for level in (0.0, 0.5772)
    ]
    np.testing.assert_allclose(gaps[0], gaps[1], atol=1e-9)


def test_what_is_reported_is_what_was_solved():
    move = {"RC": 4.0, "cost[bad]": 900.0}
    found = pf.counterfactual(BUS, move, at=THETA, z0=[1, 1, 3], prior=NEW, grid=GRID)
    theta = {**THETA, "RC": 4.0, "cost": np.array([150.0, 900.0])}
    other = pf.solve(BUS, theta, grid=GRID)
    value = float(np.mean(np.asarray(other.value([1, 1, 3], [1.0, 0.0]))))
    table = found.to_frame()["estimate"]
    assert table["value", "counterfactual"] == pytest.approx(value, rel=1e-9)
    assert table["value per period", "counterfactual"] == pytest.approx(0.1 * value, rel=1e-9)
    gap = table["value", "counterfactual"] - table["value", "baseline"]
    assert table["value", "difference"] == pytest.approx(gap, abs=1e-12)
    assert found.changes == ("RC = 4.", "cost[bad] = 900.")
    assert table["periods between[replace]", "baseline"] == pytest.approx(1 / share(found))
    again = pf.counterfactual(
        BUS,
        lambda th: {"RC": th["RC"] + 1.5, "cost": th["cost"] + np.array([0.0, 200.0])},
        at=THETA,
        z0=[1, 1, 3],
        prior=NEW,
        grid=GRID,
    )
    np.testing.assert_allclose(again.to_frame()["estimate"], table, rtol=1e-12)


def test_another_discount_is_noted():
    found = pf.counterfactual(BUS, discount=0.5, at=THETA, prior=NEW, grid=GRID)
    assert float(found.solution.primitives.discount) == 0.5
    assert any("Compare behaviour" in note for note in found.notes)


def test_dollars_follow_the_scaling_of_a_parameter():
    pieces = {"all": pf.FullObservation()}
    ask = {"at": THETA, "prior": pf.KnownPrior([0.5, 0.5]), "grid": GRID}
    worth = pf.value_of_information(BUS, pieces, dollars={"RC": 9000}, **ask).to_frame()
    worth = worth["estimate"]["all"]
    assert worth["dollars"] == pytest.approx(9000 / 2.5 * worth["value"], rel=1e-12)
    assert worth["dollars per period"] == pytest.approx((1 - BETA) * worth["dollars"], rel=1e-9)
    changed = pf.counterfactual(BUS, {"RC": 5.0}, dollars=3600.0, **ask).to_frame()["estimate"]
    for of in ("baseline", "counterfactual", "difference"):
        assert changed["dollars", of] == pytest.approx(3600 * changed["value", of], rel=1e-12)


def test_prices_in_dollars_are_parts_of_the_price_that_was_paid():
    """v dollars are v / 9000 of RC, so that 9000 dollars are RC itself."""
    ask = {"at": THETA, "prior": NEW, "grid": GRID}
    money = pf.demand_curve(BUS, "RC", DOLLARS, "replace", dollars={"RC": 9000}, **ask)
    plain = pf.demand_curve(BUS, "RC", VALUES, "replace", **ask).to_frame()["estimate"]
    np.testing.assert_allclose(money.to_frame()["estimate"], plain, rtol=1e-9)
    assert money.estimate == pytest.approx(9000)
    assert money.to_frame().index.name == money.parameter == "RC in dollars"


# ---- bands -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def estimate():
    """An estimate written down: rewards with a covariance that we know, dynamics fixed."""
    space = BUS.space().fix({name: THETA[name] for name in ("stay", "increment")})
    names = ("RC", "cost[good]", "cost[bad]")
    se = np.array([0.1, 20.0, 30.0])
    V = np.array([[1, 0.5, 0.6], [0.5, 1, 0.2], [0.6, 0.2, 1]]) * np.outer(se, se)
    information = Information(names, names, np.eye(3), np.zeros((3, 2, 3)), -np.linalg.inv(V))
    panel = pf.Panel.from_arrays([[0, 1], [2, 2], [2, 0]], [[0, 0], [0, 0], [1, 0]])
    return pf.Estimate(
        setting=Setting(BUS, panel, NEW, GRID),
        theta={name: np.asarray(THETA[name]) for name in space.parameters},
        space=space,
        restrictions=(),
        terms=np.zeros((3, 2)),
        information=information,
        boundary=(),
        derived=(),
        result=pf.Result.CONVERGED,
        reason="",
        steps=0,
        gain=0.0,
        dimension=3,
        incidental=0,
        modes=pd.DataFrame(),
        starts=pd.DataFrame(),
    )


def test_the_delta_method_is_that_of_the_exact_derivative(estimate):
    """Values: central differences against derivatives through the fixed point."""
    found = pf.counterfactual(estimate, available=["keep"], z0=0, draws=0).to_frame()
    space = estimate.space
    exact = pf.sensitivity(BUS, estimate.theta, 0, [1.0, 0.0], grid=GRID, space=space)
    V = estimate.cov_params().loc[list(exact.names), list(exact.names)].to_numpy()
    se = np.sqrt(exact.value @ V @ exact.value)
    assert found.loc[("value", "baseline"), "std err"] == pytest.approx(se, rel=1e-4)
    half = 1.959964 * se
    centre = found.loc[("value", "baseline"), "estimate"]
    assert found.loc[("value", "baseline"), "upper"] == pytest.approx(centre + half, rel=1e-6)
    assert found.loc[("share[replace]", "counterfactual"), "std err"] == pytest.approx(0, abs=1e-9)


def test_bands_rest_on_the_hessian_where_agents_are_few(estimate):
    """Three agents for three parameters, after two stages: the same as that of one stage."""
    staged = dataclasses.replace(estimate.information, first=np.zeros(3, dtype=bool))
    staged = dataclasses.replace(estimate, information=staged)
    with pytest.warns(UserWarning, match="3 agents with scored rows for 3 free parameters"):
        found = pf.counterfactual(staged, available=["keep"], z0=0, draws=0)
    assert any("Murphy and Topel" in note for note in found.notes)
    known = pf.counterfactual(estimate, available=["keep"], z0=0, draws=0)
    np.testing.assert_allclose(found.to_frame()["std err"], known.to_frame()["std err"], rtol=1e-12)


def test_draws_agree_with_the_delta_method(estimate):
    """100 draws give a standard deviation to 7 %, here within three times that."""
    heard = []
    options = {"draws": 100, "seed": 0, "progress": lambda *news: heard.append(news)}
    by_draws = pf.demand_curve(estimate, "RC", [2.0, 3.0], "replace", **options)
    assert heard[0][1:] == (0, 100)
    assert heard[-1][1:] == (100, 100)
    by_slope = pf.demand_curve(estimate, "RC", [2.0, 3.0], "replace", draws=0).to_frame()
    table = by_draws.to_frame()
    np.testing.assert_allclose(table["std err"], by_slope["std err"], rtol=0.21)
    assert (table["lower"] < table["estimate"]).all()
    assert (table["estimate"] < table["upper"]).all()
    assert by_draws.bands.draws.shape == (100, 2)
    few = [pf.demand_curve(estimate, "RC", [2.0], "replace", draws=2, seed=0) for _ in range(2)]
    pd.testing.assert_frame_equal(few[0].to_frame(), few[1].to_frame())


def test_a_difference_has_an_error_of_its_own(estimate):
    """Baseline and counterfactual move together from draw to draw."""
    found = pf.counterfactual(estimate, lambda th: {"RC": 1.01 * th["RC"]}, draws=20, seed=1)
    draws = found.bands.draws
    gap = draws["value", "counterfactual"] - draws["value", "baseline"]
    np.testing.assert_allclose(draws["value", "difference"], gap, rtol=1e-9)
    table = found.to_frame()["std err"]
    assert table["value", "difference"] < 0.2 * table["value", "baseline"]


def test_a_bootstrap_brings_its_own_draws(estimate):
    params = estimate.params
    rows = pd.DataFrame([params * k for k in (0.95, 1.0, 1.02, 1.1)])
    rows.index = pd.RangeIndex(4, name="replicate")
    info = pd.DataFrame({"converged": [True, True, True, False], "reason": ["", "", "", "no"]})
    boot = pf.Bootstrap(rows, info, params, False, 0)
    found = pf.demand_curve(estimate, "cost[bad]", [500.0], "replace", cov=boot)
    assert found.bands.method == "bootstrap, 3 draws"
    expected = []
    for _, row in rows.iloc[:3].iterrows():
        theta = {**estimate.theta, "RC": row["RC"], "cost": np.array([row["cost[good]"], 500.0])}
        curve = pf.demand_curve(BUS, "cost[bad]", [500.0], 1, at=theta, prior=NEW, grid=GRID)
        expected.append(curve.to_frame()["estimate"].iloc[0])
    assert found.to_frame()["std err"].iloc[0] == pytest.approx(np.std(expected, ddof=1), rel=1e-6)
    stranger = pf.Bootstrap(rows, info, params + 1, False, 0)
    with pytest.raises(pf.EstimationError, match="bootstrap of this estimate"):
        pf.demand_curve(estimate, "RC", [2.0], "replace", cov=stranger)


def test_draws_stay_between_the_bounds(estimate):
    """A bound a third of a standard error below: some four in ten draws are made anew."""
    at_most = float(estimate.theta["RC"]) + 0.3 * estimate.bse["RC"]
    parameters = dict(estimate.space.parameters)
    low = pf.Interval(0.0, at_most)
    parameters["RC"] = dataclasses.replace(parameters["RC"], constraint=low)
    bounded = dataclasses.replace(estimate, space=pf.ParameterSpace(parameters))
    found = pf.counterfactual(bounded, available=["keep"], draws=30, seed=0, dollars={"RC": 1.0})
    assert found.bands.rejected > 0
    assert any("truncated normal law" in note for note in found.notes)
    unit = found.bands.draws["dollars", "baseline"] / found.bands.draws["value", "baseline"]
    assert (1 / unit <= at_most + 1e-9).all()


def test_starts_are_the_panels_first_rows(estimate):
    panel = estimate.panel
    found = pf.counterfactual(estimate, {"RC": 5.0}, draws=None)
    value = np.asarray(pf.solve(BUS, estimate.theta, grid=GRID).value(panel.z[:, 0], [1.0, 0.0]))
    mean = found.to_frame().loc[("value", "baseline"), "estimate"]
    assert mean == pytest.approx(value.mean(), rel=1e-9)
    assert found.bands.method == "no bands: none asked for"


# ---- refusals ----------------------------------------------------------------------------------

KEEP = {"available": ["keep"]}
TWICE = r"gives both cost and cost\[bad\]: leave one out"
REFUSED = [
    (lambda e: pf.counterfactual(e), "nothing is different"),
    (
        lambda e: pf.counterfactual(e, {"costs": 1.0}),
        "names 'costs', which is no parameter.*Did you mean 'cost'",
    ),
    (lambda e: pf.counterfactual(e, {"stay": [0.5, 1.5]}), r"stay\[bad\] must lie in \[0, 1\]"),
    (lambda e: pf.counterfactual(e, {"increment[good, 0]": 0.9}), "must sum to 1"),
    (lambda e: pf.counterfactual(e, lambda th: 3.0), "float came back"),
    (lambda e: pf.counterfactual(e, lambda th: th, discount=0.5), "inside the function"),
    (lambda e: pf.counterfactual(e, {"cost[bad]": 400.0, "cost": [30, 200]}), TWICE),
    (lambda e: pf.counterfactual(e, {"cost": [30, 200], "cost[bad]": 400.0}), TWICE),
    (lambda e: pf.counterfactual(e, lambda th: {"cost[bad]": 400.0} | th), TWICE),
    (lambda e: pf.counterfactual(e, {"discount": 0.9}, discount=0.5), "without the discount"),
    (lambda e: pf.counterfactual(e, [0.9], discount=0.5), "without the discount"),
    (lambda e: pf.counterfactual(e, discount=1.0), r"discount must lie in \[0, 1\)"),
    (lambda e: pf.counterfactual(e, information="all"), "must be pf.Sensor"),
    (lambda e: pf.counterfactual(e, **KEEP, draws=1), "at least 2, 0 for the delta method"),
    (lambda e: pf.counterfactual(e, **KEEP, seed=-1), "seed must be a whole number"),
    (lambda e: pf.counterfactual(e, **KEEP, alpha=5), "alpha must lie between 0 and 1"),
    (lambda e: pf.counterfactual(e, **KEEP, periods=0), "periods must be a whole number"),
    (lambda e: pf.counterfactual(e, **KEEP, z0=8), r"z0 must lie in 0..7, but it is 8"),
    (lambda e: pf.counterfactual(e, **KEEP, at=THETA), "at= is for covariates alone"),
    (lambda e: pf.counterfactual(e, **KEEP, dollars={"R": 1.0}), "'R', which is no entry"),
    (lambda e: pf.counterfactual(e, **KEEP, dollars={"RC": -1.0}), "worth more than none"),
    (lambda e: pf.counterfactual(e, **KEEP, dollars={"RC": 1.0, "x": 2.0}), "it names 2"),
    (lambda e: pf.counterfactual(BUS, **KEEP), "a model needs its parameters: at=theta"),
    (lambda e: pf.counterfactual(BUS, **KEEP, at=THETA), "needs a prior"),
    (lambda e: pf.counterfactual(pf.baselines.BusEngine(), **KEEP), "not BusEngine"),
    (lambda e: pf.demand_curve(e, "RD", [1.0], "replace"), "names 'RD', which is no parameter"),
    (lambda e: pf.demand_curve(e, "stay", [1.0], "replace"), r"choose one of stay\[good\], st"),
    (lambda e: pf.demand_curve(e, "stay[bad]", [0.5, 1.2], 1), r"stay\[bad\] must lie in"),
    (lambda e: pf.demand_curve(e, "RC", [], "replace"), "list of different numbers"),
    (lambda e: pf.demand_curve(e, "RC", [1.0], "repair"), "no action 'repair'"),
    (lambda e: pf.demand_curve(e, "RC", [1.0], "replace", per=0), "per must be a positive"),
    (lambda e: pf.value_of_information(e, {}), "or several of them by name"),
    (lambda e: pf.value_of_information(e, {"a": 3}), "must be pf.Sensor"),
]


@pytest.mark.parametrize(("ask", "message"), REFUSED, ids=[m[:30] for _, m in REFUSED])
def test_refusals(estimate, ask, message):
    with pytest.raises(pf.PomdpfitError, match=message):
        ask(estimate)


def test_an_estimate_without_a_covariance_has_no_bands(estimate):
    lost = dataclasses.replace(estimate, incidental=1)
    with pytest.raises(pf.EstimationError, match=r"no covariance \(RC: each agent.s prior was est"):
        pf.counterfactual(lost, {"RC": 5.0})
    assert np.isfinite(share(pf.counterfactual(lost, {"RC": 5.0}, draws=None)))


def test_an_estimate_without_its_model_is_refused(estimate):
    setting = dataclasses.replace(estimate.setting, model=None)
    with pytest.raises(pf.EstimationError, match=r"needs the model: pf.load"):
        pf.counterfactual(dataclasses.replace(estimate, setting=setting), {"RC": 5.0})


def test_covariates_must_be_told(estimate):
    model = pf.models.Grouped(BUS, ("old", "young"), own=["RC"])
    theta = {**THETA, "RC": np.array([2.0, 6.0]), "group": np.array(1.0)}
    found = pf.counterfactual(model, {"group": 0.0}, at=theta, prior=NEW, grid=GRID)
    assert share(found, of="counterfactual") > share(found)
    setting = dataclasses.replace(estimate.setting, model=model)
    grouped = dataclasses.replace(estimate, setting=setting, theta=theta, space=model.space())
    with pytest.raises(pf.ModelError, match="reads the covariate 'group': say at which value"):
        pf.counterfactual(grouped, **KEEP)
    with pytest.raises(pf.ModelError, match="told where agents start"):
        pf.counterfactual(grouped, **KEEP, at={"group": 1.0})


# ---- pictures and the page ---------------------------------------------------------------------


def test_results_can_be_drawn_and_printed(estimate):
    fig, axes = plt.subplots(1, 3)
    changed = pf.counterfactual(estimate, {"RC": 5.0}, draws=5)
    curve = pf.demand_curve(estimate, "RC", [2.0, 3.0, 4.0], "replace", draws=5)
    worth = pf.value_of_information(estimate, dollars={"RC": 9000}, draws=5)
    for found, ax in zip((changed, curve, worth), axes, strict=True):
        assert found.plot(ax) is ax
        assert "Bands" in str(found)
        assert found.summary().as_html()
        assert found.summary().as_latex()
    assert axes[0].get_title() == "RC = 5."
    assert len(axes[1].collections) == 1  # the band
    assert axes[2].get_xlabel() == "gain, dollars per period"
    axes[1].clear()
    pf.plots.demand_curve({"one": curve, "other": curve}, ax=axes[1])
    drawn = [line.get_label() for line in axes[1].lines]
    assert drawn == ["one", "other", "baseline, 2.5"]
    with pytest.raises(pf.ModelError, match="one parameter, action"):
        pf.plots.demand_curve({"a": curve, "b": dataclasses.replace(curve, per=2.0)})
    fig.canvas.draw()
    plt.close(fig)


@pytest.mark.full
def test_the_page_runs(capsys):
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), names)
    assert capsys.readouterr().out
