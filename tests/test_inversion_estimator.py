"""Reward parameters from data by inversion: exact given exact choices, and near with more data."""

import jax
import numpy as np
import pytest

import pomdpfit as pf
from helpers import Table, random_kernel
from pomdpfit.identification.rewards import _fit_by_inversion
from pomdpfit.identification.rewards._first_stage import Choices
from replication import inversion

jax.config.update("jax_enable_x64", True)

MODEL, TRUTH, PRIOR, GRID = inversion.MODEL, inversion.TRUTH, inversion.PRIOR, inversion.GRID
WRONG = {**TRUTH, "RC": 1.0, "cost": np.array([0.0, 10.0])}


def small_panel():
    """125 agents: as many as in the smaller of two samples below, to share its compiled code."""
    return inversion.panel_of(5, agents=125, periods=20)


class Ending(pf.models.EngineReplacement):
    """The engine model with four decisions left."""

    def horizon(self):
        return 4


class ExactFirstStage(pf.PolynomialLogit):
    """Hands over the true policy instead of an estimate of it."""

    def fit(self, primitives, choices, weights=None):
        return _Exact(self.solution)


class _Exact:
    def __init__(self, solution):
        self.log_choice, self.policy = solution.values.log_choice, solution.policy


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(pf.models.EngineReplacement, id="infinite"),
        pytest.param(Ending, id="finite", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("reference", [pytest.param("keep", marks=pytest.mark.full), "replace"])
def test_exact_choice_probabilities_give_exact_parameters(build, reference):
    """Whatever the data and the start; rewards are linear in them, so one step does it."""
    model = build(bins=10, increments=3, discount=0.9)
    solution = pf.solve(model, TRUTH, grid=GRID)
    periods = 4 if model.horizon() else 20  # of the shape of small_panel
    z0 = np.arange(125) % 10
    drawn = {"agents": 125, "periods": periods, "seed": 0, "prior": PRIOR, "grid": GRID, "z0": z0}
    panel = pf.simulate(model, TRUTH, **drawn)
    first_stage = ExactFirstStage()
    object.__setattr__(first_stage, "solution", solution)
    found = pf.fit_by_inversion(
        model,
        panel,
        reference=reference,
        prior=PRIOR,
        first_stage=first_stage,
        dynamics=TRUTH,
        start=WRONG,
        grid=GRID,
    )
    expected = [TRUTH["RC"], *TRUTH["cost"]]
    # Residuals of 1e-10 over derivatives of 1e-3 a unit of cost.
    np.testing.assert_allclose(found.params, expected, atol=1e-6)
    assert found.unexplained < 1e-9
    assert found.steps == 2  # the second finds nothing left to do
    np.testing.assert_allclose(found.inversion.table, model.reward(TRUTH), atol=1e-8)


@pytest.mark.full
def test_more_agents_bring_the_estimate_to_the_truth():
    """Within 4.5 standard errors of it, which shrink with the root of the number of agents."""
    truth, spread = np.array([TRUTH["RC"], *TRUTH["cost"]]), {}
    for agents in (125, 2000):
        found = pf.fit_by_inversion(
            MODEL,
            inversion.panel_of(5, agents, periods=20),
            reference="replace",
            prior=PRIOR,
            dynamics=TRUTH,
            grid=GRID,
            replicates=8,
        )
        spread[agents] = found.bse.to_numpy()
        # A standard error from 8 resamples is itself known to 1 / sqrt(14) = 27 %.
        assert np.all(np.abs(found.params.to_numpy() - truth) < 4.5 * spread[agents] / 0.6)
    # The root of 16 is 4, and each ratio is known to 40 %.
    assert 2 < np.mean(spread[125] / spread[2000]) < 8
    text = str(found.summary())
    for word in ("replace", "taken as known", "degree 3", "8 resamples", "clipped"):
        assert word in text


def test_dynamics_are_those_that_make_the_observations_most_likely():
    panel = small_panel()
    found = pf.fit_by_inversion(
        MODEL,
        panel,
        reference="replace",
        prior=PRIOR,
        grid=GRID,
        start=TRUTH,
        starts=1,
        replicates=3,
    )
    likelihood = lambda theta: pf.filter_beliefs(MODEL, theta, panel, prior=PRIOR).log_sigma.sum()
    best = likelihood(found.theta)
    assert best > likelihood(TRUTH)
    for name, move in (
        ("stay", [0.003, 0.0]),
        ("stay", [0.0, 0.003]),
        ("increment", [[0.003, -0.003, 0.0], [0.0, 0.0, 0.0]]),
        ("increment", [[0.0, 0.0, 0.0], [0.003, 0.0, -0.003]]),
    ):
        for sign in (-1, 1):
            moved = {**found.theta, name: found.theta[name] + sign * np.array(move)}
            assert likelihood(moved) < best
    # Given as known, they lead to the same rewards.
    given = pf.fit_by_inversion(
        MODEL, panel, reference="replace", prior=PRIOR, grid=GRID, dynamics=found.theta
    )
    np.testing.assert_allclose(given.params, found.params, rtol=1e-8)
    assert given.draws is None
    assert given.bse.isna().all()
    assert "No standard errors" in str(given.summary())
    assert "estimated first" in str(found.summary())
    assert found.draws.shape == (3, 3)
    assert np.all(found.bse > 0)


def test_a_replicate_depends_on_its_number_alone():
    panel = small_panel()
    options = {"reference": "replace", "prior": PRIOR, "grid": GRID, "dynamics": TRUTH}
    few = pf.fit_by_inversion(MODEL, panel, replicates=2, seed=5, **options).draws
    more = pf.fit_by_inversion(MODEL, panel, replicates=3, seed=5, **options).draws
    np.testing.assert_array_equal(few, more[:2])
    assert not np.allclose(more.iloc[0], more.iloc[1])


@pytest.mark.full
def test_processes_change_nothing():
    panel = small_panel()
    options = {"reference": "replace", "prior": PRIOR, "grid": GRID, "dynamics": TRUTH}
    run = lambda n: pf.fit_by_inversion(MODEL, panel, replicates=4, seed=5, n_jobs=n, **options)
    np.testing.assert_array_equal(run(2).draws, run(1).draws)


def test_resamples_that_fail_are_counted(monkeypatch):
    def fail(task, theta, weights):
        if weights is not None and weights[0] == 0:
            raise pf.EstimationError("no")
        return real(task, theta, weights)

    real = _fit_by_inversion._from_dynamics
    monkeypatch.setattr(_fit_by_inversion, "_from_dynamics", fail)
    panel = small_panel()
    found = pf.fit_by_inversion(
        MODEL, panel, reference=1, prior=PRIOR, grid=GRID, dynamics=TRUTH, replicates=6
    )
    lost = int(found.draws.isna().any(axis=1).sum())
    assert 0 < lost < 6
    assert f"{6 - lost} resamples of agents (seed 0; {lost} failed)" in str(found.summary())


# ---- the first stage ---------------------------------------------------------------------------


def blind_table(Z=4, A=3, **changes):
    rng = np.random.default_rng(0)
    return Table(random_kernel(rng, Z, 1, A), np.zeros((Z, 1, A)), **changes)


def counted(Z=4, A=3, n=400, available=None):
    rng = np.random.default_rng(1)
    z = rng.integers(0, Z, n)
    weight = np.ones((Z, A)) if available is None else available.astype(float)
    a = np.array([rng.choice(A, p=weight[k] / weight[k].sum()) for k in z])
    counts = np.zeros((Z, A))
    np.add.at(counts, (z, a), 1)
    return Choices(z, np.ones((n, 1)), a, None, np.arange(n)), counts


@pytest.mark.parametrize("closed", [False, True])
def test_a_saturated_logit_counts(closed):
    """With a power for each z the maximum likelihood estimate is the relative frequency."""
    mask = np.ones((4, 3), bool)
    mask[1, 0] = mask[2, 2] = not closed
    choices, counts = counted(available=mask)
    primitives = blind_table(mask=mask).primitives({"discount": 0.9})
    logit = pf.PolynomialLogit(degree=5, ridge=1e-8).fit(primitives, choices)
    got = logit.policy(np.arange(4), np.ones((4, 1)))
    # The ridge moves them by 1e-8 times coefficients of order ten over counts of some thirty.
    np.testing.assert_allclose(got, counts / counts.sum(axis=1, keepdims=True), atol=1e-7)


def test_weights_count_as_often_as_they_say():
    choices, _ = counted()
    primitives = blind_table().primitives({"discount": 0.9})
    often = np.random.default_rng(2).integers(0, 4, len(choices.a))
    rows = np.repeat(np.arange(len(choices.a)), often)
    repeated = Choices(choices.z[rows], choices.x[rows], choices.a[rows], None, rows)
    method = pf.PolynomialLogit(degree=2)
    weighted = method.fit(primitives, choices, often.astype(float))
    # Newton stops where 1e-10 in log-likelihood is left: 1e-5 standard errors.
    np.testing.assert_allclose(
        weighted.coefficients, method.fit(primitives, repeated).coefficients, atol=1e-5
    )


def test_separated_choices_have_a_maximum_thanks_to_the_ridge():
    z = np.repeat([0, 1, 2, 3], 50)
    choices = Choices(z, np.ones((200, 1)), (z > 1).astype(int), None, z)
    primitives = blind_table(A=2).primitives({"discount": 0.9})
    logit = pf.PolynomialLogit(degree=1).fit(primitives, choices)
    got = np.asarray(logit.policy(np.arange(4), np.ones((4, 1))))
    assert np.all((got > 0) & (got < 1))
    assert np.all(got[:2, 0] > 0.99)


def test_polynomials_have_the_total_degree_and_no_power_that_repeats_another():
    primitives = Ending(bins=10, increments=3, discount=0.9).primitives(TRUTH)
    rng = np.random.default_rng(0)
    choices = Choices(
        rng.integers(0, 10, 90),
        rng.dirichlet([1, 1], 90),
        rng.integers(0, 2, 90),
        rng.integers(0, 4, 90),
        np.arange(90),
    )
    logit = pf.PolynomialLogit(3).fit(primitives, choices)
    powers = np.array(logit.powers)  # of z, x(bad) and t
    assert len(np.unique(powers, axis=0)) == len(powers) == 20  # (3 + 3 choose 3)
    assert powers.sum(axis=1).max() == 3
    few = blind_table(Z=2).primitives({"discount": 0.9})
    choices, _ = counted(Z=2)
    assert pf.PolynomialLogit(3).fit(few, choices).powers == ((0,), (1,))


# ---- refusals ----------------------------------------------------------------------------------


def refused(words, model=MODEL, panel=None, **changes):
    panel = small_panel() if panel is None else panel
    arguments = {"reference": "replace", "prior": PRIOR, "dynamics": TRUTH, "grid": GRID, **changes}
    with pytest.raises(pf.PomdpfitError, match=words):
        pf.fit_by_inversion(model, panel, **arguments)


def test_what_cannot_be_estimated_is_refused():
    kept = pf.Panel.from_arrays([[0, 1, 2]], [[0, 0, 0]])
    refused("action 1 is never chosen", panel=kept)
    refused("no free reward parameters", fixed={"RC": 3.0, "cost": TRUTH["cost"]})
    refused("at least 2 replicates, not 1", replicates=1)
    refused("dynamics and fixed give stay different values", fixed={"stay": [0.5, 0.5]})
    refused("one of keep, replace", reference="wait")
    refused("prior for each agent", prior=pf.AgentPriors())
    with pytest.raises(pf.EstimationError, match="degree"):
        pf.PolynomialLogit(degree=-1)


class Shifted(pf.models.EngineReplacement):
    """A constant in all rewards, which no choice reveals."""

    def parameters(self):
        return {**super().parameters(), "shift": pf.Parameter(0.5)}

    def reward(self, theta):
        return super().reward(theta) + theta["shift"]


class Priced(Shifted):
    """The shift is something that the panel tells."""

    def parameters(self):
        return {**super().parameters(), "shift": pf.Covariate(0.0)}


def test_parameters_that_no_choice_reveals_are_named():
    model = Shifted(bins=10, increments=3, discount=0.9)
    refused("do not tell shift:", model, dynamics={**TRUTH, "shift": 0.5})


@pytest.mark.full
def test_with_what_no_choice_reveals_fixed_the_others_are_found():
    model = Shifted(bins=10, increments=3, discount=0.9)
    found = pf.fit_by_inversion(
        model,
        small_panel(),
        reference="replace",
        prior=PRIOR,
        dynamics=TRUTH,
        fixed={"shift": 0.5},
        grid=GRID,
    )
    assert found.theta["shift"] == 0.5
    assert list(found.params.index) == inversion.REWARDS


def test_covariates_are_refused():
    model = Priced(bins=10, increments=3, discount=0.9)
    panel = small_panel().with_covariates(shift=0.0)
    refused("reads 'shift' from the panel", model, panel)
