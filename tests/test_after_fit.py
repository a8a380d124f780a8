"""After a fit: the information's spectrum, and profiles of single parameters."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy import optimize, stats

import pomdpfit as pf
from pomdpfit import plots
from small_bus import MODEL, TRUTH, bus_fit, draw_panel

mpl.use("Agg")


@pytest.fixture(scope="module")
def panel():
    return draw_panel(0)


@pytest.fixture(scope="module")
def estimate(panel):
    return bus_fit(panel)


@pytest.fixture(scope="module")
def curve(estimate):
    return pf.profile_likelihood(estimate, "RC", points=7)


def test_the_spectrum_is_that_of_the_information(estimate):
    found = pf.weak_directions(estimate)
    H = estimate.information.bread
    D = found.directions.to_numpy()
    # Each direction is a move of one standard error, and they do not mix.
    np.testing.assert_allclose(D @ H @ D.T, np.eye(len(D)), atol=1e-6)
    assert found.eigenvalues.is_monotonic_increasing
    assert found.eigenvalues.sum() == pytest.approx(len(D))  # the trace of a correlation matrix
    assert "flattest" in str(found)


def test_a_weak_direction_is_named(panel):
    """Two costs that only ever appear as a sum: the direction between them is flat."""

    class Twice(pf.baselines.BusEngine):
        def parameters(self):
            parameters = dict(super().parameters())
            return {**parameters, "more": pf.Parameter(1.0)}

        def reward(self, theta):
            sum_ = {**theta, "cost": theta["cost"] + 100 * theta["more"]}
            return super().reward(sum_)

    model = Twice(bins=6, increments=3, discount=0.9)
    start = {**TRUTH, "cost": 500.0, "more": 1.0}
    with pytest.warns(pf.ConvergenceWarning):
        flat = pf.fit(model, panel, start=start)
    found = pf.weak_directions(flat)
    first = found.directions.iloc[0]
    assert len(found.warnings) == 1
    assert {"cost", "more"} == set(first.index[first.abs() > 1e-3 * first.abs().max()])
    assert first["cost"] / first["more"] == pytest.approx(-100, rel=1e-3)
    assert "weak direction" in str(flat.summary())


def test_a_sound_estimate_has_no_such_note(estimate):
    assert "weak direction" not in str(estimate.summary())
    assert pf.weak_directions(estimate).warnings == ()


def test_the_profile_is_the_best_for_each_value(estimate, curve):
    """The other parameters maximised by another optimiser, from elsewhere."""
    likelihood = estimate.setting.likelihood()
    value = float(curve.curve.index[0])

    def fall(y):
        theta = {
            **estimate.theta,
            "RC": np.array(value),
            "cost": np.array(1000 * y[0]),
            "increment": np.array([y[1], y[2], 1 - y[1] - y[2]]),
        }
        return -likelihood.terms(theta).total

    best = optimize.minimize(
        fall, [0.5, 0.4, 0.4], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}
    )
    assert curve.curve.iloc[0] == pytest.approx(-best.fun, abs=1e-5)


def test_the_profile_has_its_top_at_the_estimate(estimate, curve):
    assert curve.estimate == pytest.approx(estimate.params["RC"])
    assert (curve.curve.drop(curve.estimate) < curve.llf).all()
    assert curve.warnings == ()


def test_its_interval_is_where_the_ratio_test_ends(estimate, curve):
    """At the ends of the interval twice the fall is the quantile of chi-square."""
    ends = curve.conf_int()
    exact = pf.profile_likelihood(estimate, "RC", values=ends)
    fall = 2 * (curve.llf - exact.curve.drop(curve.estimate))
    # The root of the fall is interpolated between points one standard error apart.
    np.testing.assert_allclose(fall, stats.chi2.ppf(0.95, 1), rtol=0.02)
    assert ends[0] < curve.estimate < ends[1]


def test_a_profile_that_does_not_fall_says_so(estimate):
    near = float(estimate.params["RC"])
    found = pf.profile_likelihood(estimate, "RC", values=[near - 0.01, near + 0.01])
    assert found.conf_int() == (-np.inf, np.inf)
    assert "does not fall enough" in str(found)


def test_a_two_stage_estimate_is_profiled_jointly(panel):
    two = bus_fit(panel, pf.TwoStage())
    found = pf.profile_likelihood(two, "cost", points=3)
    assert found.llf >= two.llf - 1e-9
    assert len(found.curve) == 3


def test_an_unknown_parameter_is_refused(estimate):
    with pytest.raises(pf.EstimationError, match="no estimated parameter 'rc'"):
        pf.profile_likelihood(estimate, "rc")


def test_identify_needs_a_model_with_hidden_states(panel):
    with pytest.raises(pf.ModelError, match=r"needs a pf\.Model"):
        pf.identify(MODEL, TRUTH, panel)


def test_pictures_are_drawn(estimate, curve):
    ax = plots.profile(curve)
    assert ax.get_xlabel() == "RC"
    ax.clear()
    plots.spectrum(pf.weak_directions(estimate), ax=ax)
    assert len(ax.get_yticklabels()) == len(estimate.information.names)
