"""Do intervals cover? Small in the default run; 500 replications as a study."""

import os

import numpy as np
import pytest
from joblib import Parallel, delayed

import pomdpfit as pf
from replication import coverage


@pytest.mark.full
def test_estimates_lie_within_their_errors_of_the_truth():
    """Two panels; 4.5 standard errors are exceeded once in 150,000 draws."""
    truth = coverage.truth_of("interior")
    for seed in (1, 2):
        row = coverage.replicate("interior", seed)
        for name in coverage.KINDS:
            assert row[name]["converged"]
            for parameter, value in row[name]["params"].items():
                se = row[name]["bse"]["sandwich"][parameter]
                assert abs(value - truth[parameter]) < 4.5 * se, (seed, name, parameter)


@pytest.mark.study
def test_coverage_of_500_replications():
    """Nominal 95 % within three Monte-Carlo standard errors (0.975 %), and rounded: 92 to 98 %."""
    run = Parallel(n_jobs=os.cpu_count())
    rows = run(delayed(coverage.replicate)("interior", seed) for seed in range(500))
    lines = coverage.table(rows, "interior")
    for line in lines:
        kind = "hessian" if line["estimator"] == "Joint" else "sandwich"
        assert 0.92 <= line[f"{kind}: cover"] <= 0.98, line
        # The Monte-Carlo standard error is itself known to 1 / sqrt(2 * 500) = 3.2 %, and the mean
        # of the estimated ones to less: four of these.
        assert line["sandwich: mean se"] == pytest.approx(line["mc se"], rel=0.13), line
    # Without the correction for the first stage the costs' intervals are far too short.
    bare = {x["parameter"]: x["uncorrected: cover"] for x in lines if x["estimator"] == "TwoStage"}
    assert bare["cost[good]"] < 0.85
    assert bare["cost[bad]"] < 0.85


@pytest.mark.study
def test_bootstrap_errors_agree_with_the_sandwich():
    """60 draws know a standard deviation to 9 %; 6 panels and the mean over them to 4 %."""
    run = Parallel(n_jobs=os.cpu_count())
    found = run(delayed(coverage.bootstrap_errors)(seed, 60) for seed in range(6))
    rows = run(delayed(coverage.replicate)("interior", seed) for seed in range(6))
    for name in coverage.KINDS:
        for kind in ("bootstrap", "parametric bootstrap"):
            for parameter in rows[0][name]["params"]:
                boot = np.mean([f["bse"][f"{name}, {kind}"][parameter] for f in found])
                sandwich = np.mean([r[name]["bse"]["sandwich"][parameter] for r in rows])
                assert boot == pytest.approx(sandwich, rel=0.2), (name, kind, parameter)


@pytest.mark.study
def test_near_the_boundary_the_summary_says_so():
    """A probability of 0.0015: every estimate of it is on its bound or said to be near it."""
    run = Parallel(n_jobs=os.cpu_count())
    rows = run(delayed(coverage.replicate)("near the boundary", seed) for seed in range(60))
    name = "increment[bad, 2]"
    for row in rows:
        for estimator in coverage.KINDS:
            fit = row[estimator]
            on, near = name in fit["boundary"], name in fit["near"]
            value, se = fit["params"][name], fit["bse"]["sandwich"][name]
            assert on == (value == 0.0)
            assert on or near or value > 2 * se
            assert np.isnan(se) == on
    assert 0.2 < np.mean([name in row["Joint"]["boundary"] for row in rows]) < 0.7


@pytest.mark.full
def test_the_summary_of_a_boundary_estimate():
    panel = coverage.panel_of(coverage.NEAR_BOUNDARY, 3)
    with pytest.warns(pf.ConvergenceWarning, match="boundary"):
        est = pf.fit(
            coverage.MODEL,
            panel,
            pf.TwoStage(),
            prior=coverage.PRIOR,
            grid=coverage.GRID,
            start=coverage.START,
            starts=1,
        )
    assert est.converged
    assert est.on_boundary
    assert "increment[bad, 2]" in est.boundary
