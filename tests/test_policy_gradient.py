"""Algorithm 1: the faithful form obeys Theorem 4's bound at every K, the practical one arrives."""

import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit.estimators._soft_policy_gradient import lipschitz

MODEL = pf.models.EngineReplacement(bins=8, increments=3, discount=0.9)
GRID = pf.Smooth(9)
PRIOR = pf.KnownPrior([0.5, 0.5])
TRUTH = {
    "RC": 3.0,
    "cost": np.array([50.0, 400.0]),
    "stay": np.array([0.85, 0.9]),
    "increment": np.array([[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]]),
    "discount": 0.9,
}


@pytest.fixture(scope="module")
def panel():
    return pf.simulate(MODEL, TRUTH, agents=10, periods=20, seed=0, prior=PRIOR, grid=GRID)


def fit(panel, estimator, known=("stay", "increment")):
    return pf.fit(
        MODEL,
        panel,
        estimator,
        prior=PRIOR,
        grid=GRID,
        fixed={name: TRUTH[name] for name in known},
        starts=1,
        start={"RC": 2.0, "cost": np.array([40.0, 300.0])},
    )


def test_the_constant_of_theorem_4_by_hand(panel):
    likelihood = pf.Likelihood(MODEL, panel, prior=PRIOR, grid=GRID)
    # Keeping: -0.001 z in one of the two costs, at most 0.007; replacing: -1 in RC.
    steepest, beta, NT = 1.0, 0.9, 200
    first = 2 * beta / (1 - beta) ** 3 * steepest**2
    second = 2 / (1 - beta) ** 3 * steepest**2
    assert lipschitz(likelihood) == pytest.approx(NT * (first + second), rel=1e-12)


def test_the_faithful_form_obeys_the_bound_at_every_step(panel):
    with pytest.warns(pf.ConvergenceWarning):  # so small a step does not get there
        est = fit(panel, pf.SoftPolicyGradient(faithful=True, max_steps=60))
    best = fit(panel, pf.TwoStage())
    bound = pf.theorem_4(est, best.llf_choice)
    assert list(bound.columns) == ["llf", "gradient", "smallest", "bound"]
    assert (bound["smallest"].iloc[1:] <= bound["bound"].iloc[1:]).all()
    # Ascent at every step, as the proof has it, by at least rho (1 - rho L / 2) |grad|^2.
    likelihood = pf.Likelihood(MODEL, panel, prior=PRIOR, grid=GRID)
    L = lipschitz(likelihood)
    rho = 1.0 / L
    rise = np.diff(bound["llf"])
    assert (rise >= rho / 2 * bound["gradient"].to_numpy()[:-1] * (1 - 1e-6)).all()


@pytest.mark.parametrize(
    "known",
    [("stay", "increment", "cost"), pytest.param(("stay", "increment"), marks=pytest.mark.full)],
)
def test_the_practical_form_reaches_the_two_stage_estimate(panel, known):
    practical = fit(panel, pf.SoftPolicyGradient(epsilon=5e-4), known)
    staged = fit(panel, pf.TwoStage(), known)
    assert practical.converged
    # |grad| < 5e-4 leaves at most that times the largest standard error, in standard errors.
    gap = (practical.params - staged.params) / staged.bse
    np.testing.assert_allclose(gap, 0, atol=0.05)


def test_the_faithful_form_refuses_what_the_theorem_does_not_cover(panel):
    tiger = pf.models.Tiger(scale=0.5)
    heard = pf.Panel.from_arrays([[0, 1, 0]], [[0, 0]])
    with pytest.raises(pf.EstimationError, match="scale one"):
        pf.fit(tiger, heard, pf.SoftPolicyGradient(faithful=True), prior=PRIOR)
    with pytest.raises(pf.EstimationError, match="share"):
        fit(panel, pf.SoftPolicyGradient(faithful=True, share=1.0))
