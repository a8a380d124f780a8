"""Derivatives of the choice terms, written down, against reverse mode and the careful filter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit import _plain_filter
from pomdpfit._log_likelihood import Part
from pomdpfit._plain_score import plain_pull_score
from pomdpfit._score_panel import pull_score
from small_hidden import DYNAMICS, ENGINE, TRUTH

pytestmark = pytest.mark.full


class Nested(pf.models.EngineReplacement):
    """With shocks that have parameters of their own."""

    def parameters(self):
        inside = pf.Interval(0.1, 1.0)
        return super().parameters() | {
            "nests": pf.Parameter(np.array([0.4, 0.8]), inside),
            "scale": pf.Parameter(0.9, pf.Interval(0.1, 5.0)),
        }

    def shock(self, theta):
        return pf.NestedLogit(((0,), (1,)), theta["nests"], theta["scale"])


class Ending(pf.models.EngineReplacement):
    """With a last decision."""

    def horizon(self):
        return 9


GROUPED = pf.models.Grouped(ENGINE, ["A", "B"], own=["RC"])
SCALED = pf.models.Grouped(Nested(bins=6, increments=3, discount=0.9), ["A", "B"], own=["scale"])
THREE = pf.models.EngineReplacement(bins=5, increments=3, discount=0.9, conditions=3)
CASES = {
    "smooth": (ENGINE, pf.Smooth(9)),
    "linear": (ENGINE, pf.Linear(9)),
    "three states": (THREE, pf.Linear(6)),
    "shocks with parameters": (Nested(bins=6, increments=3, discount=0.9), pf.Smooth(9)),
    "a last decision": (Ending(bins=6, increments=3, discount=0.9), pf.Linear(9)),
    "contexts": (GROUPED, pf.Smooth(9)),
    "contexts with shocks of their own": (SCALED, pf.Smooth(9)),
}


def scored(model, grid):
    """What the likelihood of a small panel is scored by, and unequal weights, one of them zero."""
    made = pf.simulate(ENGINE, TRUTH, agents=9, periods=8, seed=4, prior=pf.KnownPrior([0.5, 0.5]))
    if model.group_labels():
        made = made.with_covariates(group=np.arange(9) % 2)
    z = np.minimum(made.z, 4)
    panel = made.replaced(z, made.a, 4) if model is THREE else made
    states = 3 if model is THREE else 2
    prior = pf.KnownPrior(np.full(states, 1 / states))
    likelihood = pf.Likelihood(model, panel, prior=prior, grid=grid)
    theta = model.example() | ({} if model is THREE else {"stay": DYNAMICS["stay"]})
    point = likelihood._at(theta, Part.BOTH, None)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=(9, 2))
    weights[3] = 0.0
    return point.stage, point.data, jnp.asarray(weights)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_every_derivative_is_that_of_reverse_mode(case, at_once, monkeypatch):
    stage, data, weights = scored(*CASES[case])
    if not at_once:
        monkeypatch.setattr(_plain_filter, "_ROWS_AT_ONCE", 0)
    terms, back, lost = plain_pull_score(stage, data, weights)
    expected_terms, expected = pull_score(stage, data, weights)
    assert not lost
    for found, wanted in zip(terms, expected_terms, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-13)
    assert jax.tree.structure(back) == jax.tree.structure(expected)
    for found, wanted in zip(jax.tree.leaves(back), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-11 * (1 + np.abs(wanted).max()))
    moved = sum(np.abs(leaf).max(initial=0.0) > 0 for leaf in jax.tree.leaves(back.scene))
    assert moved >= (3 if "shocks" in case else 2)  # the table, and parameters of shocks
