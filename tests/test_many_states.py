"""Many hidden states: padding with states that are never reached changes nothing."""

import math
import os
import re

import jax
import numpy as np
import pytest

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_reward
from pomdpfit import _grid

jax.config.update("jax_enable_x64", True)

EPS = np.finfo(float).eps
BETA, TOLERANCE = 0.8, 1e-10
RNG = np.random.default_rng(0)
P, R, END = random_kernel(RNG, 2, 3, 2), random_reward(RNG, 2, 3, 2), RNG.normal(size=(2, 3))
MORE = [(12, 6), (18, 6), (19, 5), (21, 2), (22, 2), (30, 2), (40, 3)]
locate = jax.jit(_grid.locate, static_argnums=1)
FACE = np.vstack([np.eye(3), RNG.dirichlet(np.ones(3), size=20)])


def padded(states, places=(0, 1, 2), epochs=None):
    """The model of three states at these places among many; the others are worth far more."""
    own, Z, A = np.array(places), len(P), P.shape[2]
    kernel, reward = np.zeros((Z, states, A, Z, states)), np.full((Z, states, A), 50.0)
    end = np.full((Z, states), 50.0)
    kernel[:, :, :, 0] = np.eye(states)[None, :, None]  # where they are, they stay
    kernel[np.ix_(range(Z), own, range(A), range(Z), range(states))] = 0.0
    kernel[np.ix_(range(Z), own, range(A), range(Z), own)] = P
    reward[:, own], end[:, own] = R, END
    return Table(kernel, reward, end=end, epochs=epochs)


def on_face(states, places, x=FACE):
    wide = np.zeros((len(x), states))
    wide[:, places] = x
    return wide


def assert_padding_changes_nothing(states, nodes, places=(0, 1, 2), epochs=None):
    """Both residuals are at most the tolerance, which is worth 1 / (1 - beta) of it in V."""
    grid, z = pf.Linear(nodes), np.arange(2)[:, None]
    three, many = (
        pf.solve(model, at(BETA), grid=grid, solver=pf.Newton(tolerance=TOLERANCE))
        for model in (padded(3, epochs=epochs), padded(states, places, epochs))
    )
    assert many.converged
    t, atol = None if epochs is None else 0, 2 * TOLERANCE / (1 - BETA)
    wide = on_face(states, places)
    np.testing.assert_allclose(many.value(z, wide, t), three.value(z, FACE, t), rtol=0, atol=atol)
    # A choice probability moves by no more than a quarter of a difference of Q.
    np.testing.assert_allclose(many.policy(z, wide, t), three.policy(z, FACE, t), rtol=0, atol=atol)


@pytest.mark.parametrize(("states", "nodes", "epochs"), [(20, 4, 2), (40, 3, None)])
def test_unreachable_states_change_nothing(states, nodes, epochs):
    assert_padding_changes_nothing(states, nodes, (3, 11, states - 1), epochs)


@pytest.mark.full
@pytest.mark.parametrize(
    ("states", "nodes"), [(18, 7), (19, 6), (20, 4), (20, 5), (21, 3), (22, 3), (30, 4), (40, 2)]
)
def test_unreachable_states_change_nothing_on_any_grid(states, nodes):
    """Those whose ranks once went beyond 64 bits among them."""
    assert_padding_changes_nothing(states, nodes)


@pytest.mark.parametrize(
    ("states", "resolution"),
    [(9, 9), (10, 8), (20, 3), (40, 2)]
    + [pytest.param(*each, marks=pytest.mark.full) for each in MORE],
)
def test_a_belief_on_a_face_is_read_from_the_nodes_of_that_face(states, resolution):
    """What a face's own grid reads, with the same weights, wherever its states stand."""
    places = np.sort(np.random.default_rng(states).choice(states, 3, replace=False))
    position, weight = map(np.asarray, locate(on_face(states, places), resolution))
    own_position, own_weight = map(np.asarray, locate(FACE, resolution))
    nodes, own = _grid.nodes(states, resolution), _grid.nodes(3, resolution)
    read = [_by_node(*rows) for rows in zip(nodes[position][..., places], weight, strict=True)]
    expected = [_by_node(*rows) for rows in zip(own[own_position], own_weight, strict=True)]
    for one, other in zip(read, expected, strict=True):
        nodes_read = one.keys() | other.keys()
        # Sums of `states` shares, times the resolution.
        off = [abs(one.get(node, 0.0) - other.get(node, 0.0)) for node in nodes_read]
        assert max(off) <= 4 * states * resolution * EPS
    assert (
        abs(nodes[position][weight > 4 * states * resolution * EPS].sum(axis=-1) - 1).max() < 1e-12
    )


def _by_node(nodes, weights):
    """Weight of each node, those that are read twice added up."""
    total = {}
    for node, weight in zip(map(tuple, nodes.round(9)), weights, strict=True):
        total[node] = total.get(node, 0.0) + weight
    return total


# ---- what does not fit ---------------------------------------------------------------------------


def with_memory(monkeypatch, size):
    parts = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": size}
    monkeypatch.setattr(os, "sysconf", parts.__getitem__)


def never_built(monkeypatch):
    def never(*_):
        raise AssertionError("nodes were built before memory was checked")

    monkeypatch.setattr(_grid, "nodes", never)


@pytest.mark.parametrize("nodes", [8, 30, 10**6])
def test_a_grid_with_too_many_nodes_is_refused_with_how_many_fit(nodes, monkeypatch):
    with_memory(monkeypatch, 2**30)
    never_built(monkeypatch)
    model = padded(40)
    with pytest.raises(pf.GridTooLargeError) as caught:
        pf.solve(model, at(BETA), grid=pf.Linear(nodes))
    message = str(caught.value)
    assert f"{math.comb(nodes + 38, 39):,} belief nodes ({nodes} an edge, |S| = 40)" in message
    fits = int(re.search(r"Use at most (\d+) nodes an edge", message)[1])
    assert f"which are {math.comb(fits + 38, 39):,} belief nodes" in message
    with pytest.raises(pf.GridTooLargeError):  # one more is too many
        pf.solve(model, at(BETA), grid=pf.Linear(fits + 1))
    with pytest.raises(AssertionError, match="were built"):  # and so many are not refused
        pf.solve(model, at(BETA), grid=pf.Linear(fits))


def test_a_default_grid_that_does_not_fit_is_refused_as_well(monkeypatch):
    with_memory(monkeypatch, 2**30)
    never_built(monkeypatch)
    with pytest.raises(pf.GridTooLargeError, match=r"123,410 belief nodes \(5 an edge.*at most 4"):
        pf.solve(padded(40), at(BETA))


def test_where_not_even_two_nodes_fit_the_advice_is_fewer_states(monkeypatch):
    with_memory(monkeypatch, 2**14)
    with pytest.raises(pf.GridTooLargeError, match=r"Not even 2 nodes an edge fit.*fewer hidden"):
        pf.solve(padded(40), at(BETA), grid=pf.Linear(3))


def test_more_coefficients_than_can_be_numbered_are_refused_whatever_the_memory(monkeypatch):
    def unknown(_):
        raise ValueError("this system does not say")

    monkeypatch.setattr(os, "sysconf", unknown)
    never_built(monkeypatch)
    with pytest.raises(pf.GridTooLargeError, match=r"coefficients, more than the 2\^32"):
        pf.solve(padded(3), at(BETA), grid=pf.Linear(10**6))


def test_a_certificate_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    """It compares all vectors with all nodes, which takes far more memory than solving does."""
    solution = pf.solve(padded(3), at(BETA), grid=pf.Linear(4))
    with_memory(monkeypatch, 2**11)
    with pytest.raises(pf.GridTooLargeError, match=r"the certificate .* 10 belief nodes"):
        _ = solution.bounds
    with_memory(monkeypatch, 2**30)
    never_built(monkeypatch)
    with pytest.raises(pf.GridTooLargeError, match=r"the certificate .*Use at most [2-9]"):
        pf.certify(padded(12), at(BETA), nodes=9)


def test_a_stationary_prior_that_does_not_fit_is_refused(monkeypatch):
    never_built(monkeypatch)
    panel = pf.Panel.from_arrays([[0, 1]], [[0]])
    with pytest.raises(
        pf.GridTooLargeError, match=r"pf.StationaryPrior .*\(41 an edge, .S. = 20\)"
    ):
        pf.log_likelihood(
            padded(20), at(BETA), panel, prior=pf.StationaryPrior(41), grid=pf.Linear(2)
        )
