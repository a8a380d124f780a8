"""After a fit: the information's spectrum, and profiles of single parameters."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy import optimize, special, stats

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


# ---- near a bound: increments of engines that are never replaced, whose law is binomial ---------


def counted(counts):
    """A fit to increments with these counts; at discount zero choices say nothing of them."""
    steps = np.random.default_rng(0).permutation(np.repeat(np.arange(3), counts))
    z = np.zeros((3, len(steps) // 3 + 1), dtype=int)
    z[:, 1:] = steps.reshape(3, -1).cumsum(axis=1)
    model = pf.baselines.BusEngine(bins=80, increments=3, discount=0.0)
    panel = pf.Panel.from_arrays(z, np.zeros_like(z))
    return pf.fit(model, panel, fixed={"RC": 2.0, "cost": 0.0}, starts=1)


def binomial_fall(p, events, n):
    """Twice the fall of the binomial log-likelihood, all other shares in proportion."""
    top = events * np.log(events / n) if events else 0.0
    top += (n - events) * np.log(1 - events / n)
    return 2 * (top - stats.binom.logpmf(events, n, p) + np.log(special.comb(n, events)))


QUANTILE = stats.chi2.ppf(0.95, 1)


def test_towards_a_bound_the_interval_ends_where_the_profile_does():
    """Two events of 105: the profile falls without limit towards zero, and its root is .0032."""
    two = counted([43, 60, 2])
    near = pf.profile_likelihood(two, "increment[2]", values=[1e-9])
    assert 2 * (near.llf - near.curve[1e-9]) == pytest.approx(binomial_fall(1e-9, 2, 105), rel=1e-6)
    assert binomial_fall(1e-9, 2, 105) == pytest.approx(63, abs=0.5)
    found = pf.profile_likelihood(two, "increment[2]")
    root = lambda low, high: optimize.brentq(
        lambda p: binomial_fall(p, 2, 105) - QUANTILE, low, high
    )
    lower, upper = found.conf_int()
    assert root(1e-6, 2 / 105) == pytest.approx(0.0032, abs=5e-5)
    # Bisection ends where twice the fall is known to a hundredth: to 1 % of this lower end.
    assert lower == pytest.approx(root(1e-6, 2 / 105), rel=0.01)
    assert upper == pytest.approx(root(2 / 105, 0.5), rel=0.02)  # taken as straight between points
    assert found.warnings == ()
    assert found.bounds == (0.0, 1.0)


@pytest.mark.filterwarnings("ignore::pomdpfit.ConvergenceWarning")
def test_an_estimate_on_its_bound_has_an_interval_that_ends_there():
    """No event of 108: l(p) = 108 log(1 - p), so the upper end is 1 - exp(-3.84 / 216) = .0176."""
    none = counted([46, 62, 0])
    assert none.boundary == ("increment[2]",)
    upper = 1 - np.exp(-QUANTILE / 216)
    assert upper == pytest.approx(0.0176, abs=5e-5)
    values = [0.0, 0.006, 0.012, 0.018, 0.024]
    for given, close in ((values, 0.02), (None, 0.01)):
        profile = pf.profile_likelihood(none, "increment[2]", values=given)
        assert profile.conf_int()[0] == 0
        assert profile.conf_int()[1] == pytest.approx(upper, rel=close)
        assert profile.warnings == ()
        assert "is the parameter's bound" in str(profile)
        falls = 2 * (profile.llf - profile.curve)
        expected = [binomial_fall(p, 0, 108) for p in profile.curve.index]
        np.testing.assert_allclose(falls, expected, atol=1e-6)


def test_a_value_at_which_the_fit_fails_is_said():
    """Zero is impossible where there were events; beyond the bounds there is nothing to try."""
    two = counted([46, 60, 2])
    found = pf.profile_likelihood(two, "increment[2]", values=[0.0, 0.01, 0.1])
    assert found.conf_int()[0] == -np.inf
    assert any("increment[2] = 0 the fit did not converge" in text for text in found.warnings)
    assert any("does not fall enough" in text for text in found.warnings)
    with pytest.raises(pf.EstimationError, match=r"lies between 0 and 1, but values has -0\.1"):
        pf.profile_likelihood(two, "increment[2]", values=[-0.1, 0.01])


class CostsMoney(pf.baselines.BusEngine):
    """Mileage is never a gain."""

    def parameters(self):
        return {**super().parameters(), "cost": pf.Parameter(1.0, pf.Positive())}


@pytest.mark.parametrize(("cost", "reaches"), [(8.0, True), (25.0, False)])
def test_the_bound_is_the_end_only_where_the_profile_says_so(cost, reaches):
    """At discount zero choices are a logistic regression: log odds -RC + .001 cost z."""
    rng = np.random.default_rng(11)
    z, a = np.zeros((2, 100, 2), dtype=int)
    z[:, 0] = np.arange(100) % 60
    a[:, 0] = rng.random(100) < special.expit(-2 + 0.001 * cost * z[:, 0])
    z[:, 1] = np.where(a[:, 0] == 1, 0, z[:, 0] + np.arange(100) % 3)

    def fall(cost):
        v = -2 + 0.001 * cost * z
        return -2 * (a * v - np.logaddexp(0, v)).sum()

    best = optimize.minimize_scalar(fall, bounds=(0, 300), method="bounded")
    excess = lambda cost: fall(cost) - best.fun - QUANTILE
    assert (excess(0.0) < 0) == reaches
    model = CostsMoney(bins=80, increments=3, discount=0.0)
    est = pf.fit(model, pf.Panel.from_arrays(z, a), fixed={"RC": 2.0}, starts=1)
    assert est.params["cost"] == pytest.approx(best.x, rel=1e-3)
    assert 0 < est.params["cost"] < 3 * est.bse["cost"]  # so near is the bound
    found = pf.profile_likelihood(est, "cost", points=5)
    lower, upper = found.conf_int()
    # As above the upper end is interpolated between points 1.5 standard errors apart.
    assert upper == pytest.approx(optimize.brentq(excess, best.x, 1000), rel=0.03)
    if reaches:
        assert lower == 0
        assert "is the parameter's bound" in str(found)
    else:
        assert lower == pytest.approx(optimize.brentq(excess, 0, best.x), rel=0.03)
    assert found.warnings == ()


def test_a_profile_of_which_no_fit_succeeds_is_refused():
    alone = counted([46, 60, 2])
    entries = {"increment[0]": float(alone.params["increment[0]"])}
    alone = pf.fit(alone.model, alone.panel, fixed={"RC": 2.0, "cost": 0.0, **entries}, starts=1)
    with pytest.raises(pf.EstimationError, match=r"no fit of the profile converged.*0\.9"):
        pf.profile_likelihood(alone, "increment[2]", values=[0.9])


def test_a_two_stage_estimate_is_profiled_jointly(panel):
    two = bus_fit(panel, pf.TwoStage())
    found = pf.profile_likelihood(two, "cost", points=3)
    assert found.llf >= two.llf - 1e-9
    assert len(found.curve) == 3


def test_an_unknown_parameter_is_refused(estimate):
    with pytest.raises(pf.EstimationError, match="no estimated parameter 'rc'"):
        pf.profile_likelihood(estimate, "rc")


def test_identify_needs_a_model_with_hidden_states(panel):
    with pytest.raises(pf.ModelError, match=r"is fully observed"):
        pf.identify(MODEL, TRUTH, panel)


def test_pictures_are_drawn(estimate, curve):
    ax = plots.profile(curve)
    assert ax.get_xlabel() == "RC"
    ax.clear()
    plots.spectrum(pf.weak_directions(estimate), ax=ax)
    assert len(ax.get_yticklabels()) == len(estimate.information.names)
