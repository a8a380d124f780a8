"""Pre-tests without a model: brute force, exact size, power where something is hidden."""

import itertools
import os

import numpy as np
import pytest
from scipy import stats

import pomdpfit as pf
from helpers import random_kernel, random_paths
from small_bus import draw_panel

ALPHA = 0.05


def within(rejected, of, share=ALPHA, error=1e-4):
    """Whether a count is what a binomial with this share could give, but for once in 5,000."""
    low, high = stats.binom.ppf([error, 1 - error], of, share)
    return low <= rejected <= high


# ---- brute force -------------------------------------------------------------------------------


def brute_residuals(panel, use, increments):
    """(y - mean) / sd of every cell, in plain loops."""
    e, cells = np.full(panel.z.shape, np.nan), {}
    for i, t in np.argwhere(use):
        y = panel.z[i, t + 1] - (panel.z[i, t] if increments else 0)
        cell = (panel.a[i, t],) if increments else (panel.z[i, t], panel.a[i, t])
        cells.setdefault(cell, []).append((i, t, y))
    for rows in cells.values():
        y = np.array([row[2] for row in rows], dtype=float)
        if y.std() > 0:
            for (i, t, _), v in zip(rows, (y - y.mean()) / y.std(), strict=True):
                e[i, t] = v
    return e


def brute_statistic(panel, e, increments):
    """Neighbours, the first less its mean in the cell of the second."""
    pairs = {}
    for i, t in np.argwhere(np.isfinite(e)):
        if t > 0 and np.isfinite(e[i, t - 1]):
            cell = (panel.a[i, t],) if increments else (panel.z[i, t], panel.a[i, t])
            pairs.setdefault(cell, []).append((e[i, t - 1], e[i, t]))
    products = [
        (before - np.mean([p[0] for p in rows])) * after
        for rows in pairs.values()
        for before, after in rows
    ]
    return sum(products) / np.sqrt(sum(p**2 for p in products)), len(products)


@pytest.mark.parametrize("increments", [False, True])
def test_serial_dependence_equals_brute_force_on_the_rows_that_count(increments):
    rng = np.random.default_rng(0)
    panel = random_paths(random_kernel(rng, 3, 2, 2), [0.5, 0.5], (30, 18, 25, 2), rng)
    unscored, dumb = rng.random((2, *panel.z.shape)) < 0.15
    panel = panel.score(observation=~unscored).exclude_transitions(dumb)
    got = pf.serial_dependence(panel, increments=increments, lags=3)
    e = brute_residuals(panel, panel.continues & ~unscored & ~dumb, increments)
    # Sums of at most 75 terms of order one.
    np.testing.assert_allclose(got.residuals, e, atol=1e-12)
    statistic, pairs = brute_statistic(panel, e, increments)
    assert got.statistic == pytest.approx(statistic, abs=1e-10)
    assert got.pvalue == pytest.approx(2 * stats.norm.sf(abs(statistic)), abs=1e-10)
    assert got.pairs == pairs
    assert list(got.table.index) == list(panel.agents)


def brute_g(rows):
    """2 sum n log(n n_cell / (n_past,cell n_cell,next)) over (past, cell, next)."""
    count = lambda keep: {
        key: sum(keep(row) == key for row in rows) for key in {keep(row) for row in rows}
    }
    whole, known = count(lambda r: r), count(lambda r: (r[0], r[1]))
    after, cell = count(lambda r: (r[1], r[2])), count(lambda r: r[1])
    return 2 * sum(
        n * np.log(n * cell[c] / (known[p, c] * after[c, o])) for (p, c, o), n in whole.items()
    )


def triples(panel, increments):
    """(period, past, cell, next) of all that follow each other."""
    out = []
    for i, t in np.argwhere(panel.continues):
        if t > 0:
            z, a = panel.z[i], panel.a[i]
            past = (z[t] - z[t - 1], a[t - 1]) if increments else (z[t - 1], a[t - 1])
            cell = (a[t],) if increments else (z[t], a[t])
            out.append((t, past, cell, z[t + 1] - (z[t] if increments else 0)))
    return out


@pytest.mark.parametrize("increments", [False, True])
def test_the_order_statistic_equals_brute_force(increments):
    rng = np.random.default_rng(1)
    panel = random_paths(random_kernel(rng, 3, 2, 2), [0.5, 0.5], (20, 15, 20), rng)
    got = pf.markov_order_test(panel, increments=increments, replicates=9)
    rows = [row[1:] for row in triples(panel, increments)]
    assert got.table.loc["observations", "G"] == pytest.approx(brute_g(rows), abs=1e-9)
    assert got.table.loc["observations", "rows"] == len(rows)
    choices = [
        ((panel.z[i, t - 1], panel.a[i, t - 1]), panel.z[i, t], panel.a[i, t])
        for i, t in np.argwhere(panel.acted)
        if t > 0
    ]
    if not increments:
        assert got.table.loc["choices", "G"] == pytest.approx(brute_g(choices), abs=1e-9)


def test_the_p_value_is_that_of_all_exchanges():
    """Five agents over three periods: every order of what comes next in each cell is listed."""
    z = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1], [1, 0, 0, 0]])
    panel = pf.Panel.from_arrays(z, np.zeros((5, 3), dtype=int))
    rows = triples(panel, increments=False)
    strata = [
        [k for k, r in enumerate(rows) if (r[0], r[2]) == s] for s in {(r[0], r[2]) for r in rows}
    ]
    observed, above, total = brute_g([row[1:] for row in rows]), 0, 0
    for orders in itertools.product(*(itertools.permutations(s) for s in strata)):
        mixed = list(rows)
        for own, other in zip(strata, orders, strict=True):
            for k, j in zip(own, other, strict=True):
                mixed[k] = (*rows[k][:3], rows[j][3])
        above += brute_g([row[1:] for row in mixed]) >= observed - 1e-9
        total += 1
    share, draws = above / total, 4000
    assert 0.01 < share < 0.9  # neither bound is met by chance
    got = pf.markov_order_test(panel, replicates=draws).pvalue
    assert abs(got - share) < 4 * np.sqrt(share * (1 - share) / draws) + 1 / draws


# ---- size --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fully_observed():
    """Panels of an MDP, small enough to have sparse cells."""
    return [draw_panel(seed, agents=25, periods=10) for seed in range(300)]


@pytest.mark.parametrize("increments", [False, True])
def test_serial_dependence_keeps_its_size(fully_observed, increments):
    options = {"increments": increments, "actions": [0] if increments else None, "lags": 1}
    p = np.array([pf.serial_dependence(panel, **options).pvalue for panel in fully_observed])
    assert within((p <= ALPHA).sum(), len(p))
    assert stats.kstest(p, "uniform").pvalue > 1e-4


@pytest.mark.full
def test_the_order_test_keeps_its_size_where_chi_square_does_not(fully_observed):
    tables = [pf.markov_order_test(panel, replicates=39).table for panel in fully_observed]
    for name in ("observations", "choices"):
        p = np.array([table.loc[name, "p_value"] for table in tables])
        assert within((p <= ALPHA).sum(), len(p)), name
        # On a grid of fortieths a uniform law is a step function, a fortieth away at most.
        assert stats.kstest(p, "uniform").statistic < 1 / 40 + 2.2 / np.sqrt(len(p)), name
    naive = np.array([table.loc["observations", "chi2_p"] for table in tables])
    assert (naive <= ALPHA).sum() > stats.binom.ppf(0.9999, len(naive), ALPHA)


# ---- power -------------------------------------------------------------------------------------


def persistent(seed, agents=40, periods=20):
    """z is drawn by a hidden state that stays for ten periods on average."""
    P = np.zeros((2, 2, 2, 2, 2))
    for z, s, a, z1, s1 in itertools.product(range(2), repeat=5):
        P[z, s, a, z1, s1] = (0.8 if z1 == s else 0.2) * (0.9 if s1 == s else 0.1)
    return random_paths(P, [0.5, 0.5], (periods,) * agents, np.random.default_rng(seed))


def test_a_hidden_state_is_found():
    """A test of 5 % without power would reject half of 30 panels once in 10^11."""
    panels = [persistent(seed) for seed in range(30)]
    serial = [pf.serial_dependence(panel, lags=1) for panel in panels]
    assert sum(found.pvalue <= ALPHA for found in serial) >= 15
    # What is alike in time is z itself; given z, the sign of what is left has no such meaning.
    raw = [pf.serial_dependence(p, outcome=np.roll(p.z, -1, axis=1), lags=1) for p in panels]
    assert all(found.correlation > 0 and found.pvalue <= ALPHA for found in raw)
    order = [pf.markov_order_test(panel, replicates=39) for panel in panels]
    assert sum(found.pvalue <= ALPHA for found in order) >= 15
    # Blind agents: their choices depend on nothing.
    assert within(sum(o.table.loc["choices", "p_value"] <= ALPHA for o in order), 30)


def test_groups_that_differ_are_no_hidden_state_once_they_are_named():
    """Half of the agents drive less: found as dependence, and gone once the groups are told."""
    z, labels, rng = [], ["A", "B"] * 15, np.random.default_rng(2)
    for label in labels:
        z.append(rng.random(20) < (0.8 if label == "A" else 0.2))
    panel = pf.Panel.from_arrays(np.array(z, dtype=int), np.zeros((30, 20), dtype=int))
    named = panel.with_groups(labels)
    assert pf.serial_dependence(panel, lags=1).pvalue < 1e-6
    assert pf.serial_dependence(named, lags=1).pvalue > 1e-3
    assert pf.markov_order_test(panel, replicates=199).pvalue <= 0.005
    assert pf.markov_order_test(named, replicates=199).pvalue > 0.005


# ---- words and refusals ------------------------------------------------------------------------


def test_summaries_say_what_was_found():
    panel = persistent(0)
    assert "The past tells something" in str(pf.serial_dependence(panel, lags=1))
    noise = pf.Panel.from_arrays(*np.random.default_rng(3).integers(0, 2, (2, 20, 15)))
    assert "no proof" in str(pf.serial_dependence(noise, lags=1))
    assert "Markov order" in str(pf.markov_order_test(panel, replicates=9))
    lonely = pf.Panel.from_arrays([np.arange(9) % 3] * 1, [np.zeros(9, dtype=int)])
    assert "by_period=False" in str(pf.markov_order_test(lonely, replicates=9))


def test_what_cannot_be_tested_is_refused():
    panel = persistent(0)
    with pytest.raises(pf.PanelError, match="nobody takes action 7"):
        pf.serial_dependence(panel, actions=[7])
    with pytest.raises(pf.PanelError, match="outcome must have shape"):
        pf.serial_dependence(panel, outcome=np.zeros(3))
    short = pf.Panel.from_arrays([[0, 1], [1, 0]], [[0], [1]])
    with pytest.raises(pf.EstimationError, match="follow each other"):
        pf.markov_order_test(short)
    with pytest.raises(pf.EstimationError, match="follow each other"):
        pf.serial_dependence(short, increments=True)
    with pytest.raises(pf.EstimationError, match=r"replicates must be at least 1.*0"):
        pf.markov_order_test(panel, replicates=0)


# ---- the paper's buses -------------------------------------------------------------------------


@pytest.mark.skipif(
    not os.environ.get("POMDPFIT_RUST1987"),
    reason="POMDPFIT_RUST1987 does not name a folder with Rust's raw .asc files",
)
def test_the_buses_of_group_4_as_the_paper_says():
    """Durbin-Watson is less than 1.13 for all buses except one with a value of 1.32."""
    data = pf.datasets.rust1987(groups=4, bins=175, conventions=pf.datasets.CHANG)
    miles = np.full(data.panel.z.shape, np.nan)
    for i, record in enumerate(data.records):
        miles[i, : len(record.odometer) - 1] = np.diff(record.odometer)
    found = pf.serial_dependence(data.panel, outcome=miles)
    watson = np.sort(found.table["durbin_watson"])
    assert len(watson) == 37
    assert watson[-1] == pytest.approx(1.32, abs=0.01)
    assert watson[-2] == pytest.approx(1.13, abs=0.01)
    assert found.pvalue < 1e-12
    # So do the bins that the model sees.
    bins = {"increments": True, "actions": [0]}
    assert pf.serial_dependence(data.panel, **bins).pvalue < 1e-12
    assert pf.markov_order_test(data.panel, replicates=199, **bins).pvalue <= 0.005
