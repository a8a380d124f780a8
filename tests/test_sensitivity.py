"""Derivatives of values and choice probabilities in theta."""

import numpy as np
import pytest

import pomdpfit as pf

Z, X = np.array([0, 5, 11]), np.array([[0.9, 0.1], [0.35, 0.65], [0.02, 0.98]])


def differences(model, theta, space, read, step=1e-6) -> np.ndarray:
    middle = np.asarray(space.to_vector(theta))
    columns = []
    for unit in np.eye(len(middle)):
        up, down = (space.from_vector(middle + s * step * unit, theta) for s in (1, -1))
        columns.append((read(model, up) - read(model, down)) / (2 * step))
    return np.stack(columns, axis=-1)


def test_sensitivities_equal_differences_of_solutions():
    """Central differences of step 1e-6 are good to 1e-9 of V, which is of size 10 here."""
    model, grid = pf.models.EngineReplacement(bins=12, discount=0.9), pf.Smooth(21)
    theta = {**model.example(), "RC": np.array(2.0), "cost": np.array([20.0, 150.0])}
    space = model.space().free("discount")
    found = pf.sensitivity(model, theta, Z, X, grid=grid, space=space)
    assert found.names == tuple(space.free_names)
    exact = pf.Newton(tolerance=1e-13)
    solve = lambda m, th: pf.solve(m, th, grid=grid, solver=exact)
    value = differences(model, theta, space, lambda m, th: np.asarray(solve(m, th).value(Z, X)))
    policy = differences(model, theta, space, lambda m, th: np.asarray(solve(m, th).policy(Z, X)))
    np.testing.assert_allclose(found.value, value, atol=1e-7 * np.abs(value).max())
    np.testing.assert_allclose(found.policy, policy, atol=1e-7 * np.abs(policy).max())
    # Probabilities sum to one, so their derivatives sum to zero.
    np.testing.assert_allclose(found.policy.sum(axis=1), 0.0, atol=1e-12 * np.abs(policy).max())


def test_a_single_point_makes_a_labelled_table():
    model = pf.models.Tiger()
    frame = pf.sensitivity(model, model.example(), 0, [0.5, 0.5], grid=pf.Smooth(21)).to_frame()
    assert list(frame.index) == ["listen", "gold", "mauled", "accuracy"]
    assert list(frame.columns) == ["value", "P(a=0)", "P(a=1)", "P(a=2)"]
    several = pf.sensitivity(model, model.example(), [0, 1], [0.5, 0.5], grid=pf.Smooth(21))
    with pytest.raises(ValueError, match="one"):
        several.to_frame()
