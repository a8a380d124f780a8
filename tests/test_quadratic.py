"""The best step between bounds where bounds meet: simplex rows at their corners, badly scaled."""

import numpy as np
import pytest

from pomdpfit.estimators._quadratic import _guess, _search, bounded_quadratic


def corners(seed):
    """Rows of two or three probabilities, most of them at a corner, and one free entry."""
    rng = np.random.default_rng(seed)
    rng.integers(2, 6)
    sizes = rng.integers(2, 4, size=rng.integers(1, 4))
    p, jacobian, low, high, c = int((sizes - 1).sum()) + 1, [], [], [], 0
    for size in sizes:
        x = rng.dirichlet(np.ones(size))
        if rng.random() < 0.6:
            x = np.eye(size)[rng.integers(size)]
        rows = np.zeros((size, p))
        rows[:-1, c : c + size - 1] = np.eye(size - 1)
        rows[-1, c : c + size - 1] = -1.0
        jacobian.append(rows)
        low, high, c = [*low, *-x], [*high, *(1 - x)], c + size - 1
    jacobian.append(np.eye(p)[-1:])
    low, high = np.array([*low, -np.inf]), np.array([*high, np.inf])
    scores = rng.normal(size=(rng.integers(1, 8), p)) * 10.0 ** rng.integers(-6, 6, size=p)
    B = scores.T @ scores
    B += 1e-10 * np.diag(np.where(np.diag(B) > 0, np.diag(B), 1.0))
    g = rng.normal(size=p) * 10.0 ** rng.integers(-4, 6, size=p)
    return B, g, np.concatenate(jacobian), low, high


# In the first three p and 1 - p become active together, and their equations have no inverse.
@pytest.mark.parametrize("seed", [9063, 10810, 17740, *range(25)])
def test_a_step_is_allowed_and_does_not_go_down(seed):
    B, g, jacobian, low, high = corners(seed)
    d = bounded_quadratic(B, g, jacobian, low, high)
    entries = jacobian @ d
    # Sums of two entries of size up to one, but for the free one, which has no bounds.
    assert (entries >= low - 1e-12).all()
    assert (entries <= high + 1e-12).all()
    gain = g @ d - d @ B @ d / 2
    assert gain >= -1e-9 * (np.abs(g) @ np.abs(d))


def well_scaled(seed):
    """Two rows of four probabilities, some of them zero, and scores of more agents than entries."""
    rng = np.random.default_rng(seed)
    x = rng.dirichlet(np.ones(4), size=2)
    x[:, 1:][rng.random((2, 3)) < 0.3] = 0.0
    x = (x / x.sum(axis=1, keepdims=True)).ravel()
    jacobian = np.kron(np.eye(2), np.vstack([-np.ones(3), np.eye(3)]))
    scores = rng.normal(size=(37, 6))
    B, scale = scores.T @ scores / 37, 10.0 ** rng.uniform(-2, 0)
    size = 1.0 / np.sqrt(np.diag(B))
    return B * np.outer(size, size), scale * rng.normal(size=6), jacobian, -x, 1.0 - x


def test_guessed_bounds_are_those_that_a_search_finds():
    """One maximum, two ways to it; and the short one serves most often."""
    guessed = 0
    for seed in range(200):
        B, g, moves, low, high = well_scaled(seed)
        d, found = _guess(B, g, moves, low, high), _search(B, g, moves, low, high)
        if d is None:
            continue
        guessed += 1
        # Bounds that the search moves by 1e-14 apiece, and conditions of B of some tens.
        np.testing.assert_allclose(d, found, rtol=0, atol=1e-11)
        step = moves @ d
        np.testing.assert_array_less(low - 2e-14, step)
        np.testing.assert_array_less(step, high + 2e-14)
    assert guessed > 150


@pytest.mark.parametrize("slope", [0.0, 1e-30, 1e-3, 1.0])
@pytest.mark.parametrize("curvature", [0.0, 1e-320, 1e-300, 1e-200])
def test_an_entry_without_curvature_goes_to_its_bound_and_nothing_overflows(curvature, slope):
    B, g, box = np.diag([4.0, curvature]), np.array([2.0, slope]), np.array([1.0, 3.0])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        bounded = bounded_quadratic(B, g, np.eye(2), -box, box)
        free = bounded_quadratic(B, g, np.eye(2), np.full(2, -np.inf), np.full(2, np.inf))
    np.testing.assert_allclose(bounded, [0.5, 3.0 if slope > 0 else 0.0], rtol=1e-12)
    assert free[0] == pytest.approx(0.5, rel=1e-12)
    assert np.isfinite(free[1])
    assert free[1] > 3.0 or slope == 0.0
