"""Values and gradients converge as the belief grid is refined, the smooth scheme much faster."""

import numpy as np
import pytest

import pomdpfit as pf


def choice_part(model, theta, panel, grid) -> tuple[float, np.ndarray]:
    """The choice part of the log-likelihood and its gradient in the hidden dynamics (theta2)."""
    choices = panel.score(observation=np.zeros(panel.z.shape, dtype=bool))
    likelihood = pf.Likelihood(model, choices, prior=pf.KnownPrior([0.5, 0.5]), grid=grid)
    terms, gradient = likelihood.gradient(theta)
    dynamics = [name for name in gradient.index if name.startswith(("stay", "increment"))]
    return terms.total, gradient[dynamics].to_numpy()


def errors(bins, discount, schemes, limit) -> list[tuple[float, float]]:
    """Error of the value and relative error of the gradient, at a theta that is no maximum."""
    model = pf.models.EngineReplacement(bins=bins, discount=discount)
    prior, z0 = pf.KnownPrior([0.5, 0.5]), np.arange(40) % bins
    truth = model.example()
    panel = pf.simulate(model, truth, agents=40, periods=40, seed=0, prior=prior, z0=z0)
    theta = {**truth, "RC": truth["RC"] * 0.9, "stay": np.array([0.93, 0.97])}
    value, gradient = choice_part(model, theta, panel, limit)
    found = []
    for scheme in schemes:
        near, slope = choice_part(model, theta, panel, scheme)
        relative = np.max(np.abs(slope - gradient)) / np.max(np.abs(gradient))
        found.append((abs(near - value), relative))
    return found


@pytest.mark.full
def test_smooth_beats_linear_on_a_small_engine():
    linear, smooth = errors(30, 0.99, [pf.Linear(26), pf.Smooth(26)], pf.Smooth(201))
    assert smooth[0] < linear[0] / 10
    assert smooth[1] < linear[1] / 10


@pytest.mark.full
def test_gradient_in_the_hidden_dynamics_is_within_1e_4_of_its_limit_at_101_nodes():
    (smooth,) = errors(175, 0.9999, [pf.Smooth(101)], pf.Smooth(401))
    assert smooth[1] < 1e-4
