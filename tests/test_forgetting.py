"""How fast a prior is forgotten: coefficients, bounds, and what is so along a panel."""

import itertools

import matplotlib as mpl

mpl.use("Agg")
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from helpers import Table, at, random_belief, random_kernel, random_paths, random_reward
from pomdpfit import plots
from pomdpfit.identification.memory._metrics import (
    birkhoff,
    bound_paper_distance,
    bound_total_variation,
    diameter,
    eta,
    hilbert,
    paper_distance,
    total_variation,
)
from pomdpfit.identification.memory._step_kernels import Memory, memory_of

ENGINE = pf.models.EngineReplacement()
TABLE_1 = ENGINE.example()


# ---- the definitions, written anew in plain loops -------------------------------------------


def plain_D(x, y):
    """Section V-A, word for word."""
    d = lambda x, y: 1 - min(x[s] / y[s] for s in range(len(x)) if y[s] > 0)
    return max(d(x, y), d(y, x))


def plain_hilbert(x, y):
    """log max_{s, s'} x(s) y(s') / (x(s') y(s)) where both have the same zeros."""
    if ((x > 0) != (y > 0)).any():
        return np.inf
    kept = np.flatnonzero(x > 0)
    return max(np.log(x[s] * y[t] / (x[t] * y[s])) for s in kept for t in kept)


def plain_bayes(x, P):
    y = x @ P
    return None if y.sum() == 0 else y / y.sum()


def logs(x):
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(x, dtype=float))


@st.composite
def steps(draw, states=(2, 4), zeros=True):
    """A substochastic matrix; some of its entries, rows and columns may be zero."""
    S = draw(st.integers(*states))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P = rng.dirichlet(np.full(2 * S, draw(st.sampled_from([0.1, 1.0, 10.0]))), size=S)[:, :S]
    if zeros and draw(st.booleans()):
        P = P * (rng.random(P.shape) < 0.7)
        P[:, rng.integers(S)] *= rng.random() < 0.5
        P[rng.integers(S)] *= rng.random() < 0.5
    return P, rng


@given(steps())
@settings(max_examples=150, deadline=None)
def test_metrics_are_their_definitions(drawn):
    P, rng = drawn
    x, y = (random_belief(rng, len(P)) * (rng.random(len(P)) < 0.8) for _ in range(2))
    if x.sum() == 0 or y.sum() == 0:
        return
    x, y = x / x.sum(), y / y.sum()
    np.testing.assert_allclose(paper_distance(logs(x), logs(y)), plain_D(x, y), atol=1e-12)
    np.testing.assert_allclose(hilbert(logs(x), logs(y)), plain_hilbert(x, y), atol=1e-9)
    # The largest difference over all events.
    events = itertools.product([0, 1], repeat=len(x))
    largest = max(abs(np.dot(event, x - y)) for event in events)
    np.testing.assert_allclose(total_variation(logs(x), logs(y)), largest, atol=1e-12)


@given(steps())
@settings(max_examples=150, deadline=None)
def test_coefficients_are_largest_distances_between_rows_that_can_produce_z(drawn):
    P, _ = drawn
    images = [plain_bayes(e, P) for e in np.eye(len(P))]
    images = [image for image in images if image is not None]
    pairs = list(itertools.product(images, repeat=2))
    np.testing.assert_allclose(eta(P), max([plain_D(*p) for p in pairs], default=0), atol=1e-12)
    widest = max([plain_hilbert(*p) for p in pairs], default=0)
    np.testing.assert_allclose(diameter(P), widest, atol=1e-9)
    np.testing.assert_allclose(birkhoff(P), np.tanh(widest / 4), atol=1e-9)


@pytest.mark.parametrize(("a", "b", "c", "d"), [(0.5, 0.1, 0.2, 0.6), (0.9, 0.1, 0.9, 0.1)])
def test_two_by_two_has_a_closed_form(a, b, c, d):
    """(sqrt(ad) - sqrt(bc)) / (sqrt(ad) + sqrt(bc)): zero if the matrix is singular."""
    one, two = np.sqrt(a * d), np.sqrt(b * c)
    expected = abs(one - two) / (one + two)
    np.testing.assert_allclose(birkhoff(np.array([[a, b], [c, d]])), expected, atol=1e-15)


# ---- Birkhoff's bound holds ------------------------------------------------------------------


@given(steps(), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_birkhoff_contracts_and_its_diameter_bounds(drawn, seed):
    """h(xP, yP) <= min(tau h(x, y), Delta), for any x, y that can produce z', zeros and all."""
    P, _ = drawn
    rng = np.random.default_rng(seed)
    x, y = random_belief(rng, len(P)), random_belief(rng, len(P))
    after = plain_bayes(x, P), plain_bayes(y, P)
    if after[0] is None or after[1] is None:
        return
    left = plain_hilbert(*after)
    tau, Delta = birkhoff(P), diameter(P)
    assert left <= tau * plain_hilbert(x, y) + 1e-9  # 1e-9: logs of ratios of rounded products
    assert left <= Delta + 1e-9


@given(steps(states=(3, 3)), steps(states=(3, 3)))
@settings(max_examples=200, deadline=None)
def test_birkhoff_is_submultiplicative(first, second):
    P, Q = first[0], second[0]
    assert birkhoff(P @ Q) <= birkhoff(P) * birkhoff(Q) + 1e-9


@given(steps())
@settings(max_examples=200, deadline=None)
def test_hilbert_bounds_total_variation_and_D(drawn):
    P, rng = drawn
    x, y = random_belief(rng, len(P)), random_belief(rng, len(P))
    h = plain_hilbert(x, y)
    assert total_variation(logs(x), logs(y)) <= bound_total_variation(h) + 1e-12
    assert plain_D(x, y) <= bound_paper_distance(h) + 1e-12


@pytest.mark.parametrize("h", [0.1, 1.0, 5.0])
def test_the_bound_on_total_variation_is_attained(h):
    odds = np.exp(h / 2)
    x, y = np.array([odds, 1]) / (1 + odds), np.array([1, odds]) / (1 + odds)
    np.testing.assert_allclose(plain_hilbert(x, y), h, rtol=1e-12)
    np.testing.assert_allclose(abs(x[0] - y[0]), bound_total_variation(h), rtol=1e-12)


def test_the_bound_on_D_is_approached():
    """x(s)/y(s) = 1 but on one state, which is rare: M goes to one while m = exp(-h)."""
    rare, h = 1e-9, 1.3
    y = np.array([rare, 1 - rare])
    x = np.array([rare * np.exp(-h), 1 - rare * np.exp(-h)])
    np.testing.assert_allclose(plain_D(x, y), bound_paper_distance(plain_hilbert(x, y)), atol=1e-8)


# ---- the paper's bound fails at the paper's own parameters -----------------------------------


def two_keeps():
    """All pairs of increments of Table I's engine while it is kept, as plain products."""
    stay, increment = np.asarray(TABLE_1["stay"]), np.asarray(TABLE_1["increment"])
    T = np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    each = [increment[:, [j]] * T for j in range(4)]
    return each, {(j, k): each[j] @ each[k] for j in range(4) for k in range(4)}


def test_the_papers_bound_is_violated_at_table_1_and_birkhoffs_is_not():
    each, pairs = two_keeps()
    coefficient = max(plain_D(*(row / row.sum() for row in P)) for P in each)
    worst, (j, k) = max((plain_D(*(r / r.sum() for r in P)), pair) for pair, P in pairs.items())
    assert round(coefficient**2, 4) == 0.9749
    assert round(worst, 4) == 0.9810
    assert worst > coefficient**2
    # The same from the model, along a panel that sees these increments.
    panel = pf.Panel.from_arrays([[10, 10 + j, 10 + j + k]], [[0, 0]])
    found = pf.forgetting(ENGINE, TABLE_1, panel)
    np.testing.assert_allclose(found.eta, coefficient, rtol=1e-12)
    np.testing.assert_allclose(found.D[0], [1, coefficient, worst], rtol=1e-9)
    assert found.violations["period"].tolist() == [2]
    assert "breaks it for 1 agents, first after 2 periods" in str(found)
    assert (found.h <= found.bound + 1e-9).all()
    assert (found.D - bound_paper_distance(found.bound) <= 1e-12).all()
    # Whatever the two increments: Birkhoff promises it of every pair.
    tau = max(birkhoff(P) for P in each)
    for P in pairs.values():
        assert plain_hilbert(*P) <= tau * max(map(diameter, each)) + 1e-9


def test_the_engines_reset_forgets_everything_at_once():
    panel = pf.Panel.from_arrays([[10, 11, 0, 1]], [[0, 1, 0]])
    found = pf.forgetting(ENGINE, TABLE_1, panel)
    assert found.tv[0, 1] > 0.5
    np.testing.assert_array_equal(found.tv[0, 2:], 0)
    np.testing.assert_array_equal(found.bound[0, 2:], 0)
    assert found.periods() == 2
    reset = found.kernels[found.kernels["action"] == "replace"]
    assert reset["memory"].tolist() == [Memory.NOTHING]
    assert reset["in panel"].tolist() == [1]
    assert "forgets all at once: replace at z = 0..174, z' = 0" in found.summary().as_text()


# ---- along a panel ---------------------------------------------------------------------------


def plain_images(P, corners, z, a, informs=None):
    """Beliefs from each corner along one agent's panel; None once it is refuted."""
    beliefs = [[np.asarray(x, dtype=float) for x in corners]]
    for t in range(len(z) - 1):
        matrix = P[z[t], :, a[t], z[t + 1], :]
        if informs is not None and not informs[t]:
            matrix = P[z[t], :, a[t]].sum(axis=1)
        beliefs.append([None if x is None else plain_bayes(x, matrix) for x in beliefs[-1]])
    return beliefs


def largest(images, distance):
    alive = [x for x in images if x is not None]
    return max([distance(x, y) for x, y in itertools.product(alive, repeat=2)], default=0.0)


@pytest.mark.parametrize("zeros", [False, True])
def test_actual_distances_are_those_of_plain_bayes_from_every_vertex(zeros):
    """Ragged, with transitions that do not inform, and priors that the data refute."""
    rng = np.random.default_rng(3 + zeros)
    P = random_kernel(rng, 3, 3, 2, zeros=zeros)
    panel = random_paths(P, np.full(3, 1 / 3), [2, 7, 5, 7, 6], rng)
    blind = np.zeros(panel.z.shape, dtype=bool)
    blind[1, 3] = blind[3, 1] = True
    panel = panel.exclude_transitions(blind)
    found = pf.forgetting(Table(P, random_reward(rng, 3, 3, 2)), at(0.9), panel)
    refuted = 0
    for i, length in enumerate(panel.present.sum(axis=1)):
        images = plain_images(P, np.eye(3), panel.z[i, :length], panel.a[i], panel.informs[i])
        refuted += sum(x is None for x in images[-1])
        for t, there in enumerate(images):
            gap = lambda x, y: np.abs(x - y).sum() / 2
            np.testing.assert_allclose(found.tv[i, t], largest(there, gap), atol=1e-12)
            np.testing.assert_allclose(found.D[i, t], largest(there, plain_D), atol=1e-9)
            assert found.h[i, t] <= found.bound[i, t] + 1e-9
        assert np.isnan(found.tv[i, length:]).all()
    assert found.refuted.sum() == refuted
    assert (refuted > 0) == zeros  # or nothing was tested
    assert found.kernels["in panel"].sum() == panel.continues.sum()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_no_two_priors_are_further_apart_than_two_vertices(seed):
    """The filter maps the simplex onto the hull of the vertices' images."""
    rng = np.random.default_rng(seed)
    P = random_kernel(rng, 2, 3, 1, zeros=bool(rng.integers(2)))
    z = random_paths(P, np.full(3, 1 / 3), [5], rng).z[0]
    vertices = plain_images(P, np.eye(3), z, np.zeros(4, dtype=int))[-1]
    inner = plain_images(P, [random_belief(rng, 3) for _ in range(6)], z, np.zeros(4, dtype=int))
    gap = lambda x, y: np.abs(x - y).sum() / 2
    for distance in (gap, plain_D, plain_hilbert):
        assert largest(inner[-1], distance) <= largest(vertices, distance) + 1e-9


class Switching(pf.Model):
    """Nothing is seen; the hidden state changes with probability w, a covariate."""

    def parameters(self):
        return {"w": pf.Covariate(), "discount": pf.discount_parameter(0.9)}

    def kernel(self, theta):
        w = theta["w"]
        T = jnp.array([[1 - w, w], [w, 1 - w]])
        return pf.dense_kernel(jnp.broadcast_to(T[None, :, None, None], (1, 2, 1, 1, 2)))

    def reward(self, theta):
        return np.zeros((1, 2, 1))


def test_covariates_have_kernels_of_their_own():
    """Each step multiplies the distance of two priors by |1 - 2 w|."""
    w = np.array([[0.1, 0.3, 0.1, 0.0], [0.1, 0.5, 0.3, 0.0]])
    panel = pf.Panel.from_arrays(np.zeros((2, 4), int), np.zeros((2, 3), int))
    found = pf.forgetting(Switching(), at(0.9) | {"w": 0.0}, panel.with_covariates(w=w))
    expected = np.cumprod(np.column_stack([np.ones(2), np.abs(1 - 2 * w[:, :3])]), axis=1)
    np.testing.assert_allclose(found.tv, expected, atol=1e-15)
    # Of such a matrix tau = |1 - 2 w| too, and Delta = 2 log((1 - w) / w).
    by_w = found.kernels.sort_values("context").set_axis(np.unique(w))
    np.testing.assert_allclose(by_w["tau"], np.abs(1 - 2 * by_w.index.to_numpy()), atol=1e-15)
    assert by_w["in panel"].tolist() == [0, 3, 2, 1]
    assert by_w["memory"].tolist() == [Memory.ODDS, Memory.LESS, Memory.LESS, Memory.NOTHING]


def still(z, share=0.8):
    """A hidden state that never changes, seen through noise."""
    P = np.zeros((2, 2, 1, 2, 2))
    for s in range(2):
        P[:, s, 0, :, s] = [share, 1 - share] if s == 0 else [1 - share, share]
    return Table(P, np.zeros((2, 2, 1))), pf.Panel.from_arrays([z], [[0] * (len(z) - 1)])


def test_kernels_that_never_forget_are_named():
    model, panel = still([0, 0, 1, 0, 0, 0])
    found = pf.forgetting(model, at(0.9), panel)
    np.testing.assert_array_equal(found.tv[0], 1)
    assert found.tau == 1
    assert found.periods(0.5) is None
    assert set(found.kernels["memory"]) == {Memory.ODDS}
    text = found.summary().as_text()
    assert "never forgets: 0 at z = 0, 1, z' = 0" in text.replace("\n  ", " ")
    assert "Some of its steps never forget" in found.verdict()
    # Inside the simplex the ratio of the odds of two priors stays, while the data teach both.
    inside = pf.forgetting(model, at(0.9), panel, beliefs=[[0.9, 0.1], [0.2, 0.8]])
    np.testing.assert_allclose(inside.h[0], np.log(9 * 4), rtol=1e-9)
    np.testing.assert_allclose(inside.bound[0], np.log(9 * 4), rtol=1e-9)
    assert inside.tv[0, -1] < inside.tv[0, 0]


@pytest.mark.parametrize(
    ("P", "memory"),
    [
        ([[0, 0.3], [0.2, 0]], Memory.ODDS),
        ([[0.5, 0.2], [0, 0.7]], Memory.NO_PROMISE),
        ([[0.5, 0.2], [0.5, 0.2]], Memory.NOTHING),
        ([[0.5, 0.2], [0, 0]], Memory.NOTHING),  # only one state can produce z'
        ([[0.5, 0], [0.1, 0]], Memory.NOTHING),  # z' tells s'
        ([[0.5, 0.1], [0.1, 0.4]], Memory.LESS),
        ([[0.5, 0.1, 0], [0.1, 0.5, 0], [0, 0, 0.4]], Memory.GROUPS),
        ([[0.5, 0, 0], [0, 0, 0.4], [0, 0, 0]], Memory.ODDS),  # one state drops out
    ],
)
def test_memory_of_a_kernel(P, memory):
    assert memory_of(np.array(P, dtype=float)) is memory


def test_curve_periods_and_agents_agree():
    rng = np.random.default_rng(0)
    P = random_kernel(rng, 2, 2, 1)
    panel = random_paths(P, np.full(2, 0.5), [3, 12, 12, 9], rng)
    found = pf.forgetting(Table(P, random_reward(rng, 2, 2, 1)), at(0.9), panel)
    curve, tolerance = found.curve, 0.05
    assert curve["agents"].tolist() == [4] * 3 + [3] * 6 + [2] * 3
    M = found.periods(tolerance)
    assert (curve["TV worst"][M:] <= tolerance).all()
    assert curve["TV worst"][M - 1] > tolerance
    each = found.by_agent(tolerance)
    assert each.dropna().max() <= M
    for i, periods in each.items():
        row = found.tv[i][panel.present[i]]
        if periods is pd.NA:
            assert row[-1] > tolerance
            continue
        assert (row[periods:] <= tolerance).all()
        assert periods == 0 or row[periods - 1] > tolerance
    assert each.isna().any()  # the first agent's panel is short
    assert (curve["bound on TV worst"] <= curve["bound, any history"] + 1e-12).all()
    assert f"after {M} periods" in found.verdict(tolerance)
    left, right = plots.forgetting(found)
    assert left.get_yscale() == right.get_yscale() == "log"
    np.testing.assert_allclose(right.lines[-2].get_ydata(), curve["eta^M"])


def test_what_cannot_be_read_is_refused():
    model, panel = still([0, 1, 0])
    with pytest.raises(pf.ModelError, match="corners"):
        pf.forgetting(model, at(0.9), panel, beliefs=[0.5, 0.5])
    with pytest.raises(pf.ModelError, match="sum to"):
        pf.forgetting(model, at(0.9), panel, beliefs=[[0.5, 0.6], [1, 0]])
    with pytest.raises(pf.ModelError, match="between 0 and 1"):
        pf.forgetting(model, at(0.9), panel).periods(2.0)
    certain, _ = still([0], share=1.0)
    with pytest.raises(pf.ImpossibleObservationError):
        pf.forgetting(certain, at(0.9), panel)
