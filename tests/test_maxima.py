"""What counts as a maximum, and what is shown of a search that did not converge."""

import dataclasses
import json

import numpy as np
import pytest
from matplotlib import pyplot as plt
from typer.testing import CliRunner

import pomdpfit as pf
from report_kinds import KINDS
from small_bus import TRUTH, bus_fit, draw_panel

FAR = {"RC": 57.0, "cost": 20_000.0}  # more than four steps from the maximum, which one is at


@pytest.fixture(scope="module")
def panel():
    return draw_panel(0)


@pytest.fixture(scope="module")
def est(panel):
    """One start converges within four steps, the other is cut off."""
    return bus_fit(panel, pf.TwoStage(pf.BHHH(max_steps=4)), starts={"far": FAR})


@pytest.fixture(scope="module")
def cut_off(panel):
    with pytest.warns(pf.ConvergenceWarning, match=r'withheld.*est.summary\(kind="hessian"\)'):
        return bus_fit(panel, pf.Joint(pf.BHHH(max_steps=1)))


def test_a_start_that_ran_out_of_steps_is_no_maximum(est):
    assert est.converged
    assert est.modes["converged"].tolist() == [True]
    assert est.modes["starts"].tolist() == [1]
    assert est.starts["mode"].to_dict() == {"start": 1, "far": 0}
    assert est.starts["result"].to_dict() == {"start": "converged", "far": "max steps"}
    assert est.starts.loc["far", "llf"] < est.llf - 1000


def test_it_is_counted_apart_in_the_summary(est):
    text = " ".join(str(est.summary()).split())
    assert "Maxima (starts): 1 (1/2 led here)" in text
    assert "Not converged: 1/2 starts" in text
    assert "other maxima" not in text
    where = f"far (max steps, log-likelihood {est.starts.loc['far', 'llf']:,.3f})"
    assert f"1 of 2 starts did not converge: {where}" in text


def test_it_is_counted_apart_in_the_picture(est):
    ax = pf.plots.modes(est)
    assert ax.get_title() == "1 of 2 starts did not converge"
    assert [t.get_text() for t in ax.get_yticklabels()] == ["mode 1"]
    plt.close(ax.figure)


def test_it_is_counted_apart_in_the_report(est, tmp_path):
    html = est.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "1 of 2 starts led to this maximum; 1 of 2 starts did not converge: far" in html
    assert "other was found" not in html
    assert "mode 0" not in html
    assert "none" in html


def test_it_is_counted_apart_on_the_command_line_and_in_the_file(est, tmp_path):
    est.save(tmp_path / "fit.zip")
    from pomdpfit.cli import app

    shown = CliRunner().invoke(app, ["show", str(tmp_path / "fit.zip")])
    assert "1 of 2 starts did not converge: far (max steps" in " ".join(shown.stdout.split())
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "fit.zip"), "--json"])
    document = json.loads(shown.stdout)
    assert len(document["modes"]) == 1
    ended = {row["start"]: (row["mode"], row["result"]) for row in document["starts"]}
    assert ended == {"start": (1, "converged"), "far": (0, "max steps")}


def test_a_start_that_stops_beside_a_maximum_that_another_reaches_takes_nothing_from_it(panel, est):
    """The first start needs a fourth step: the other begins at the maximum."""
    options = {"fixed": {"increment": est.theta["increment"]}}  # so that there is one stage
    with pytest.warns(pf.ConvergenceWarning, match="max_steps"):
        bus_fit(panel, pf.TwoStage(pf.BHHH(max_steps=3)), **options)
    options["starts"] = {"there": est.theta}
    both = bus_fit(panel, pf.TwoStage(pf.BHHH(max_steps=3)), **options)
    assert both.converged
    assert both.modes["starts"].tolist() == [2]


def test_standard_errors_of_a_fit_that_did_not_converge_are_withheld(cut_off):
    assert cut_off.result is pf.Result.MAX_STEPS
    for found in (cut_off.bse, cut_off.tvalues, cut_off.pvalues, cut_off.conf_int()):
        assert found.isna().to_numpy().all()
    assert cut_off.cov_params().isna().all(axis=None)
    assert cut_off.to_frame()[["std err", "P>|z|"]].isna().all(axis=None)
    assert np.isnan(cut_off.wald_test("RC = 2").statistic)
    assert cut_off.delta_method(lambda th: th["RC"])["std err"].isna().all()
    text = " ".join(str(cut_off.summary()).split())
    assert "Covariance: withheld" in text
    assert "Maxima (starts): 0 (not this)" in text
    assert "withheld: this is no maximum" in text
    ax = pf.plots.coefficients(cut_off)
    assert ax.get_title() == "not converged: standard errors are withheld"
    plt.close(ax.figure)


def test_counterfactuals_have_no_bands_then():
    lost = dataclasses.replace(KINDS["finite horizon"]().written_down(), result=pf.Result.MAX_STEPS)
    with pytest.raises(pf.EstimationError, match=r"no covariance \(the fit did not converge\)"):
        pf.counterfactual(lost, {"RC": 3.0})


def test_they_are_shown_on_request(cut_off):
    """As at a maximum: the inverse of the negative Hessian there."""
    errors = np.sqrt(np.diag(np.linalg.inv(-cut_off.information.hessian)))
    free = list(cut_off.information.names)
    np.testing.assert_allclose(cut_off.standard_errors("hessian")[free], errors, rtol=1e-10)
    assert cut_off.to_frame(kind="hessian")["std err"].notna().all()
    assert np.isfinite(cut_off.wald_test("RC = 2", kind="hessian").statistic)
    assert f"{errors[free.index('RC')]:.4f}" in str(cut_off.summary(kind="hessian"))


def test_where_nothing_converges_no_maximum_is_claimed(panel):
    with pytest.warns(pf.ConvergenceWarning, match="not converged"):
        lost = bus_fit(panel, pf.TwoStage(pf.BHHH(max_steps=2)), starts={"far": FAR}, start=TRUTH)
    assert not lost.modes["converged"].any()
    assert len(lost.modes) == 1
    assert "2 of 2 starts did not converge: start (max steps" in " ".join(str(lost).split())
