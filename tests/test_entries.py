"""Entries that move: charts, projections, and starting points."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

import pomdpfit as pf
from pomdpfit._entries import Entries, free_entries, project
from pomdpfit._errors import ModelError
from pomdpfit._params import ParameterSpace
from pomdpfit._restrictions import parse_restrictions
from pomdpfit.estimators._starts import draw_starts, feasible, off_the_bounds

SPACE = ParameterSpace(
    {
        "RC": pf.Parameter(10.0, pf.Positive()),
        "row": pf.Parameter([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], pf.Simplex()),
        "share": pf.Parameter([0.25, 0.75], pf.Interval(0.2, 0.9)),
        "slope": pf.Parameter([-1.0, 2.0]),
        "discount": pf.Parameter(0.9, pf.Interval(0, 1, open_above=True), fixed=True),
    }
)
FREE = [name for name, p in SPACE.parameters.items() if not p.fixed]


def entries_of(space, texts=(), theta=None, leaves=None) -> Entries:
    theta = space.example() if theta is None else theta
    leaves = list(space.parameters) if leaves is None else leaves
    restrictions = parse_restrictions(texts, space.names) if texts else None
    return free_entries(space, leaves, theta, restrictions)


def nearest(entries: Entries, phi: np.ndarray) -> np.ndarray | None:
    """By brute force: on every face the nearest point of its plane, and the best that is inside.

    The projection on a polytope is the projection on the plane of the face in which it lies.
    """
    best, n = None, len(phi)
    sides = [
        [None] + [bound for bound in pair if np.isfinite(bound)]
        for pair in zip(entries.low, entries.high, strict=True)
    ]
    for face in itertools.product(*sides):
        held = [k for k in range(n) if face[k] is not None]
        rows = np.vstack([entries.equations, np.eye(n)[held]])
        level = np.append(entries.level, [face[k] for k in held])
        x = phi + np.linalg.pinv(rows) @ (level - rows @ phi)
        inside = (x >= entries.low - 1e-12).all() and (x <= entries.high + 1e-12).all()
        if not inside or np.abs(rows @ x - level).max(initial=0.0) > 1e-10:
            continue
        if best is None or np.linalg.norm(x - phi) < np.linalg.norm(best - phi):
            best = x
    return best


# ---- trees and vectors ------------------------------------------------------------------------


def test_entries_are_those_of_the_leaves_in_the_order_of_the_space():
    entries = entries_of(SPACE, leaves=["slope", "row"])
    assert entries.leaves == ("row", "slope")
    assert entries.names == (*(f"row[{i}, {j}]" for i in (0, 1) for j in (0, 1, 2)), *SLOPES)
    np.testing.assert_array_equal(entries.low, [0] * 6 + [-np.inf] * 2)
    np.testing.assert_array_equal(entries.high, [1] * 6 + [np.inf] * 2)
    np.testing.assert_array_equal(
        entries.equations, [[1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 0, 0]]
    )
    np.testing.assert_array_equal(entries.level, [1, 1])


SLOPES = ("slope[0]", "slope[1]")


@given(st.integers(0, 2**32 - 1), st.sets(st.sampled_from(list(SPACE.parameters))))
@settings(max_examples=30, deadline=None)
def test_flatten_split_and_insert_are_inverses(seed, leaves):
    entries = entries_of(SPACE, leaves=sorted(leaves))
    theta, rng = SPACE.example(), np.random.default_rng(seed)
    phi = np.clip(rng.normal(size=len(entries.names)), entries.low, entries.high)
    moved = entries.insert(phi, theta)
    assert list(moved) == list(theta)
    np.testing.assert_array_equal(entries.flatten(moved), phi)
    for name in SPACE.parameters:
        assert np.shape(moved[name]) == np.shape(theta[name])
        if name not in leaves:
            np.testing.assert_array_equal(moved[name], theta[name])
    stack = np.stack([phi, 2 * phi])
    tree = entries.split(stack)
    for name in entries.leaves:
        assert tree[name].shape == (2, *np.shape(theta[name]))
        np.testing.assert_array_equal(tree[name][0], moved[name])


def test_rounding_is_kept_inside_the_bounds():
    entries = entries_of(SPACE, leaves=["RC", "share"])
    moved = entries.insert(np.array([-1e-17, 0.2 - 1e-16, 0.9 + 2e-16]), SPACE.example())
    SPACE.check(moved)
    assert moved["RC"] == 0
    np.testing.assert_array_equal(moved["share"], [0.2, 0.9])


def test_at_bound_means_exactly():
    entries = entries_of(SPACE, leaves=["RC", "share", "discount"])
    below_one = np.nextafter(1.0, 0.0)
    phi = np.array([0.0, 0.2, np.nextafter(0.9, 0), below_one])
    np.testing.assert_array_equal(entries.at_bound(phi), [True, True, False, True])


# ---- charts -----------------------------------------------------------------------------------


@st.composite
def systems(draw):
    """Simplex rows, plain entries and random equations; some entries held."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    space = ParameterSpace(
        {
            "p": pf.Parameter(rng.dirichlet(np.ones(columns), size=rows), pf.Simplex()),
            "b": pf.Parameter(rng.normal(size=3)),
        }
    )
    texts = []
    for _ in range(draw(st.integers(0, 3))):
        k = rng.choice(len(space.names), size=2, replace=False)
        factor = rng.integers(1, 5)
        texts.append(f"{factor} * {space.names[k[0]]} = {space.names[k[1]]}")
    held = rng.random(len(space.names)) < draw(st.sampled_from([0.0, 0.2, 0.6]))
    return space, texts, held, rng


@given(systems())
@settings(max_examples=150, deadline=None)
def test_a_chart_moves_along_the_equations(case):
    space, texts, held, rng = case
    entries = entries_of(space, texts)
    phi = entries.flatten(space.example())
    priority = rng.normal(size=len(phi)) if rng.random() < 0.5 else None
    chart = entries.chart(phi, held, priority)
    J, C = chart.jacobian, entries.equations
    # Coefficients are whole numbers up to 4 in at most six equations: J is of their size at most,
    # and elimination loses a few of 16 digits.
    np.testing.assert_allclose(C @ J, 0, atol=1e-12 * max(1.0, np.abs(J).max(initial=0.0)))
    np.testing.assert_array_equal(J[chart.independent], np.eye(len(chart.independent)))
    np.testing.assert_array_equal(J[held], 0)
    assert not held[chart.independent].any()
    assert not held[chart.dependent].any()
    together = np.concatenate([chart.independent, chart.dependent, np.flatnonzero(held)])
    np.testing.assert_array_equal(np.sort(together), np.arange(len(phi)))
    # As many directions as there are: the dimension of the null space of the free columns.
    rank = np.linalg.matrix_rank(C[:, ~held]) if (~held).any() and len(C) else 0
    assert J.shape == (len(phi), (~held).sum() - rank)


def test_the_dependent_entry_is_the_one_of_highest_priority():
    space = ParameterSpace({"p": pf.Parameter([0.05, 0.55, 0.4], pf.Simplex())})
    entries = entries_of(space)
    phi = entries.flatten(space.example())
    # Distances to a bound: 0.05, 0.45, 0.4.
    np.testing.assert_array_equal(entries.chart(phi).dependent, [1])
    np.testing.assert_array_equal(entries.chart(phi, priority=np.arange(3.0)).dependent, [2])
    held = np.array([False, False, True])
    chart = entries.chart(phi, held, np.arange(3.0))
    np.testing.assert_array_equal(chart.dependent, [1])
    np.testing.assert_array_equal(chart.jacobian, [[1], [-1], [0]])


def test_equations_said_twice_count_once():
    space = ParameterSpace({"p": pf.Parameter([0.2, 0.3, 0.5], pf.Simplex())})
    texts = ["p[0] = p[1]", "2 * p[0] = 2 * p[1]", "p[0] + p[1] + p[2] = 1"]
    entries = entries_of(space, texts)
    chart = entries.chart(np.array([0.25, 0.25, 0.5]))
    assert len(chart.independent) == 1
    np.testing.assert_allclose(entries.equations @ chart.jacobian, 0, atol=1e-15)


@pytest.mark.parametrize("factor", [1e-10, 1e-5, 1e5, 1e10])
def test_an_equation_means_the_same_in_any_units(factor):
    space = ParameterSpace({"a": pf.Parameter(7.0), "b": pf.Parameter(1.0)})
    entries = entries_of(space, [f"{factor} * a = {3 * factor} * b"])
    phi = project(entries, np.array([7.0, 1.0]))
    # The foot of the perpendicular from (7, 1) on the line through (3, 1): factor 22 / 10.
    np.testing.assert_allclose(phi, [6.6, 2.2], rtol=1e-9)
    assert len(entries.chart(phi).independent) == 1


# ---- restrictions that reach beyond the entries -------------------------------------------------


def test_other_entries_enter_a_restriction_at_their_values():
    theta = dict(SPACE.example(), slope=np.array([3.0, 5.0]))
    texts = ["RC = 2 * slope[1] + row[0, 0]", "slope[0] = 3"]
    entries = entries_of(SPACE, texts, theta, leaves=["RC", "row"])
    assert entries.equations.shape == (3, 7)  # two rows of probabilities; the last text is not ours
    np.testing.assert_array_equal(entries.equations[-1], [1, -1, 0, 0, 0, 0, 0])
    assert entries.level[-1] == 10
    phi = project(entries, entries.flatten(theta))
    np.testing.assert_allclose(phi[0] - phi[1], 10, rtol=1e-12)


# ---- projections ------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_a_projection_is_the_nearest_feasible_point(seed):
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(2, 5))
    space = ParameterSpace(
        {
            "p": pf.Parameter(rng.dirichlet(np.ones(columns)), pf.Simplex()),
            "b": pf.Parameter(1.0, pf.Positive()),
        }
    )
    texts = [f"p[0] = {rng.integers(1, 4)} * p[1]", "b = p[0] + 0.1", "2 * b = p[1] + p[0]"]
    entries = entries_of(space, texts[: rng.integers(0, 3)])
    phi = rng.normal(0.3, 1.0, size=len(entries.names))
    x, reference = project(entries, phi), nearest(entries, phi)
    assert reference is not None
    assert (x >= entries.low).all()
    assert (x <= entries.high).all()
    np.testing.assert_allclose(entries.equations @ x, entries.level, atol=1e-11)
    # Both are exact but for rounding; 1e-8 leaves room for a method that works with squares.
    np.testing.assert_allclose(x, reference, atol=1e-8)
    np.testing.assert_allclose(project(entries, x), x, atol=1e-11)


@given(st.floats(0.01, 1e6), st.floats(-1e6, 1e6), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_an_entry_with_its_own_equation_has_its_value_to_the_last_bit(first, second, seed):
    entries = entries_of(SPACE, [f"RC = {first!r}", f"slope[1] = {second!r}"], leaves=FREE)
    phi = np.random.default_rng(seed).normal(0.0, 10.0, len(entries.names))
    found = dict(zip(entries.names, project(entries, phi), strict=True))
    assert (found["RC"], found["slope[1]"]) == (first, second)


def test_bounds_alone_are_a_clip():
    space = ParameterSpace({"b": pf.Parameter(np.ones(3), pf.Interval(-1, 2))})
    x = project(entries_of(space), np.array([-3.0, 0.5, 9.0]))
    np.testing.assert_array_equal(x, [-1, 0.5, 2])


def test_a_feasible_point_stays_bit_for_bit():
    entries = entries_of(SPACE, ["slope[0] = -1"], leaves=FREE)
    phi = entries.flatten(SPACE.example())
    np.testing.assert_array_equal(project(entries, phi), phi)


@pytest.mark.parametrize(
    "texts",
    [
        ["slope[0] = 1", "slope[0] = 2"],
        ["slope[0] = slope[1]", "slope[0] = slope[1] + 1e-6"],
        ["RC = -1"],
        ["row[0, 0] = 1.5"],
        ["row[0, 0] = 0.6", "row[0, 1] = 0.6"],
        ["share[0] = 0.1"],
        ["share[0] + share[1] = 2"],
        ["row[0, 0] + row[0, 1] + row[0, 2] = 0.9"],
    ],
)
def test_contradictions_are_refused(texts):
    entries = entries_of(SPACE, texts, leaves=FREE)
    with pytest.raises(ModelError, match="no parameter values satisfy"):
        project(entries, entries.flatten(SPACE.example()))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6, 1e9])
def test_a_projection_of_large_and_small_numbers(size):
    space = ParameterSpace({"a": pf.Parameter(7 * size), "b": pf.Parameter(size)})
    entries = entries_of(space, [f"a + b = {10.1 * size!r}"])
    x = project(entries, entries.flatten(space.example()))
    np.testing.assert_allclose(x, [8.05 * size, 2.05 * size], rtol=1e-8)
    np.testing.assert_allclose(x.sum(), 10.1 * size, rtol=1e-14)


# ---- starting points ----------------------------------------------------------------------------


def test_every_stratum_is_used_once():
    """Undone by the distribution functions of their constraints, draws lie one to a stratum."""
    count, theta = 12, SPACE.example()
    points = draw_starts(SPACE, theta, count, seed=3)
    assert len(points) == count
    pick = lambda name: np.array([np.ravel(p[name]) for p in points])
    uniform = {
        "share": (pick("share") - 0.2) / 0.7,
        "slope": ndtr((pick("slope") - [-1.0, 2.0]) / [1.0, 2.0]),
        "RC": ndtr(np.log(pick("RC") / 10.0)),
    }
    for name, u in uniform.items():
        strata = np.sort(np.floor(u * count).astype(int), axis=0)
        expected = np.tile(np.arange(count)[:, None], u.shape[1])
        np.testing.assert_array_equal(strata, expected, err_msg=name)


def test_starts_are_legal_different_and_leave_fixed_leaves_alone():
    theta = dict(SPACE.example(), discount=np.array(0.5))
    points = draw_starts(SPACE, theta, 20, seed=0)
    for point in points:
        SPACE.check(point)
        assert point["discount"] == 0.5
        assert (point["row"] > 0).all()
        assert list(point) == list(theta)
        np.testing.assert_allclose(point["row"].sum(axis=1), 1, atol=1e-14)
    flat = np.array([SPACE.to_series(p).to_numpy() for p in points])[:, :-1]
    assert (np.ptp(flat, axis=0) > 0.2).all()  # far and wide


def test_the_seed_decides():
    draws = [draw_starts(SPACE, SPACE.example(), 4, seed) for seed in (7, 7, 8)]
    flat = [[SPACE.to_series(p).to_numpy() for p in points] for points in draws]
    np.testing.assert_array_equal(flat[0], flat[1])
    assert not np.array_equal(flat[0], flat[2])


def test_starts_obey_restrictions():
    texts = ["row[0, 0] = row[1, 0]", "RC = 2 * slope[1]", "share[0] + share[1] = 1"]
    restrictions = parse_restrictions(texts, SPACE.names)
    for point in draw_starts(SPACE, SPACE.example(), 15, 0, restrictions):
        SPACE.check(point)
        series = SPACE.to_series(point).to_numpy()
        np.testing.assert_allclose(restrictions.matrix @ series, restrictions.value, atol=1e-9)


def test_without_free_leaves_starts_are_where_they_were():
    space = SPACE.fix({name: SPACE.example()[name] for name in FREE})
    for point in draw_starts(space, space.example(), 3, 0):
        for name, leaf in space.example().items():
            np.testing.assert_array_equal(point[name], leaf)


def test_restrictions_do_not_put_a_start_on_a_bound():
    """Where a probability of zero may leave no likelihood to climb from."""
    theta = dict(SPACE.example(), row=np.array([[0.04, 0.01, 0.95], [0.1, 0.8, 0.1]]))
    restrictions = parse_restrictions("row[0, 1] = row[1, 1]", SPACE.names)
    entries = entries_of(SPACE, ["row[0, 1] = row[1, 1]"], theta, FREE)
    assert entries.at_bound(project(entries, entries.flatten(theta))).any()  # the nearest does
    point = feasible(SPACE, theta, restrictions)
    SPACE.check(point)
    assert point["row"][0, 1] == pytest.approx(point["row"][1, 1], abs=1e-11)
    assert not entries.at_bound(entries.flatten(point)).any()


def test_a_restriction_to_a_bound_is_obeyed():
    restrictions = parse_restrictions("row[0, 1] = 0", SPACE.names)
    point = feasible(SPACE, SPACE.example(), restrictions)
    SPACE.check(point)
    assert point["row"][0, 1] == 0


def test_a_restriction_that_no_start_can_satisfy_is_refused():
    restrictions = parse_restrictions("RC = -3", SPACE.names)
    with pytest.raises(ModelError, match="no parameter values"):
        feasible(SPACE, SPACE.example(), restrictions)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_starts_are_moved_off_the_bounds(seed):
    rng = np.random.default_rng(seed)
    row = rng.dirichlet(np.ones(3), size=2) * (rng.random((2, 3)) < 0.5)
    assume((row.sum(axis=1) > 0).all())
    theta = {
        "RC": np.array(rng.choice([0.0, 5.0])),
        "row": row / row.sum(axis=1, keepdims=True),
        "share": rng.choice([0.2, 0.9, 0.5], size=2),
        "slope": np.array([0.0, -1e9]),
        "discount": np.array(0.0),
    }
    moved = off_the_bounds(SPACE, theta)
    SPACE.check(moved)
    assert moved["discount"] == 0  # fixed
    entries = entries_of(SPACE, leaves=FREE)
    before, after = entries.flatten(theta), entries.flatten(moved)
    assert not entries.at_bound(after).any()
    np.testing.assert_array_equal(moved["slope"], theta["slope"])
    # By a thousandth of the range, or of one where there is no range.
    assert np.abs(after - before).max() <= 1e-3 * (1 + 1e-12)
    again = off_the_bounds(SPACE, moved)
    np.testing.assert_array_equal(entries.flatten(again), after)


def test_an_open_end_is_a_bound_too():
    space = SPACE.free("discount")
    theta = dict(SPACE.example(), discount=np.nextafter(1.0, 0.0))
    assert off_the_bounds(space, theta)["discount"] == pytest.approx(0.999, abs=1e-12)
