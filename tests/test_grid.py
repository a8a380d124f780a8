"""The belief grid: nodes, Freudenthal cells, what each scheme reproduces, and refusals of size."""

import itertools
import math
import re

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from pomdpfit import _bellman, _grid

jax.config.update("jax_enable_x64", True)

EPS = np.finfo(float).eps
RESOLUTION = {2: 7, 3: 6, 4: 5, 5: 3, 12: 3, 40: 2}
STATES = list(RESOLUTION)
examples = settings(max_examples=40, deadline=None)
each = pytest.mark.parametrize("states", STATES)
locate = jax.jit(_grid.locate, static_argnums=1)
basis = jax.jit(lambda scheme, x: scheme.basis(x), static_argnums=0)
linear = jax.jit(lambda scheme, r: scheme.linear(r), static_argnums=0)
perspective = jax.jit(  # of a single successor
    lambda scheme, P: [part[0] for part in scheme.perspective(P[None])], static_argnums=0
)


@st.composite
def beliefs(draw, states):
    """Interior points, faces and vertices of the simplex, and points that are nearly nodes."""
    kind = draw(st.sampled_from(["any", "face", "near node"]))
    if kind == "near node":
        M = RESOLUTION[states]
        cuts = sorted(draw(st.lists(st.integers(0, M), min_size=states - 1, max_size=states - 1)))
        x = np.diff([0, *cuts, M]) / M
        x[draw(st.integers(0, states - 1))] += draw(st.sampled_from([0.0, EPS, 3 * EPS, 1e-12]))
    else:
        low = 0.0 if kind == "face" else 1e-6
        x = np.array(draw(st.lists(st.floats(low, 1.0), min_size=states, max_size=states)))
        x = x if x.sum() > 0 else np.eye(states)[0]
    return x / x.sum()


# ---- nodes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("states", "resolution"), [(1, 5), (2, 100), (3, 8), (4, 5), (5, 3)])
def test_nodes_are_all_beliefs_in_multiples_of_the_step(states, resolution):
    got = _grid.nodes(states, resolution)
    count = math.comb(resolution + states - 1, states - 1)
    assert got.shape == (count, states)
    assert _grid.node_count(states, resolution) == count
    whole = {tuple(map(int, row)) for row in np.rint(got * resolution)}
    expected = {
        c
        for c in itertools.product(range(resolution + 1), repeat=states)
        if sum(c) == resolution
    } if states > 1 else {(resolution,)}  # fmt: skip
    assert whole == expected  # distinct and complete
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=states * EPS)
    np.testing.assert_allclose(got * resolution, np.rint(got * resolution), atol=resolution * EPS)


@each
def test_every_node_is_its_own_vertex(states):
    """The ranks that `locate` computes are a bijection onto the order of the nodes."""
    M = RESOLUTION[states]
    nodes = _grid.nodes(states, M)
    position, weight = map(np.asarray, locate(nodes, M))
    at = weight.argmax(axis=1)
    np.testing.assert_array_equal(position[np.arange(len(nodes)), at], np.arange(len(nodes)))
    # M times a sum of S entries rounds in the last bits of M.
    np.testing.assert_allclose(weight.max(axis=1), 1, atol=2 * states * M * EPS)


@each
def test_the_vertices_of_the_simplex_are_nodes(states):
    nodes = {tuple(row) for row in _grid.nodes(states, RESOLUTION[states])}
    assert all(tuple(row) in nodes for row in np.eye(states))


# ---- cells -------------------------------------------------------------------------------------


@each
@given(data=st.data())
@examples
def test_a_belief_is_the_weighted_mean_of_its_vertices(states, data):
    M = RESOLUTION[states]
    x = data.draw(beliefs(states))
    position, weight = map(np.asarray, locate(x, M))
    vertices = _grid.nodes(states, M)[position]
    assert position.min() >= 0
    assert position.max() < _grid.node_count(states, M)
    assert np.all(weight >= 0)
    assert np.all(weight <= 1)
    assert abs(weight.sum() - 1) <= 2 * states * EPS
    # y = M * cumsum(x) is good to S bits of M, and so is x = differences of y / M.
    np.testing.assert_allclose(weight @ vertices, x, atol=8 * states * EPS)
    # A cell: its vertices lie within one step of x in each coordinate of y.
    tail = np.cumsum(vertices[:, ::-1], axis=1)[:, ::-1] * M
    used = weight > 0
    assert np.all(np.abs(tail - np.cumsum(x[::-1])[::-1] * M)[used] <= 1 + 8 * states * M * EPS)


@each
@given(data=st.data())
@examples
def test_a_linear_function_is_interpolated_exactly(states, data):
    x = data.draw(beliefs(states))
    r = np.array(data.draw(st.lists(st.floats(-9, 9), min_size=states, max_size=states)))
    scheme = pf.Linear(RESOLUTION[states] + 1)
    scheme.check(states)
    position, weight = basis(scheme, x)
    stored = np.asarray(linear(scheme, r)).ravel()
    np.testing.assert_allclose(stored[position] @ weight, r @ x, atol=20 * states * 9 * EPS)


@given(x=beliefs(3), y=beliefs(3), share=st.floats(0, 1))
@examples
def test_linear_interpolation_lies_above_a_convex_function(x, y, share):
    M, centre = RESOLUTION[3], share * x + (1 - share) * y
    nodes = _grid.nodes(3, M)
    convex = lambda b: np.sqrt(((b - y) ** 2).sum(axis=-1) + 0.01)
    position, weight = map(np.asarray, locate(centre, M))
    assert convex(nodes)[position] @ weight >= convex(centre) - 20 * EPS


# ---- the smooth scheme -------------------------------------------------------------------------

SMOOTH = pf.Smooth(6)


def cubic_coefficients(c):
    """Value and h * slope at the nodes of c0 + c1 y + c2 y^2 + c3 y^3, y = x(1)."""
    y, h = np.linspace(0, 1, SMOOTH.nodes), 1 / (SMOOTH.nodes - 1)
    cubic = np.polynomial.Polynomial(c)
    return cubic, np.stack([cubic(y), h * cubic.deriv()(y)], axis=1).ravel()


@given(c=st.lists(st.floats(-5, 5), min_size=4, max_size=4), y=st.floats(0, 1))
@examples
def test_the_smooth_scheme_reproduces_cubics_exactly(c, y):
    cubic, stored = cubic_coefficients(c)
    position, weight = basis(SMOOTH, np.array([1 - y, y]))
    # Values and slopes of size up to 30, summed over four terms.
    np.testing.assert_allclose(stored[position] @ weight, cubic(y), atol=4 * 30 * 8 * EPS)


@pytest.mark.parametrize("scheme", [SMOOTH, pf.Linear(6)])
def test_the_perspective_of_a_linear_function_is_linear(scheme):
    """sigma(x) V(x P / sigma(x)) = x P r for V(x) = x r, also where sigma vanishes at a node."""
    r = np.array([1.5, -2.0])
    for matrix in ([[0.2, 0.3], [0.1, 0.4]], [[0.0, 0.0], [0.3, 0.2]], [[0.0, 0.0], [0.0, 0.0]]):
        P = np.asarray(matrix)
        position, weight = perspective(scheme, P)
        stored = np.asarray(linear(scheme, r)).ravel()
        got = np.einsum("nv,nvc->nc", stored[np.asarray(position)], np.asarray(weight))
        expected = np.asarray(linear(scheme, P @ r))
        np.testing.assert_allclose(got, expected, atol=50 * EPS)


def test_the_smooth_slope_of_a_perspective_is_its_derivative():
    """For V(y) = y^2 the perspective is m1^2 / sigma, whose slope is known in closed form."""
    _, stored = cubic_coefficients([0, 0, 1, 0])
    P = np.array([[0.3, 0.2], [0.1, 0.4]])
    position, weight = map(np.asarray, perspective(SMOOTH, P))
    got = np.einsum("nv,nvc->nc", stored[position], weight)
    y, h = np.linspace(0, 1, SMOOTH.nodes), 1 / (SMOOTH.nodes - 1)
    m1, sigma = 0.2 + 0.2 * y, np.full_like(y, 0.5)
    np.testing.assert_allclose(got[:, 0], m1**2 / sigma, atol=50 * EPS)
    np.testing.assert_allclose(got[:, 1], h * 2 * m1 * 0.2 / sigma, atol=50 * EPS)


def test_the_smooth_scheme_serves_two_states_only():
    with pytest.raises(pf.ModelError, match=r"two hidden states.*3.*Linear"):
        pf.Smooth(5).check(3)
    pf.Smooth(5).check(2)


@pytest.mark.parametrize("scheme", [pf.Linear, pf.Smooth])
@pytest.mark.parametrize("nodes", [1, 0, -3, 10.5])
def test_a_grid_needs_a_whole_number_of_at_least_two_nodes(scheme, nodes):
    with pytest.raises(pf.ModelError, match=str(nodes)):
        scheme(nodes)


# ---- size --------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["solve", "simulate", "log_likelihood"])
def test_a_grid_that_does_not_fit_is_refused_with_numbers_before_anything_is_built(
    call, monkeypatch
):
    def never(*_):
        raise AssertionError("nodes were built before memory was checked")

    monkeypatch.setattr(_grid, "nodes", never)
    model, nodes = pf.models.EquipmentInspection(), 10**6
    theta, grid, prior = model.example(), pf.Linear(nodes), pf.KnownPrior([1.0, 0.0, 0.0])
    use = {
        "solve": lambda: pf.solve(model, theta, grid=grid),
        "simulate": lambda: pf.simulate(
            model, theta, agents=1, periods=1, seed=0, prior=prior, grid=grid
        ),
        "log_likelihood": lambda: pf.log_likelihood(
            model, theta, pf.Panel.from_arrays([[0, 1]], [[0]]), prior=prior, grid=grid
        ),
    }
    with pytest.raises(pf.GridTooLargeError, match="GiB") as caught:
        use[call]()
    message = str(caught.value)
    assert f"{math.comb(nodes + 1, 2):,}" in message  # nodes of the triangular grid
    needed, there = (float(n.replace(",", "")) for n in re.findall(r"([\d,.]+) GiB", message))
    # At least a position and a weight of 8 bytes for 3 z', 3 actions, 3 vertices of each node.
    assert needed * 2**30 >= 0.99 * 16 * 27 * math.comb(nodes + 1, 2)
    assert there < needed


def test_the_memory_estimate_covers_what_the_operator_holds():
    for model, scheme in (
        (pf.models.EquipmentInspection(), pf.Linear(9)),
        (pf.models.EngineReplacement(bins=8, discount=0.9), pf.Smooth(11)),
    ):
        parts = model.primitives(model.example())
        operator = eqx.filter_eval_shape(_bellman.bellman_operator, parts, scheme)
        leaves = jax.tree.leaves(operator.stencil)
        held = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        assert held <= _bellman.memory_needed(parts, scheme) <= 10 * held
