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


MODEL, GRID = pf.models.EngineReplacement(bins=12, discount=0.9), pf.Smooth(11)
THETA = {**MODEL.example(), "RC": np.array(2.0), "cost": np.array([20.0, 150.0])}
SPACE = MODEL.space().free("discount")


@pytest.fixture(scope="module")
def found():
    return pf.sensitivity(MODEL, THETA, Z, X, grid=GRID, space=SPACE)


def test_sensitivities_equal_differences_of_solutions(found):
    """Central differences of step 1e-6 are good to 1e-9 of V, which is of size 10 here."""
    assert found.names == tuple(SPACE.free_names)

    def value_and_policy(model, theta):
        solution = pf.solve(model, theta, grid=GRID, solver=pf.Newton(tolerance=1e-13))
        return np.column_stack([solution.value(Z, X), solution.policy(Z, X)])

    value, policy = np.split(differences(MODEL, THETA, SPACE, value_and_policy), [1], axis=1)
    value = value[:, 0]
    np.testing.assert_allclose(found.value, value, atol=1e-7 * np.abs(value).max())
    np.testing.assert_allclose(found.policy, policy, atol=1e-7 * np.abs(policy).max())
    # Probabilities sum to one, so their derivatives sum to zero.
    np.testing.assert_allclose(found.policy.sum(axis=1), 0.0, atol=1e-12 * np.abs(policy).max())


def test_a_single_point_makes_a_labelled_table(found):
    one = pf.sensitivity(MODEL, THETA, Z[1], X[1], grid=GRID, space=SPACE).to_frame()
    assert list(one.index) == SPACE.free_names
    assert list(one.columns) == ["value", "P(a=0)", "P(a=1)"]
    np.testing.assert_allclose(one["value"], found.value[1], rtol=1e-12)
    with pytest.raises(ValueError, match="one"):
        found.to_frame()
