"""Draws from a posterior: against quadrature, estimate and standard errors, and their labels."""

import re
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pomdpfit as pf
from pomdpfit.bayes._sample_posterior import Sampler
from small_signals import GRID, HALF, MODEL, TRUTH, Signals, likelihood_of, panel_of

numpyro = pytest.importorskip("numpyro", reason="the extra bayes is not installed")
dist = numpyro.distributions

PRIORS = {"gain": dist.Normal(1.0, 0.5), "seen": dist.Dirichlet(np.array([4.0, 2.0]))}


def sample(panel, priors=PRIORS, **options):
    return pf.sample_posterior(MODEL, panel, prior=HALF, grid=GRID, priors=priors, **options)


@pytest.fixture(scope="module")
def panel():
    return panel_of(100)


@pytest.fixture(scope="module")
def posterior(panel):
    return sample(panel, draws=250, warmup=150, chains=2, seed=1, start=TRUTH)


def by_quadrature(likelihood, nodes=24):
    """Means and standard deviations of gain and seen[true]: prior times likelihood on a grid.

    In natural coordinates, so that no transformation enters. Gauss and Legendre's rule on a box
    whose edges hold next to nothing of the posterior.
    """
    at, weights = np.polynomial.legendre.leggauss(nodes)
    gain, seen = 1.25 + 2.25 * at, 0.7 + 0.25 * at  # -1 to 3.5, 0.45 to 0.95
    total = lambda g, q: likelihood(TRUTH | {"gain": g, "seen": np.array([q, 1 - q])}).total
    log = np.array([[total(g, q) for q in seen] for g in gain])
    log += stats.norm(1, 0.5).logpdf(gain)[:, None] + stats.beta(4, 2).logpdf(seen)
    mass = np.exp(log - log.max()) * np.outer(weights, weights)
    mass /= mass.sum()
    edges = mass[[0, -1]].sum() + mass[:, [0, -1]].sum()
    assert edges < 1e-6
    moments = {}
    for name, values, share in (
        ("gain", gain, mass.sum(axis=1)),
        ("seen[true]", seen, mass.sum(axis=0)),
    ):
        mean = share @ values
        moments[name] = mean, np.sqrt(share @ (values - mean) ** 2)
    return moments


def test_draws_have_the_moments_that_quadrature_finds(panel, posterior):
    """Five Monte Carlo errors: sd / sqrt(ESS) of the mean, 1 / sqrt(2 ESS) relative of the sd.

    The latter is a normal's; these posteriors have somewhat heavier tails, hence twice that.
    """
    table = posterior.summary()
    for name, (mean, sd) in by_quadrature(likelihood_of(panel)).items():
        row = table.loc[name]
        assert row["ess"] > 60
        assert row["r_hat"] < 1.05
        assert abs(row["mean"] - mean) < 5 * sd / np.sqrt(row["ess"])
        assert row["sd"] / sd == pytest.approx(1, abs=5 * 2 / np.sqrt(2 * row["ess"]))


def test_variables_are_labelled_and_fixed_ones_absent(posterior):
    pytest.importorskip("arviz", reason="the extra bayes is not installed")
    data = posterior.to_arviz()
    assert set(data["posterior"].data_vars) == {"gain", "seen"}
    assert data["posterior"]["seen"].dims == ("chain", "draw", "seen_0")
    assert list(data["posterior"]["seen"].coords["seen_0"].values) == ["true", "false"]
    assert data["posterior"]["gain"].shape == (2, 250)
    assert data["sample_stats"]["diverging"].shape == (2, 250)
    np.testing.assert_array_equal(data["posterior"]["seen"].values, posterior.draws["seen"])


def test_draws_lie_inside_and_come_as_frame_and_theta(posterior):
    np.testing.assert_allclose(posterior.draws["seen"].sum(axis=-1), 1, atol=1e-12)
    frame = posterior.to_frame()
    assert list(frame) == ["gain", "seen[true]", "seen[false]"]
    theta = posterior.theta(1, 7)
    assert frame.loc[(1, 7), "seen[true]"] == theta["seen"][0]
    assert theta["discount"] == 0.9
    MODEL.space().check(theta)


class Cents(Signals):
    """The same model with its gain in cents: the example, 1, is far from the data's 150."""

    def reward(self, theta):
        return super().reward({**theta, "gain": theta["gain"] / 100})


def test_a_default_prior_has_the_scale_of_the_data(panel):
    """The posterior in cents is a hundred times the one under a flat prior, by quadrature.

    To five Monte Carlo errors comes what the prior may do: 0.005 standard errors.
    """
    at, weights = np.polynomial.legendre.leggauss(24)
    gain, likelihood = 1.5 + 3.5 * at, likelihood_of(panel)
    log = np.array([likelihood(TRUTH | {"gain": g}).total for g in gain])
    mass = np.exp(log - log.max()) * weights
    assert mass[[0, -1]].sum() < 1e-12 * mass.sum()
    mean = 100 * mass @ gain / mass.sum()
    sd = np.sqrt(mass @ (100 * gain - mean) ** 2 / mass.sum())
    found = pf.sample_posterior(
        Cents(), panel, prior=HALF, grid=GRID, fixed={"seen": TRUTH["seen"]},
        start={"gain": 100.0}, draws=250, warmup=150, chains=2, seed=1,
    )  # fmt: skip
    row = found.summary().loc["gain"]
    assert row["ess"] > 60
    assert abs(row["mean"] - mean) < sd * (0.005 + 5 / np.sqrt(row["ess"]))
    assert row["sd"] / sd == pytest.approx(1, abs=0.005 + 5 * 2 / np.sqrt(2 * row["ess"]))
    assert not found.doubts
    scale = float(found.priors["gain"].variance) ** 0.5
    assert scale == pytest.approx(10 * np.hypot(mean, sd), rel=0.1)  # estimate and mean differ
    assert row["prior"] == f"Normal(0, {scale:.4g})"
    assert row["prior"] in str(found)
    assert "priors by default, not given: gain" in str(found)


def test_chains_start_as_wide_as_the_estimate_says():
    """Twice its standard errors; of a probability by the delta method, d logit = dq / (q (1 - q)).

    The inverse mass matrix is the covariance itself. Where it is unknown, a tenth, and one.
    """
    sampler = Sampler(likelihood_of(panel_of(10)), PRIORS, warmup=1, draws=1)
    names = ["gain", "seen[true]", "seen[false]"]
    jacobian = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    cov = jacobian @ np.array([[0.3**2, 0.004], [0.004, 0.05**2]]) @ jacobian.T
    point = sampler._unconstrained(TRUTH)
    spread, mass = sampler._covariances(point, pd.DataFrame(cov, names, names))
    slope = np.array([1.0, 1 / (0.7 * 0.3)])
    expected = np.array([[0.3**2, 0.004], [0.004, 0.05**2]]) * np.outer(slope, slope)
    np.testing.assert_allclose(mass, expected, rtol=1e-10)
    np.testing.assert_allclose(spread @ spread.T, 4 * expected, rtol=1e-10)
    cov[0] = cov[:, 0] = np.nan
    spread, mass = sampler._covariances(point, pd.DataFrame(cov, names, names))
    np.testing.assert_allclose(mass, np.diag([1.0, expected[1, 1]]), rtol=1e-10)
    np.testing.assert_allclose(spread[0], [0.1 * 1.5, 0.0], rtol=1e-10)


def test_chains_start_at_other_maxima_that_are_close():
    """The mirror image of Signals: gain and the meaning of the signal change sign together."""
    from pomdpfit.bayes._sample_posterior import _around

    space = MODEL.space()
    mirror = {**TRUTH, "gain": -1.5, "seen": np.array([0.3, 0.7])}
    rows = [
        {"llf": llf, "converged": converged, **space.to_series(theta)}
        for llf, converged, theta in (
            (-400.0, True, TRUTH), (-402.0, True, mirror), (-401.0, False, mirror),
            (-440.0, True, mirror),
        )
    ]  # fmt: skip
    estimate = types.SimpleNamespace(
        converged=True, theta=TRUTH, space=space, modes=pd.DataFrame(rows), starts=[None] * 5
    )
    points, text = _around(None, estimate)
    assert [float(point["gain"]) for point in points] == [1.5, -1.5]
    assert "1 other maxima within 10" in text
    assert "1 other maxima, further below it, were left out" in text
    sampler = Sampler(likelihood_of(panel_of(10)), PRIORS, warmup=1, draws=1)
    vectors = [sampler._unconstrained(point) for point in points]
    still = np.zeros((2, 2))
    starts = sampler._starts(vectors, still, jax.random.key(0), 3)
    np.testing.assert_allclose(starts["gain"], [1.5, -1.5, 1.5])


class Sides(Signals):
    """A gain of its own for each state."""

    def parameters(self):
        gain = pf.Parameter([1.0, 1.0], labels=[("left", "right")])
        return {**super().parameters(), "gain": gain}

    def reward(self, theta):
        return jnp.broadcast_to(jnp.diag(theta["gain"]), (2, 2, 2))


SIDES = {**TRUTH, "gain": np.array([1.5, 1.5])}
HELD = {"gain[left]": 1.5, "seen": TRUTH["seen"]}


@pytest.mark.full
def test_an_entry_is_held_while_the_other_is_sampled_and_progress_is_told(panel):
    """By quadrature over the one that is free; five Monte Carlo errors, as above."""
    heard = []
    found = pf.sample_posterior(
        Sides(), panel, prior=HALF, grid=GRID, priors={"gain": dist.Normal(1.0, 0.5)}, fixed=HELD,
        start={"gain": [0.0, 1.0]}, draws=250, warmup=150, chains=2, seed=2,
        progress=lambda *news: heard.append(news),
    )  # fmt: skip
    assert list(found.to_frame()) == ["gain[right]"]
    assert (found.draws["gain"][..., 0] == 1.5).all()
    assert found.theta(0, 3)["gain"][0] == 1.5
    at, weights = np.polynomial.legendre.leggauss(24)
    gain = 1.25 + 2.25 * at
    likelihood = pf.Likelihood(Sides(), panel, prior=HALF, grid=GRID)
    log = np.array([likelihood(SIDES | {"gain": np.array([1.5, g])}).total for g in gain])
    log += stats.norm(1, 0.5).logpdf(gain)
    mass = np.exp(log - log.max()) * weights
    mean = mass @ gain / mass.sum()
    sd = np.sqrt(mass @ (gain - mean) ** 2 / mass.sum())
    row = found.summary().loc["gain[right]"]
    assert row["ess"] > 60
    assert abs(row["mean"] - mean) < 5 * sd / np.sqrt(row["ess"])
    assert row["sd"] / sd == pytest.approx(1, abs=5 * 2 / np.sqrt(2 * row["ess"]))
    assert [what.split()[0] for what, *_ in heard[:3]] == ["sampling", "sampling", "sampling"]
    done = [news[1:] for news in heard if news[0] == "sampling"]
    assert done == sorted(done)
    assert done[-1] == (800, 800)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fixed": {"seen[true]": 0.7}}, r"'seen\[true\]' cannot be fixed alone.*sum to one"),
        ({"fixed": {"gain": [1.0, 1.0], "gain[left]": 2.0}}, "both gain and"),
        ({"fixed": {"gain[lfet]": 2.0}}, r"gain\[left\]"),
        ({"fixed": {"gain[left]": np.nan}}, r"gain\[left\]"),
        (
            {"fixed": HELD, "priors": {"gain": dist.MultivariateNormal(np.ones(2), np.eye(2))}},
            r"all its entries together.*gain\[left\]",
        ),
        ({"fixed": {**HELD, "gain[right]": 1.0}}, "nothing to sample"),
    ],
)
def test_entries_that_cannot_be_held_are_refused(panel, options, message):
    sizes = {"draws": 5, "warmup": 5, "chains": 1}
    with pytest.raises(pf.PomdpfitError, match=message):
        pf.sample_posterior(Sides(), panel, prior=HALF, grid=GRID, **sizes, **options)


@pytest.mark.full
def test_a_seed_gives_the_same_draws_again(panel):
    """Also that one chain runs with the default priors."""
    options = {"draws": 50, "warmup": 50, "chains": 1, "start": TRUTH, "priors": None}
    first, again, other = (sample(panel, seed=seed, **options) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.draws["gain"], again.draws["gain"])
    assert (first.draws["gain"] != other.draws["gain"]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws must be a whole number of at least 1"),
        ({"warmup": 0}, "warmup"),
        ({"chains": True}, "chains"),
        ({"seed": 0.5}, "seed"),
        ({"accept": 1.0}, "accept"),
        ({"start": [1.5]}, r"start must be an estimate or a theta, not \[1.5\]"),
        ({"priors": {}, "fixed": {"gain": 1.0, "seen": [0.5, 0.5]}}, "nothing to sample"),
        ({"start": {"seen": [0.7, 0.7]}}, r"seen.*sums to 1\.4"),
        ({"start": {"seen": [1.0, 0.0]}}, r"cannot start at seen.*inside"),
        ({"start": {"gain": -1.0}, "priors": {"gain": dist.LogNormal()}}, "cannot start at gain"),
        ({"start": {"gain": 9.0}, "priors": {"gain": dist.Uniform(0, 5)}}, "cannot start at gain"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(panel, options, message):
    with pytest.raises(pf.PomdpfitError, match=message):
        sample(panel, **{"draws": 5, "warmup": 5, "chains": 1, **options})


def test_a_fully_observed_model_is_refused(panel):
    with pytest.raises(pf.ModelError, match="hidden states"):
        pf.sample_posterior(pf.baselines.BusEngine(bins=2, increments=2), panel)


def test_without_numpyro_its_extra_is_named(monkeypatch, panel):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(pf.MissingExtraError, match=r"numpyro.*pip install 'pomdpfit\[bayes\]'"):
        sample(panel)


def test_without_arviz_its_extra_is_named(monkeypatch, posterior):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(pf.MissingExtraError, match=r"arviz.*pip install 'pomdpfit\[bayes\]'"):
        posterior.to_arviz()


@pytest.mark.full
def test_a_large_panel_gives_the_estimate_and_its_standard_errors():
    """Bernstein and von Mises: the posterior tends to Normal(MLE, inverse information).

    Under a flat prior the mean is off by O(1 / sqrt(N)) standard errors. To that, five Monte Carlo
    errors.
    """
    panel = panel_of(10_000)
    estimate = pf.fit(MODEL, panel, prior=HALF, grid=GRID, start=TRUTH, starts=1)
    flat = {"gain": dist.Normal(0.0, 1000.0)}  # a Dirichlet of ones is flat
    posterior = sample(panel, flat, draws=250, warmup=100, chains=2, start=estimate)
    table = posterior.summary()
    for name in ("gain", "seen[true]"):
        row, error = table.loc[name], estimate.bse[name]
        assert row["ess"] > 60
        assert row["r_hat"] < 1.05
        off = (row["mean"] - estimate.params[name]) / error
        assert abs(off) < 0.15 + 5 / np.sqrt(row["ess"])
        assert row["sd"] / error == pytest.approx(1, abs=0.05 + 5 / np.sqrt(2 * row["ess"]))
    expected = estimate.cov_params("hessian").loc["gain", "seen[true]"]
    expected /= estimate.bse["gain"] * estimate.bse["seen[true]"]
    found = posterior.to_frame()[["gain", "seen[true]"]].corr().iloc[0, 1]
    assert found == pytest.approx(expected, abs=0.1)


@pytest.mark.full
def test_the_engines_posterior_is_not_ruled_by_a_prior_that_nobody_chose():
    """README's engine, 60 agents: cost[bad] is estimated at 228, standard error 38; truth 200.

    Its example is 1.2. A normal prior around zero, ten times as wide as that, gives 73 and 8.
    """
    model = pf.models.EngineReplacement(bins=12, increments=3, discount=0.95)
    truth = {
        **model.example(),
        "RC": 4.0,
        "cost": np.array([30.0, 200.0]),
        "stay": np.array([0.90, 0.93]),
        "increment": np.array([[0.2, 0.3, 0.5], [0.5, 0.38, 0.12]]),
    }
    grid = pf.Smooth(11)
    panel = pf.simulate(model, truth, agents=60, periods=30, seed=0, prior=HALF, grid=grid)
    estimate = pf.fit(model, panel, prior=HALF, grid=grid, start=truth, starts=1)
    error = estimate.bse["cost[bad]"]
    assert estimate.params["cost[bad]"] == pytest.approx(228, abs=1)
    assert error == pytest.approx(38, abs=1)
    sizes = {"prior": HALF, "grid": grid, "draws": 80, "warmup": 60, "chains": 2}
    found = pf.sample_posterior(model, panel, start=estimate.theta, **sizes)
    row = found.summary().loc["cost[bad]"]
    # A standard error holds Monte Carlo error (a fifth of it) and the likelihood's skewness.
    assert abs(row["mean"] - estimate.params["cost[bad]"]) < error
    assert 0.6 < row["sd"] / error < 1.6
    assert row["lower"] < 200 < row["upper"]
    assert not [doubt for doubt in found.doubts if "prior" in doubt]


@pytest.mark.full
def test_a_prior_in_the_wrong_units_is_warned_of(panel):
    """Zero and ten cents, where the data say 144 and 35.

    The posterior follows the prior, to 11 and 9.6 if the likelihood is taken for normal: less than
    two prior standard deviations. If the prior counted twice, the mean would move by 0.7.
    """
    with pytest.warns(pf.ConvergenceWarning, match=r"move the posterior.*gain -") as caught:
        found = pf.sample_posterior(
            Cents(), panel, prior=HALF, grid=GRID, priors={"gain": dist.Normal(0.0, 10.0)},
            fixed={"seen": TRUTH["seen"]}, start={"gain": 10.0},
            draws=250, warmup=150, chains=2, seed=1,
        )  # fmt: skip
    assert any("as wide as their prior" in str(warning.message) for warning in caught)
    assert "Normal(0, 10)" in str(found)
    assert "by default" not in str(found)


@pytest.mark.full
def test_the_page_runs(capsys):
    text = (Path(__file__).parents[1] / "docs" / "bayes.md").read_text()
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "bayes.md", "exec"), names)
    assert "r_hat" in capsys.readouterr().out
