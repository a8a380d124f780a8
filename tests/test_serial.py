"""Serial correlation: residuals by brute force, at the truth and off it; textbook statistics."""

import numpy as np
import pytest
from scipy import stats

import pomdpfit as pf
from helpers import random_paths
from pomdpfit.inference._serial import serial_table
from reference import agent

X0 = np.array([0.7, 0.3])
PRIOR = pf.KnownPrior(X0)
THETA = {
    "RC": 2.0,
    "cost": np.array([100.0, 900.0]),
    "stay": np.array([0.95, 0.9]),
    "increment": np.array([[0.1, 0.3, 0.6], [0.7, 0.2, 0.1]]),
    "discount": 0.9,
}
LAGS = 6


def engine(**options):
    return pf.models.EngineReplacement(bins=12, increments=3, discount=0.9, **options)


def by_brute_force(P, x, panel, groups=None):
    """(z' - E z') / sd z' from the table P[z, s, a, z', s'] of each group, in plain loops."""
    e = np.full(panel.z.shape, np.nan)
    for i, t in np.argwhere(panel.score_observation):
        table = P if groups is None else P[groups[i]]
        z, a, z_next = panel.z[i, t], panel.a[i, t], panel.z[i, t + 1]
        chance = sum(x[i, t, s] * table[z, s, a].sum(axis=1) for s in range(x.shape[-1]))
        mean = sum(p * k for k, p in enumerate(chance))
        variance = sum(p * (k - mean) ** 2 for k, p in enumerate(chance))
        if variance > 1e-12:
            e[i, t] = (z_next - mean) / np.sqrt(variance)
    return e


def check_residuals(model, theta, panel, prior):
    P = model.kernel(theta).to_dense()
    x = pf.filter_beliefs(model, theta, panel, prior=prior).x
    expected = by_brute_force(P, x, panel)
    got = pf.observation_residuals(model, theta, panel, prior=prior)
    # A variance of at least a hundredth, from sums of a dozen terms of up to 11^2, is known to
    # some 1e-12 of itself.
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)
    return got


# ---- residuals ---------------------------------------------------------------------------------


def test_residuals_equal_brute_force_and_nothing_is_said_where_nothing_is_scored():
    """A certain reset and the last bin leave nothing to foresee."""
    model, rng = engine(), np.random.default_rng(0)
    P = model.kernel(THETA).to_dense()
    panel = random_paths(P, X0, (40, 25, 3), rng)
    top = [np.full(4, 11), np.zeros(3, dtype=int)]
    panel = pf.Panel.from_arrays(
        [*(panel.z[i, panel.present[i]] for i in range(3)), top[0]],
        [*(panel.a[i, panel.acted[i]] for i in range(3)), top[1]],
    )
    got = check_residuals(model, THETA, panel, PRIOR)
    kept_below_top = panel.continues & (panel.a == 0) & (panel.z < 11)
    np.testing.assert_array_equal(np.isfinite(got), kept_below_top)
    assert np.isnan(got[3]).all()

    scored = rng.random(panel.z.shape) < 0.5
    excluded = (rng.random(panel.z.shape) < 0.3) & ~scored
    some = panel.score(observation=scored)
    np.testing.assert_array_equal(
        pf.observation_residuals(model, THETA, some, prior=PRIOR), np.where(scored, got, np.nan)
    )
    # What does not inform changes the beliefs that come after it.
    without = panel.exclude_transitions(excluded)
    gaps = check_residuals(model, THETA, without, PRIOR)
    assert np.isnan(gaps[excluded]).all()
    both = np.isfinite(got) & np.isfinite(gaps)
    assert (got[both] != gaps[both]).any()


def test_residuals_of_a_kernel_that_is_the_same_at_every_z():
    """The tiger: one row serves all z, and z' is what was heard."""
    model = pf.models.Tiger()
    theta = model.example()
    panel = random_paths(model.kernel(theta).to_dense(), X0, (20, 9), np.random.default_rng(1))
    got = check_residuals(model, theta, panel, PRIOR)
    np.testing.assert_array_equal(np.isfinite(got), panel.continues)


def test_residuals_of_groups_are_those_of_each_groups_own_kernel():
    model, rng = engine(reset="increment"), np.random.default_rng(2)
    rows = np.stack([THETA["increment"], THETA["increment"][:, [1, 2, 0]]])
    tables = [model.kernel({**THETA, "increment": own}).to_dense() for own in rows]
    labels = ["A", "B", "A"]
    parts = [random_paths(tables["AB".index(label)], X0, (15,), rng) for label in labels]
    panel = pf.Panel.from_arrays([p.z[0] for p in parts], [p.a[0, :14] for p in parts])
    panel = panel.with_groups(labels, ["A", "B"])
    grouped = pf.models.Grouped(model, ["A", "B"], own=["increment"])
    theta = {**THETA, "increment": rows, "group": 0.0}
    x = pf.filter_beliefs(grouped, theta, panel, prior=PRIOR).x
    expected = by_brute_force(tables, x, panel, groups=[0, 1, 0])
    got = pf.observation_residuals(grouped, theta, panel, prior=PRIOR)
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)
    assert np.isfinite(got[:, :14]).all()


# ---- at the truth and off it -------------------------------------------------------------------

AGENTS, PERIODS = 25, 300


@pytest.fixture(scope="module")
def drawn():
    """Agents that replace from bin 9 on, so that the last bin is never left behind."""
    rng = np.random.default_rng(3)
    P = engine(reset="increment").kernel(THETA).to_dense()
    policy = lambda z, x: np.array([0.0, 1.0]) if z >= 9 else np.array([0.95, 0.05])
    paths = [agent.simulate(P, policy, X0, 0, PERIODS, rng) for _ in range(AGENTS)]
    return pf.Panel.from_arrays([path[0] for path in paths], [path[1] for path in paths])


def test_at_the_truth_residuals_are_noise(drawn):
    """e_t has mean 0 and variance 1 given all that came before: sums of it are martingales."""
    model = engine(reset="increment")
    e = pf.observation_residuals(model, THETA, drawn, prior=PRIOR)[:, :PERIODS]
    assert np.isfinite(e).all()
    n = e.size
    assert abs(e.mean()) < 4 / np.sqrt(n)
    assert abs((e**2).mean() - 1) < 4 * np.sqrt(((e**4).mean() - 1) / n)
    table = pf.serial_correlation(model, THETA, drawn, prior=PRIOR, lags=LAGS)
    assert (table["residuals"] == PERIODS).all()
    # E[e_t^2 e_{t-k}^2] = 1, so autocorrelations vary by 1 / PERIODS whatever the law of e_t, and
    # Durbin-Watson = 2 (1 - r_1) + O(1 / PERIODS).
    error = 2 / np.sqrt(n)
    assert abs(table["durbin_watson"].mean() - 2) < 4 * error + 4 / PERIODS
    # Chi-square with LAGS degrees of freedom has variance 2 LAGS; its mean is off by O(1/PERIODS).
    band = 4 * np.sqrt(2 * LAGS / AGENTS) + LAGS**2 / PERIODS
    assert abs(table["ljung_box"].mean() - LAGS) < band
    assert stats.kstest(table["p_value"], "uniform").pvalue > 1e-4


def test_a_model_without_the_hidden_condition_leaves_correlation_behind(drawn):
    """With one condition every month is alike; bad months follow bad months all the same."""
    model = engine(reset="increment", conditions=1)
    z_next = np.roll(drawn.z, -1, axis=1)
    step = np.where(drawn.a == 1, z_next, z_next - drawn.z)[drawn.score_observation]
    share = np.bincount(step, minlength=3) / len(step)
    theta = {"RC": 2.0, "cost": np.array([500.0]), "increment": share[None], "discount": 0.9}
    e = pf.observation_residuals(model, theta, drawn)[:, :PERIODS]
    # Standardised by the sample's own moments, but for what the last bin cuts off: nothing here.
    np.testing.assert_allclose([e.mean(), e.var()], [0, 1], atol=1e-12)
    table = pf.serial_correlation(model, theta, drawn, lags=LAGS)
    assert table["durbin_watson"].mean() < 2 - 10 * 2 / np.sqrt(e.size)
    assert table["p_value"].median() < 0.01
    right = pf.serial_correlation(engine(reset="increment"), THETA, drawn, prior=PRIOR, lags=LAGS)
    assert table["ljung_box"].sum() > 2 * right["ljung_box"].sum()


# ---- the statistics ----------------------------------------------------------------------------


def panel_of(lengths, agents=None):
    rows = [np.zeros(length, dtype=int) for length in lengths]
    return pf.Panel.from_arrays(rows, rows, agents=agents)


@pytest.mark.parametrize("lags", [1, 4, 12])
def test_without_gaps_the_statistics_are_the_textbooks(lags):
    rng = np.random.default_rng(4)
    e = 0.5 + rng.normal(size=(2, 40)).cumsum(axis=1) / 3 + rng.normal(size=(2, 40))
    table = serial_table(e, panel_of([40, 40]), lags)
    for i, row in enumerate(table.itertuples()):
        u, n = e[i] - e[i].mean(), 40
        square = sum(u[t] ** 2 for t in range(n))
        watson = sum((u[t] - u[t - 1]) ** 2 for t in range(1, n)) / square
        r = [sum(u[t] * u[t - k] for t in range(k, n)) / square for k in range(1, lags + 1)]
        box = n * (n + 2) * sum(r[k - 1] ** 2 / (n - k) for k in range(1, lags + 1))
        assert row.residuals == n
        np.testing.assert_allclose(row.durbin_watson, watson, rtol=1e-13)
        np.testing.assert_allclose(row.ljung_box, box, rtol=1e-12)
        np.testing.assert_allclose(row.p_value, 1 - stats.chi2.cdf(box, lags), atol=1e-14)


def test_gaps_are_passed_over_and_only_neighbours_in_time_count():
    rng = np.random.default_rng(5)
    e = rng.normal(size=30)
    gaps = [0, 7, 8, 20, 29]
    e[gaps] = np.nan
    row = serial_table(e[None], panel_of([30]), lags=3).iloc[0]
    here = [t for t in range(30) if t not in gaps]
    n, mean = len(here), np.mean(e[here])
    u = {t: e[t] - mean for t in here}
    square = sum(v**2 for v in u.values())
    pairs = {k: [(u[t], u[t - k]) for t in here if t - k in u] for k in (1, 2, 3)}
    # The mean square of the differences of neighbours, over the mean square of what differs.
    watson = np.mean([(p - q) ** 2 for p, q in pairs[1]]) * (n - 1) / square
    # A sum of products has the variance s^4 for each pair; what is not there adds nothing to it.
    sums = {k: sum(p * q for p, q in pairs[k]) for k in pairs}
    box = (1 + 2 / n) * sum(sums[k] ** 2 / ((square / n) ** 2 * len(pairs[k])) for k in pairs)
    assert row["residuals"] == n
    np.testing.assert_allclose(row["durbin_watson"], watson, rtol=1e-13)
    np.testing.assert_allclose(row["ljung_box"], box, rtol=1e-12)
    np.testing.assert_allclose(row["p_value"], stats.chi2.sf(box, 3), rtol=1e-12)


# Mileage of engines that are replaced in 13 % of months, whatever their mileage: that month's
# transition is certain and has no residual.
MANY, LONG, REPLACED = 600, 200, 0.13


@pytest.fixture(scope="module")
def noise():
    """Increments that are independent, with nothing hidden, and the model that says so."""
    rng = np.random.default_rng(7)
    share = np.array([0.3, 0.4, 0.3])
    z, a = np.zeros((2, MANY, LONG), dtype=int)
    for t in range(LONG):
        a[:, t] = rng.random(MANY) < REPLACED
        if t + 1 < LONG:
            z[:, t + 1] = np.where(a[:, t] == 1, 0, z[:, t] + rng.choice(3, MANY, p=share))
    model = pf.models.EngineReplacement(bins=200, increments=3, discount=0.9, conditions=1)
    theta = {"RC": 2.0, "cost": np.array([500.0]), "increment": share[None], "discount": 0.9}
    return model, theta, pf.Panel.from_arrays(z, a)


def taken_for_zeros(e, lags):
    """The statistic that divides by n - k as if no pair of periods were missing."""
    n, u = np.isfinite(e).sum(axis=1), np.nan_to_num(e - np.nanmean(e, axis=1, keepdims=True))
    r = [(u[:, k:] * u[:, :-k]).sum(axis=1) / (u**2).sum(axis=1) for k in range(1, lags + 1)]
    return n * (n + 2) * sum(r[k - 1] ** 2 / (n - k) for k in range(1, lags + 1))


@pytest.mark.parametrize(("left_out", "lags"), [(0.0, 12), (0.3, 12), (0.5, 6)])
def test_with_gaps_the_statistic_has_the_law_that_its_p_value_presumes(noise, left_out, lags):
    """Mean `lags`, size 5 %: one that takes gaps for zeros has mean 7.3 for 12 lags with 30 % out.

    The variance of chi-square is 2 lags; what is of the order of lags^2 / (residuals of an agent)
    is allowed for, as without gaps. Where gaps were zeros no more than 1 % were rejected.
    """
    model, theta, panel = noise
    scored = np.random.default_rng(8).random(panel.z.shape) >= left_out
    panel = panel.score(observation=scored & panel.score_observation)
    table = pf.serial_correlation(model, theta, panel, lags=lags)
    residuals = table["residuals"].mean()
    assert residuals == pytest.approx((1 - left_out) * (1 - REPLACED) * LONG, rel=0.02)
    band = 4 * np.sqrt(2 * lags / MANY) + 0.5 * lags**2 / residuals
    assert abs(table["ljung_box"].mean() - lags) < band
    rejected = (table["p_value"] < 0.05).mean()
    assert abs(rejected - 0.05) < 4 * np.sqrt(0.05 * 0.95 / MANY)
    zeros = taken_for_zeros(pf.observation_residuals(model, theta, panel), lags)
    if left_out == 0.3:
        assert zeros.mean() == pytest.approx(7.3, abs=0.5)
        assert (zeros > stats.chi2.isf(0.05, lags)).mean() < 0.02
        assert (zeros < table["ljung_box"]).all()


def test_a_lag_without_a_pair_counts_for_nothing():
    """Every second period scored: the odd lags have no pair, and no degree of freedom."""
    e = np.random.default_rng(9).normal(size=(1, 60))
    e[0, 1::2] = np.nan
    row = serial_table(e, panel_of([60]), lags=5).iloc[0]
    alone = serial_table(e[:, ::2], panel_of([30]), lags=2).iloc[0]
    np.testing.assert_allclose(row["ljung_box"], alone["ljung_box"], rtol=1e-12)
    assert row["df"] == 2
    assert row["p_value"] == pytest.approx(stats.chi2.sf(row["ljung_box"], 2), rel=1e-12)


def test_no_pair_is_taken_across_two_agents_or_beyond_a_record():
    """What lies beyond an agent's last period, and the next agent, are not there."""
    rng = np.random.default_rng(10)
    e = rng.normal(size=(2, 20))
    table = serial_table(e, panel_of([12, 20]), lags=3)
    for length, row, own in zip((12, 20), table.itertuples(), e, strict=True):
        u = own[:length] - own[:length].mean()
        square = (u**2).sum()
        box = sum(
            (u[k:] @ u[:-k]) ** 2 / ((square / length) ** 2 * (length - k)) for k in (1, 2, 3)
        )
        assert row.ljung_box == pytest.approx((1 + 2 / length) * box, rel=1e-12)


@pytest.mark.parametrize(("length", "told"), [(0, False), (1, False), (5, False), (6, True)])
def test_too_few_residuals_say_nothing(length, told):
    e = np.full((1, 9), np.nan)
    e[0, :length] = np.arange(length) % 3
    row = serial_table(e, panel_of([9]), lags=4).iloc[0]
    assert row["residuals"] == length
    assert row[["durbin_watson", "ljung_box", "p_value"]].notna().all() == told


def test_residuals_that_do_not_vary_say_nothing():
    row = serial_table(np.ones((1, 9)), panel_of([9]), lags=2).iloc[0]
    assert row["residuals"] == 9
    assert row[["durbin_watson", "ljung_box", "p_value"]].isna().all()


def test_each_agent_has_a_row_under_its_own_name_whatever_lies_beyond_its_last_period():
    agents = [(5297, 0), (5297, 1), (5298, 0)]
    rng = np.random.default_rng(6)
    e = rng.normal(size=(3, 20))
    table = serial_table(e, panel_of([20, 12, 9], agents), lags=2)
    assert list(table.index) == agents
    assert table.index.name == "agent"
    assert table["residuals"].tolist() == [20, 12, 9]
    alone = serial_table(e[1:2, :12], panel_of([12], agents[1:2]), lags=2)
    np.testing.assert_array_equal(table.iloc[1], alone.iloc[0])


@pytest.mark.parametrize("lags", [0, -3])
def test_lags_that_are_none_are_refused_with_their_value(lags):
    with pytest.raises(pf.EstimationError, match=f"lags.*{lags}"):
        serial_table(np.zeros((1, 9)), panel_of([9]), lags)


def test_no_neighbours_no_durbin_watson():
    """Every second period scored: nothing can be said of neighbours, least of all that it is 0."""
    e = np.random.default_rng(0).normal(size=(1, 60))
    e[0, 1::2] = np.nan
    panel = pf.Panel.from_arrays(np.zeros((1, 60), dtype=int), np.zeros((1, 60), dtype=int))
    assert np.isnan(serial_table(e, panel, lags=2)["durbin_watson"].iloc[0])
