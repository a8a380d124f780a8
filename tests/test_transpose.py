"""T'(V) and its transpose, which multipliers are made of: <y, T' d> = <T'' y, d>, for every law."""

import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit._bellman import bellman_operator
from pomdpfit._model import checked_primitives
from pomdpfit._policy import action_values_along, action_values_back

pytestmark = pytest.mark.full

_MODELS = {
    "moves up, resets, laws at the top": pf.models.EngineReplacement(bins=9),
    "replaced by force at the top": pf.models.EngineReplacement(bins=9, top="replace"),
    "one law everywhere": pf.models.Tiger(),
    "a law for each observation": pf.models.Tabular(4, 2, 3, 0.9),
    "three hidden states": pf.models.Tabular(3, 3, 2, 0.9),
}
_CASES = [
    pytest.param(model, grid, id=f"{name}, {type(grid).__name__}")
    for name, model in _MODELS.items()
    for grid in (pf.Linear(6), pf.Smooth(6))
    if grid.coefficients == 1 or name != "three hidden states"
]


def _operator(model, grid):
    return bellman_operator(checked_primitives(model, model.example()), grid)


def _drawn(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


@pytest.mark.parametrize(("model", "grid"), _CASES)
def test_the_transpose_of_the_derivative_is_its_transpose(model, grid):
    operator = _operator(model, grid)
    value = _drawn(*operator.reward[:, 0].shape)
    transfer = operator.derivative(value)
    d, y = np.random.default_rng(1).normal(size=(2, *value.shape))
    forward, back = np.vdot(y, transfer(d)), np.vdot(transfer.back(y), d)
    assert back == pytest.approx(forward, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("model", "grid"), _CASES)
def test_the_transpose_of_action_values_is_their_transpose(model, grid):
    operator = _operator(model, grid)
    d = _drawn(*operator.reward[:, 0].shape)
    along = action_values_along(operator, d)
    y = _drawn(*along.shape)
    back = action_values_back(operator, y)
    assert np.vdot(back, d) == pytest.approx(np.vdot(y, along), rel=1e-12, abs=1e-12)
