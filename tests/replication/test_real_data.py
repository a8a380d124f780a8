"""The published tables from Rust's raw data: small here, the whole of it as a study."""

import json
import os

import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit.replication import PARTS, QUICK, TINY, reproduce
from pomdpfit.replication._hidden_tables import GOOD, as_arrays, dollars
from pomdpfit.replication._published import RUST, TABLE_3, agreement, published_theta
from pomdpfit.replication._rust_tables import by_month, fit_months

pytestmark = pytest.mark.skipif(
    not os.environ.get("POMDPFIT_RUST1987"),
    reason="POMDPFIT_RUST1987 does not name a folder with Rust's raw .asc files",
)


def fit_sample(bins, groups, discount):
    return fit_months(pf.datasets.rust1987(groups, bins), discount)


# Printed figures that are not what the data give, and by how much they may be off.
KNOWN = {
    (175, (4,), 0.9999, "RC"): 0.8065,  # 10.896 for 10.0896: a misprint
    (90, (4,), 0.0, "llf"): 0.0012,
}


@pytest.mark.parametrize("bins", [pytest.param(90, marks=pytest.mark.full), 175])
@pytest.mark.parametrize("discount", [0.9999, 0.0])
def test_rust_group_4_to_the_printed_digits(bins, discount):
    estimate, groups = fit_sample(bins, (4,), discount), (4,)
    se = estimate.standard_errors("opg")
    for name, (printed, printed_se) in RUST[bins][groups][discount].items():
        ours = estimate.llf if name == "llf" else estimate.params[name]
        if (bins, groups, discount, name) in KNOWN:
            off = KNOWN[bins, groups, discount, name]
            assert abs(ours - float(printed)) == pytest.approx(off, abs=2e-4)
        else:
            assert agreement(ours, printed) == "all", (name, ours, printed)
        if printed_se is not None:
            assert se[name] == pytest.approx(float(printed_se), rel=0.02)


def test_a_reading_on_the_edge_of_a_bin_decides_table_9():
    """Bus 4339 at 70,000 miles, 90 bins: floor(mileage / 5000) misses the likelihood by 5."""
    estimate = fit_sample(90, (1, 2, 3), 0.9999)
    assert agreement(estimate.llf, RUST[90][1, 2, 3][0.9999]["llf"][0]) == "all"


@pytest.mark.full
@pytest.mark.parametrize("bins", [90, 175])
@pytest.mark.parametrize("groups", [(1, 2, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("discount", [0.9999, 0.0])
def test_rust_other_samples(bins, groups, discount):
    """All digits, or one off in the last; one log-likelihood (groups 1 to 3, myopic) by 0.022."""
    estimate = fit_sample(bins, groups, discount)
    for name, (printed, _) in RUST[bins][groups][discount].items():
        ours = estimate.llf if name == "llf" else estimate.params[name]
        if agreement(ours, printed) == "differ":
            decimals = len(printed.partition(".")[2])
            assert abs(ours - float(printed)) < 25 * 10**-decimals, (name, ours, printed)


def test_months_as_agents_have_the_same_likelihood():
    data = pf.datasets.rust1987(4, 90)
    model = pf.baselines.BusEngine(90, data.increments, reset=data.reset)
    whole = pf.baselines.NFXPLikelihood(model, data.panel).terms(model.example())
    split = pf.baselines.NFXPLikelihood(model, by_month(data.panel)).terms(model.example())
    assert split.total == pytest.approx(whole.total, rel=1e-13)
    assert split.parts().sum(axis=0) == pytest.approx(whole.parts().sum(axis=0), rel=1e-13)


REWARDS = ("RC", "cost[good]", "cost[bad]")


def fit_table3(grid, **options):
    """Two stages from the published point, under the paper's conventions."""
    data = pf.datasets.rust1987(4, 175, conventions=pf.datasets.CHANG)
    model = pf.models.EngineReplacement(175, data.increments, reset=data.reset)
    means = {"prior": GOOD, "start": as_arrays(published_theta()), "starts": 1, "grid": grid}
    return pf.fit(model, data.panel, pf.TwoStage(), **means, **options)


@pytest.fixture(scope="module")
def dynamics3():
    """The first stage alone, which no reward and no grid enters."""
    known = as_arrays(published_theta())
    return fit_table3(pf.Linear(2), fixed={name: known[name] for name in ("RC", "cost")})


@pytest.fixture(scope="module")
def table3():
    return fit_table3(pf.Smooth(15))


def test_the_dynamics_stay_within_a_two_hundredth_of_the_published_ones(dynamics3):
    assert dynamics3.converged
    for name, (printed, _) in TABLE_3.items():
        if name not in REWARDS:
            assert abs(dynamics3.params[name] - float(printed)) < 0.005


@pytest.mark.full
def test_the_rewards_stay_within_a_published_standard_error(table3):
    assert table3.converged
    for name in REWARDS:
        printed, printed_se = TABLE_3[name]
        assert abs(table3.params[name] - float(printed)) < float(printed_se)


def test_standard_errors_of_the_dynamics_are_the_published_ones(dynamics3):
    """The paper bootstrapped and printed one digit: half a unit of it, and 10 % for its draws."""
    se = dynamics3.standard_errors("sandwich")
    for name, (_, printed_se) in TABLE_3.items():
        if name not in REWARDS:
            assert se[name] == pytest.approx(
                float(printed_se), abs=0.0005 + 0.1 * float(printed_se)
            )


@pytest.mark.full
def test_dollars_are_scaled_as_in_the_paper(table3):
    """7513 dollars per RC: 0.201 and 0.945 here; the paper's own figures give 0.231 and 1.00."""
    money = dollars(table3)
    RC, cost = table3.params["RC"], table3.params[["cost[good]", "cost[bad]"]].to_numpy()
    np.testing.assert_allclose(money["estimate"].iloc[:2], 7.513 / RC * cost, rtol=1e-12)
    np.testing.assert_allclose(money["estimate"].iloc[2:4], 7.513 / RC * cost * 120, rtol=1e-12)
    gap = 7.513 / RC * (cost[1] - cost[0])
    assert money["estimate"].iloc[4] == pytest.approx(gap, rel=1e-12)
    assert (money["lower"] < money["estimate"]).all()
    assert 7.513 / 9.738 * np.array([0.3, 1.3]) == pytest.approx([0.231, 1.00], abs=5e-3)


def test_the_published_maximum_is_not_the_highest(dynamics3):
    """New engines in light use explain the mileage better, by more than 40."""
    light = {
        **dynamics3.theta,
        "stay": np.array([0.978, 0.966]),
        "increment": np.array([[0.185, 0.73, 0.084, 0.001], [0.005, 0.297, 0.649, 0.049]]),
    }
    found = pf.filter_beliefs(dynamics3.model, light, dynamics3.panel, prior=GOOD)
    assert found.log_sigma.sum() > dynamics3.llf_observation + 40


@pytest.mark.full
def test_a_small_replication_of_group_4(tmp_path):
    page = reproduce(tmp_path, plan=TINY, only=["serial", "buses", "modes"], n_jobs=1)
    results = json.loads((page.parent / "results.json").read_text())
    assert set(results["parts"]) == {"table3", "modes", "buses", "serial"}  # table3 is their ground
    assert results["missing"] == []
    assert results["facts"]["replacements"].startswith("dated by the odometer")
    proven = results["parts"]["table3"]["proven"]
    assert proven["low"] < proven["estimate"] < proven["high"]
    assert proven["high"] - proven["low"] < 0.1
    replaced = results["parts"]["buses"]["replacements"]
    assert len(replaced) == 33
    assert all(0 <= row["belief in bad"] <= 1 for row in replaced)
    # The paper: below 1.13 for all buses but one, which has 1.32.
    watson = sorted(row["miles: durbin_watson"] for row in results["parts"]["serial"]["by bus"])
    assert watson[-1] == pytest.approx(1.32, abs=0.01)
    assert watson[-2] == pytest.approx(1.13, abs=0.01)
    summary = results["parts"]["serial"]["summary"]
    failing = "buses with Ljung-Box p < 0.05"
    assert summary["fully observed"][failing] == 37
    assert summary["hidden condition"][failing] <= 6  # by chance 2 of 37; 7 or more once in 470
    assert len(results["parts"]["modes"]["words"]) == len(results["parts"]["modes"]["modes"])


@pytest.mark.study
def test_the_whole_replication_twice_the_same(tmp_path):
    """Every part, quick sizes, in one process and in two: the same results to the last bit."""
    options = {"plan": QUICK, "only": tuple(PARTS)}
    pages = [reproduce(tmp_path / str(n), **options, n_jobs=n) for n in (1, 2)]
    one, two = (json.loads((page.parent / "results.json").read_text()) for page in pages)
    assert one["missing"] == []
    assert one == two
    names = sorted(p.name for p in (pages[0].parent / "figures").iterdir())
    assert names == ["buses.svg", "figure2.svg", "policy.svg", "serial_dots.svg"]
    nearest = one["parts"]["conventions"]["nearest at 0.9999"]
    assert nearest["increments above 3"] == "dropped"
    assert abs(nearest["llf - published"]) < 5


@pytest.mark.full
def test_the_real_buses_tell_every_parameter_apart(table3):
    """Locally, that is. Expected standard errors are within a factor of three of the fit's own."""
    report = pf.identify(table3)
    assert report.identified
    assert report.observations.rank == report.observations.dimension == 8
    assert set(report.kernels["a"]) == {"replace"}
    assert set(report.kernels["kind"]) == {"reset"}
    assert report.mirrors == ()
    ratio = report.table["std err, these agents"] / table3.bse
    assert ratio.dropna().between(1 / 3, 3).all()
