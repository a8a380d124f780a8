"""The log-density and the NumPyro model: against the likelihood, by hand, and their refusals."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pomdpfit as pf
from small_signals import GRID, HALF, MODEL, TRUTH, likelihood_of, panel_of

numpyro = pytest.importorskip("numpyro", reason="the extra bayes is not installed")
dist = numpyro.distributions


@functools.cache
def signals():
    """A finite horizon."""
    return likelihood_of(panel_of(10))


@pytest.fixture(scope="module")
def likelihood():
    return signals()


def tiger():
    """An infinite horizon."""
    model = pf.models.Tiger(discount=0.9)
    theta = model.example() | {"listen": -0.3, "gold": 1.0, "mauled": -2.0, "accuracy": 0.8}
    z, a = [[0, 1, 1, 0, 1], [0, 0, 0, 1, 0]], [[0, 0, 1, 0, 2], [0, 0, 2, 0, 0]]
    panel = pf.Panel.from_arrays(z, a)
    return pf.Likelihood(model, panel, prior=HALF, grid=pf.Smooth(5)), theta


def engine(bins, nodes, prior, **more):
    """5 bins x 5 nodes are solved directly, 20 x 21 by sweeps."""
    model = pf.models.EngineReplacement(bins=bins, increments=3, discount=0.95)
    theta = model.example() | {"RC": 3.0, "cost": np.array([40.0, 300.0])}
    grid = pf.Smooth(nodes)
    panel = pf.simulate(model, theta, agents=8, periods=12, seed=0, prior=HALF, grid=grid)
    return pf.Likelihood(model, panel, prior=prior, grid=grid), theta | more


def grouped():
    model = pf.models.Grouped(MODEL, ("near", "far"), own=["gain"])
    panel = panel_of(6).with_groups(["near", "far"] * 3)
    theta = {**TRUTH, "gain": np.array([1.0, 2.0]), "group": 0.0}
    return pf.Likelihood(model, panel, prior=HALF, grid=GRID), theta


X0 = np.array([0.3, 0.7])
CASES = {
    "finite horizon": lambda: (signals(), TRUTH),
    "infinite horizon": tiger,
    "direct": lambda: engine(5, 5, pf.CommonPrior(), x0=X0),
    "sweeps": lambda: engine(20, 21, pf.CommonPrior(), x0=X0),
    "stationary": lambda: engine(5, 5, pf.StationaryPrior(11)),
    "groups": grouped,
}
QUICK = {"finite horizon", "infinite horizon"}  # the others take longer to compile


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[] if name in QUICK else pytest.mark.full)
        for name, make in CASES.items()
    ],
)
def test_value_and_gradient_are_those_of_the_likelihood(make):
    likelihood, theta = make()
    space = likelihood.space
    density = pf.bayes.log_density(likelihood)
    value, gradient = jax.value_and_grad(density)({n: theta[n] for n in space.free_leaves})
    terms, expected = likelihood.gradient(theta)
    assert value.dtype == jnp.float64
    assert float(value) == pytest.approx(terms.total, rel=1e-8)
    size = np.abs(expected).max()
    assert size > 0
    np.testing.assert_allclose(space.gradient_vector(gradient), expected, rtol=0, atol=1e-8 * size)


def test_where_there_is_no_likelihood_the_density_is_minus_infinity_and_flat(likelihood):
    density = jax.value_and_grad(pf.bayes.log_density(likelihood))
    free = {"gain": jnp.asarray(1.0), "seen": jnp.array([0.7, 0.3])}
    for change in (
        {"seen": jnp.array([1.2, -0.2])},
        {"seen": jnp.array([0.7, 0.5])},
        {"gain": jnp.asarray(jnp.nan)},
    ):
        value, gradient = density(free | change)
        assert value == -np.inf
        assert all((np.asarray(leaf) == 0).all() for leaf in gradient.values())


# ---- priors ------------------------------------------------------------------------------------


SPACE = pf.ParameterSpace(
    {
        "real": pf.Parameter([2.0, -30.0]),
        "positive": pf.Parameter(50.0, pf.Positive()),
        "share": pf.Parameter(0.0, pf.Interval(-1.0, 3.0)),
        "law": pf.Parameter([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], pf.Simplex()),
        "known": pf.Parameter(1.0, fixed=True),
    }
)


def estimate_of(errors, *, converged=True):
    """What `default_priors` reads of an estimate, at real = 3 and 0, positive = 40."""
    names = ["real[0]", "real[1]", "positive"]
    return types.SimpleNamespace(
        converged=converged,
        reason="it ran out of steps",
        information=types.SimpleNamespace(hessian=np.eye(3)),
        params=pd.Series([3.0, 0.0, 40.0], names),
        standard_errors=lambda kind: pd.Series(errors, names),
    )


def test_default_priors_follow_the_constraints_and_the_estimate():
    """Ten times sqrt(estimate^2 + standard error^2), whatever the model's example is."""
    priors = pf.bayes.default_priors(SPACE, estimate_of([4.0, 7.0, 30.0]))
    assert list(priors) == ["real", "positive", "share", "law"]
    at = {"real": [1.0, 2.0], "positive": 7.0, "share": 2.5, "law": np.full((2, 3), 1 / 3)}
    expected = {
        "real": stats.norm(0, [50.0, 70.0]).logpdf([1.0, 2.0]).sum(),
        "positive": stats.halfnorm(scale=500.0).logpdf(7.0),
        "share": stats.uniform(-1, 4).logpdf(2.5),
        "law": 2 * np.log(2.0),  # the simplex has area 1/2 in two coordinates
    }
    for name, value in at.items():
        got = priors[name].log_prob(jnp.asarray(value))
        assert float(got) == pytest.approx(expected[name], rel=1e-10)


@pytest.mark.parametrize(
    ("estimate", "message"),
    [
        (None, r"real\[0\], real\[1\] has no default prior.*no estimate"),
        (estimate_of([4.0, np.nan, 1.0]), r"^real\[1\] has.*no standard error.*Normal"),
        (estimate_of([4.0, 1.0, np.nan]), r"^positive has.*no standard error.*HalfNormal"),
        (estimate_of([1.0, 1.0, 1.0], converged=False), "not converged .it ran out of steps"),
    ],
)
def test_without_a_scale_there_is_no_default_prior(estimate, message):
    with pytest.raises(pf.EstimationError, match=message):
        pf.bayes.default_priors(SPACE, estimate)


def test_entries_that_are_fixed_need_no_scale():
    priors = pf.bayes.default_priors(SPACE, estimate_of([4.0, np.nan, 1.0]), ["real[1]"])
    np.testing.assert_allclose(np.sqrt(priors["real"].variance), [50.0, 10.0])


@pytest.mark.parametrize(
    ("prior", "shape", "texts"),
    [
        (dist.Normal(np.zeros(2), np.array([5.0, 700.0])).to_event(1), (2,),
         ["Normal(0, 5)", "Normal(0, 700)"]),
        (dist.HalfNormal(400.0), (), ["HalfNormal(400)"]),
        (dist.Beta(4.0, 2.0).expand([2]).to_event(1), (2,), ["Beta(4, 2)"] * 2),
        (dist.Dirichlet(np.array([1.0, 2.5])).expand([2]).to_event(1), (2, 2),
         ["Dirichlet(1, 2.5)"] * 4),
        (dist.MultivariateNormal(np.zeros(2), np.eye(2)), (2,), ["MultivariateNormal"] * 2),
    ],
)  # fmt: skip
def test_priors_are_shown_entry_by_entry(prior, shape, texts):
    from pomdpfit.bayes._parameter_priors import prior_texts

    assert list(prior_texts(pf.Parameter(np.ones(shape)), prior).ravel()) == texts


def test_one_prior_serves_all_entries_of_a_parameter():
    from pomdpfit.bayes._parameter_priors import checked_priors

    space = pf.ParameterSpace({"cost": pf.Parameter([1.0, 2.0])})
    for prior in (dist.Normal(0.0, 5.0), dist.Normal(np.zeros(2), 5.0)):
        chosen = checked_priors(space, {"cost": prior})["cost"]
        at = chosen.log_prob(jnp.array([1.0, -2.0]))
        assert float(at) == pytest.approx(stats.norm(0, 5).logpdf([1.0, -2.0]).sum())


def test_the_energy_is_prior_likelihood_and_jacobian(likelihood):
    """-U(z) = log prior(theta) + log l(theta) + log |d theta / d z|, the last by differences."""
    from numpyro.distributions import biject_to, constraints
    from numpyro.infer.util import potential_energy

    priors = {"gain": dist.LogNormal(0.5, 1.0), "seen": dist.Dirichlet(np.array([3.0, 2.0]))}
    model = pf.bayes.numpyro_model(likelihood, priors)
    simplex = biject_to(constraints.simplex)
    for z_gain, z_seen in ((0.2, 0.9), (-0.7, -0.4)):
        z = {"gain": jnp.asarray(z_gain), "seen": jnp.array([z_seen])}
        gain, seen = np.exp(z_gain), np.asarray(simplex(z["seen"]))
        step = 1e-5
        ends = [float(simplex(z["seen"] + side * step)[0]) for side in (-1, 1)]
        slope = (ends[1] - ends[0]) / (2 * step)
        expected = (
            stats.lognorm(s=1.0, scale=np.exp(0.5)).logpdf(gain)
            + stats.beta(3, 2).logpdf(seen[0])
            + likelihood(TRUTH | {"gain": gain, "seen": seen}).total
            + z_gain  # d exp(z) / dz = exp(z)
            + np.log(abs(slope))
        )
        # The difference quotient is good to step^2.
        assert -float(potential_energy(model, (), {}, z)) == pytest.approx(expected, abs=1e-8)


# ---- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"gian": dist.Normal()}, "Did you mean 'gain'"),
        ({"discount": dist.Beta(2.0, 2.0)}, r"'discount' is fixed.*free"),
        ({"gain": 3.0}, "NumPyro distribution, not 3"),
        ({"gain": dist.Poisson(3.0)}, "continuous"),
        ({"gain": dist.Normal(np.zeros(2), 1.0)}, r"\(2,\).*\(\)"),
        ({"seen": dist.Normal(0.8, 0.1)}, r"'seen' reaches"),
        ({"seen": dist.Dirichlet(np.ones(3))}, r"\(3,\)"),
        (dist.Normal(), "priors must map"),
        ({}, "gain has no default prior.*no estimate"),
    ],
)
def test_priors_that_do_not_fit_are_refused(likelihood, priors, message):
    with pytest.raises(pf.PomdpfitError, match=message):
        pf.bayes.numpyro_model(likelihood, priors)


def test_other_means_of_making_a_density_are_refused(likelihood):
    with pytest.raises(pf.EstimationError, match=r"hidden states.*not Signals"):
        pf.bayes.log_density(MODEL)
    own = pf.Likelihood(MODEL, likelihood.panel, prior=pf.AgentPriors(), grid=GRID)
    with pytest.raises(pf.EstimationError, match=r"AgentPriors.*CommonPrior"):
        pf.bayes.log_density(own)
    with pytest.raises(pf.EstimationError, match="'gain'"):
        pf.bayes.log_density(likelihood)({"seen": [0.7, 0.3]})
