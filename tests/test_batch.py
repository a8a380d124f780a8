"""Climbs side by side: against climbs one by one, in bad company, and counted."""

import jax
import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit._batch import Batch, Members, can_batch, chosen_width, stacked_panels
from pomdpfit._log_likelihood import Part
from pomdpfit.estimators import _together
from pomdpfit.estimators._paths import Path, run_stage
from pomdpfit.estimators._together import run_stage_together

pytestmark = pytest.mark.full

MODEL = pf.models.EngineReplacement(bins=6, increments=3, discount=0.9)
TRUTH = {
    "RC": np.array(2.0),
    "cost": np.array([300.0, 900.0]),
    "stay": np.array([0.85, 0.95]),
    "increment": np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]),
    "discount": np.array(0.9),
}
PRIOR = pf.KnownPrior([0.5, 0.5])
# Two climbs end within sqrt(2 tolerance) standard errors of the maximum each: see test_bootstrap.
CLOSE = pf.BHHH(tolerance=1e-12)
NEAR = 2 * np.sqrt(2 * CLOSE.tolerance) * 1.1

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: COMPILED.append(event) if "backend_compile" in event else None
)


@pytest.fixture(scope="module")
def panel():
    return pf.simulate(MODEL, TRUTH, agents=40, periods=15, seed=0, prior=PRIOR, z0=[0] * 40)


def fitted(panel, estimator, **options):
    means = {"prior": PRIOR, "grid": pf.Smooth(5), "starts": 1, "skip_hessian": True}
    return pf.fit(MODEL, panel, estimator, start=TRUTH, **(means | options))


@pytest.fixture(scope="module")
def staged(panel):
    return fitted(panel, pf.TwoStage(CLOSE), fixed={"cost": TRUTH["cost"]})


@pytest.fixture(scope="module")
def likelihood(staged):
    return staged.setting.likelihood(staged.space)


def weights_of(seeds, agents=40):
    draw = lambda k: np.random.default_rng(k).multinomial(agents, np.full(agents, 1 / agents))
    return [draw(k).astype(float) for k in seeds]


def members_at(likelihood, thetas, weights):
    cold = Batch(likelihood, len(thetas)).cold
    theta = {
        name: np.stack([np.asarray(t[name]) for t in thetas])
        for name in likelihood.space.parameters
    }
    return Members(theta, np.stack(weights), np.broadcast_to(cold, (len(thetas), *cold.shape)))


# ---- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [Part.OBSERVATION, Part.CHOICE, Part.BOTH])
def test_slopes_and_outer_products_are_those_of_the_likelihood(likelihood, part):
    """One program or another: the same formulas, so rounding (and the solver's 1e-10) apart."""
    leaves, weights = ("RC", "stay", "increment"), weights_of(range(3))
    thetas = [
        {**TRUTH, "RC": np.array(1.5 + k), "stay": np.array([0.8, 0.9 + 0.02 * k])}
        for k in range(3)
    ]
    batch, members = Batch(likelihood, 3), members_at(likelihood, thetas, weights)
    directions = likelihood.space.free_directions()
    stacked = {n: np.broadcast_to(d, (3, *d.shape)) for n, d in directions.items()}
    slopes, outers = batch.slopes(part, leaves, members), batch.outers(part, stacked, members)
    assert np.asarray(slopes.sound).all()
    assert np.asarray(outers.sound).all()
    wanted = np.array([Part.OBSERVATION in part, Part.CHOICE in part], dtype=float)
    for k, (theta, w) in enumerate(zip(thetas, weights, strict=True)):
        terms, gradient = likelihood.pull(theta, w[:, None] * wanted, leaves, part=part)
        np.testing.assert_allclose(
            slopes.answer[0][k], (w[:, None] * wanted * terms.parts()).sum(), rtol=1e-9
        )
        for name in leaves:
            np.testing.assert_allclose(
                slopes.answer[1][name][k], gradient[name], rtol=1e-7, atol=1e-7
            )
        scores = np.einsum("ijp,j->ip", likelihood.push(theta, directions, part=part)[1], wanted)
        np.testing.assert_allclose(
            outers.answer[k], (scores * w[:, None]).T @ scores, rtol=1e-6, atol=1e-6
        )


def test_members_with_panels_of_their_own(staged, likelihood):
    """Each is scored on its own panel, whatever is known of the likelihood's."""
    likelihood.terms(TRUTH)
    assert likelihood._data.moves is not None
    panels, ones = [likelihood.simulate(TRUTH, seed) for seed in range(2)], np.ones(40)
    assert (panels[0].z != panels[1].z).any()
    batch, leaves = Batch(likelihood, 2), ("RC", "increment")
    members = members_at(likelihood, [TRUTH] * 2, [ones] * 2)
    members = members._replace(panel=stacked_panels([batch.arrays(p) for p in panels]))
    directions = likelihood.space.free_directions()
    stacked = {n: np.broadcast_to(d, (2, *d.shape)) for n, d in directions.items()}
    slopes = batch.slopes(Part.BOTH, leaves, members)
    outers = batch.outers(Part.BOTH, stacked, members)
    for k, panel in enumerate(panels):
        own = staged.setting.likelihood(staged.space, panel)
        terms, gradient = own.pull(TRUTH, np.ones((40, 2)), leaves)
        np.testing.assert_allclose(slopes.answer[0][k], terms.total, rtol=1e-9)
        for name in leaves:
            np.testing.assert_allclose(
                slopes.answer[1][name][k], gradient[name], rtol=1e-7, atol=1e-7
            )
        scores = own.push(TRUTH, directions)[1].sum(axis=1)
        np.testing.assert_allclose(outers.answer[k], scores.T @ scores, rtol=1e-6, atol=1e-6)


def test_bad_company_does_no_harm(likelihood):
    """NaN, a kernel that is none, an impossible transition: told by the flag, felt by nobody."""
    never = {**TRUTH, "increment": np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])}
    over = {**TRUTH, "increment": np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])}
    bad = [{**TRUTH, "RC": np.array(np.nan)}, never, over, {**TRUTH, "discount": np.array(1.0)}]
    weights = weights_of(range(5))
    alone = Batch(likelihood, 5).slopes(
        Part.BOTH, ("RC",), members_at(likelihood, [TRUTH] * 5, weights)
    )
    crowd = members_at(likelihood, [bad[0], TRUTH, bad[1], bad[2], bad[3]], weights)
    found = Batch(likelihood, 5).slopes(Part.BOTH, ("RC",), crowd)
    assert np.asarray(found.sound).tolist() == [False, True, False, False, False]
    # The same program with the same numbers in the same lane.
    np.testing.assert_array_equal(found.answer[0][1], alone.answer[0][1])
    np.testing.assert_array_equal(found.answer[1]["RC"][1], alone.answer[1]["RC"][1])


def test_what_weighs_nothing_may_be_impossible(likelihood, panel):
    """An agent that a replicate has not drawn does not count, even where it has no likelihood."""
    never = {**TRUTH, "increment": np.array([[0.2, 0.8, 0.0], [0.6, 0.4, 0.0]])}
    kept = panel.a[:, :-1] == 0
    jumps = (kept & (np.diff(panel.z, axis=1) == 2)).any(axis=1)
    assert 0 < jumps.sum() < 40
    members = members_at(likelihood, [never] * 2, [(~jumps).astype(float), np.ones(40)])
    found = Batch(likelihood, 2).slopes(Part.BOTH, ("RC", "increment"), members)
    assert np.asarray(found.sound).tolist() == [True, False]


# ---- climbs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("parametric", [False, True])
def test_replicates_side_by_side_are_those_one_by_one(staged, parametric):
    together = pf.bootstrap(staged, 5, seed=3, batch=4, parametric=parametric)
    alone = pf.bootstrap(staged, 5, seed=3, batch=1, parametric=parametric)
    spread = alone.draws.std()
    gap = ((together.draws - alone.draws) / spread.where(spread > 0, 1.0)).to_numpy()
    assert np.abs(gap).max() < NEAR
    # The choices are scored at the dynamics of the first stage, where their slope is not zero: in
    # their log-likelihood the distance between two climbs counts itself, not its square.
    np.testing.assert_allclose(together.info["llf"], alone.info["llf"], rtol=0, atol=10 * NEAR)
    assert together.info["boundary"].tolist() == alone.info["boundary"].tolist()
    assert together.info["converged"].all()


def test_starts_side_by_side_lead_where_they_lead_one_by_one(panel):
    options = {"starts": 5, "fixed": {"cost": TRUTH["cost"], "stay": TRUTH["stay"]}}
    together = fitted(panel, pf.Joint(), batch=2, **options)
    alone = fitted(panel, pf.Joint(), batch=1, **options)
    np.testing.assert_allclose(together.modes["llf"], alone.modes["llf"], atol=4e-8)
    assert together.starts["mode"].tolist() == alone.starts["mode"].tolist()


def test_a_lost_climb_costs_no_other(staged, likelihood):
    stage = staged.setting.estimator.stages(likelihood)[1]
    thetas = [dict(staged.theta) for _ in range(3)]
    thetas[1]["stay"] = np.array([np.nan, 0.9])
    paths = [Path((str(k),), theta) for k, theta in enumerate(thetas)]
    weights = weights_of(range(3))
    found = run_stage_together(Batch(likelihood, 2), stage, paths, None, weights)
    assert [path.alive for path in found] == [True, False, True]
    for k in (0, 2):
        alone = run_stage(likelihood, stage, paths[k], None, weights[k])
        np.testing.assert_allclose(found[k].climbs[0].value, alone.climbs[0].value, atol=2e-8)


# ---- counts ------------------------------------------------------------------------------------


def test_any_number_of_replicates_shares_one_compilation(staged):
    pf.bootstrap(staged, 3, seed=0, batch=4)
    before = len(COMPILED)
    pf.bootstrap(staged, 40, seed=1, batch=4)
    assert len(COMPILED) == before


def test_batches_are_full(staged, likelihood, monkeypatch):
    """Questions in all over the width, but for the last climbs, which have less company."""
    asked = []
    original = _together._Pool._go_on

    def counted(self, climber, answer):
        goes_on = original(self, climber, answer)
        asked.extend([climber.number] * goes_on)
        return goes_on

    monkeypatch.setattr(_together._Pool, "_go_on", counted)
    stage = staged.setting.estimator.stages(likelihood)[0]
    batch, calls = Batch(likelihood, 4), []
    for name in ("slopes", "outers"):
        answer = getattr(batch, name)
        monkeypatch.setattr(
            batch, name, lambda *args, answer=answer: (calls.append(1), answer(*args))[1]
        )
    paths = [Path((str(k),), dict(staged.theta)) for k in range(40)]
    run_stage_together(batch, stage, paths, None, weights_of(range(40)))
    longest = max(np.bincount(asked))
    assert len(calls) <= len(asked) / 4 + 2 * longest
    assert len(calls) < len(asked) / 2


# ---- the choice between the ways ---------------------------------------------------------------


def test_what_cannot_be_batched_says_so(staged, likelihood, panel):
    assert can_batch(likelihood)
    for prior in (pf.AgentPriors(), pf.StationaryPrior()):
        assert not can_batch(pf.Likelihood(MODEL, panel, prior=prior, grid=pf.Smooth(5)))
    assert chosen_width(likelihood, 100, 2, None) == 1
    assert chosen_width(likelihood, 2, 1, None) == 1
    assert chosen_width(likelihood, 2, 1, 7) == 7
    if jax.devices()[0].platform == "cpu":
        assert chosen_width(likelihood, 100, 1, None) == 1
    other = pf.Likelihood(MODEL, panel, prior=pf.StationaryPrior(), grid=pf.Smooth(5))
    assert chosen_width(other, 100, 1, None) == 1
    with pytest.raises(pf.EstimationError, match="leave batch=None"):
        chosen_width(other, 100, 1, 4)
    with pytest.raises(pf.EstimationError, match="at least 1"):
        pf.bootstrap(staged, 3, batch=0)


def test_a_stopped_run_goes_on_to_the_same_bytes(staged, tmp_path):
    options = {"seed": 5, "batch": 2, "chunk": 3}
    whole = pf.bootstrap(staged, 7, **options)
    pf.bootstrap(staged, 3, checkpoint=tmp_path, **options)
    assert pf.bootstrap(staged, 7, checkpoint=tmp_path, **options).to_json() == whole.to_json()
    with pytest.raises(pf.EstimationError, match="batch changed"):
        pf.bootstrap(staged, 7, checkpoint=tmp_path, **(options | {"batch": 4}))


def test_progress_is_told_within_a_chunk(staged):
    heard = []
    pf.bootstrap(staged, 5, batch=2, progress=lambda *told: heard.append(told))
    inner = [told for told in heard if told[0].startswith("stage 2 of 2")]
    assert [done for _, done, _ in inner] == list(range(6))
    assert {total for *_, total in inner} == {5}
