"""Models whose likelihood is flat along some directions: an early end, and a verdict that says so.

What is counted are steps, not seconds.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit._entries import free_entries
from pomdpfit.estimators._flat import flat_directions
from pomdpfit.estimators._paths import Path

PRIOR = pf.KnownPrior([0.5, 0.5])


class Coins(pf.Model):
    """One of two coins, with heads at a probability of (a + b) / 2 or of q: the sum matters."""

    def parameters(self):
        return {
            "a": pf.Parameter(0.9, pf.Interval()),
            "b": pf.Parameter(0.7, pf.Interval()),
            "q": pf.Parameter(0.2, pf.Interval()),
            "discount": pf.discount_parameter(0.9),
        }

    def kernel(self, theta):
        heads = jnp.array([(theta["a"] + theta["b"]) / 2, theta["q"]])
        law = jnp.stack([1 - heads, heads], axis=1)  # [s, z']
        table = jnp.einsum("sk,st->skt", law, jnp.eye(2))
        return pf.dense_kernel(jnp.broadcast_to(table[None, :, None], (2, 2, 1, 2, 2)))

    def reward(self, theta):
        return np.zeros((2, 2, 1))


@pytest.fixture(scope="module")
def tosses():
    theta = Coins().example()
    return pf.simulate(Coins(), theta, agents=200, periods=10, seed=0, prior=PRIOR)


def toss(panel, **options):
    options = {"prior": PRIOR, "starts": 1, "batch": 1, **options}
    return pf.fit(Coins(), panel, pf.TwoStage(), **options)


@pytest.fixture(scope="module")
def known(tosses):
    """The same model with b known: identified."""
    return toss(tosses, fixed={"b": 0.7})


@pytest.fixture(scope="module")
def redundant(tosses):
    with pytest.warns(pf.ConvergenceWarning, match="not identified"):
        return toss(tosses)


def test_a_redundant_parameter_is_named_after_few_steps(redundant, known):
    assert redundant.result is pf.Result.FLAT
    assert not redundant.converged
    assert redundant.reason.startswith("not identified: the log-likelihood is flat along ")
    assert "0.71 a" in redundant.reason
    assert "0.71 b" in redundant.reason
    assert " q " not in redundant.reason
    assert set(redundant.information.flat) == {"a", "b"}
    assert "weak direction: " in str(redundant.summary())
    np.testing.assert_allclose(redundant.llf, known.llf, atol=1e-6)
    assert redundant.steps <= known.steps + 5  # a wait of five steps where nothing is gained


@pytest.mark.parametrize("kind", ["hessian", "opg", "sandwich"])
def test_only_what_is_identified_has_a_standard_error(redundant, known, kind):
    """Of a alone nothing is known; q is known as well as where b is."""
    errors = redundant.standard_errors(kind)
    assert errors[["a", "b"]].isna().all()
    # Both searches end within 1.4e-4 standard errors of the maximum; errors change less than that.
    np.testing.assert_allclose(errors["q"], known.standard_errors(kind)["q"], rtol=1e-3)
    test = redundant.wald_test("q = 0.2", kind)
    np.testing.assert_allclose(
        test.statistic, known.wald_test("q = 0.2", kind).statistic, rtol=1e-2
    )
    assert np.isnan(redundant.wald_test("a = 0.9", kind).statistic)
    table = redundant.delta_method(lambda th: {"q": th["q"], "a": th["a"]}, kind=kind)
    np.testing.assert_allclose(table.loc["q", "std err"], errors["q"], rtol=1e-12)
    assert np.isnan(table.loc["a", "std err"])


@pytest.mark.parametrize(("on_ridge", "expected"), [(True, {"a", "b"}), (False, set())])
def test_a_ridge_that_ends_on_a_bound_is_a_ridge_all_the_same(redundant, on_ridge, expected):
    """At a = 1 it looks as if b were known, but a could be smaller and b larger.

    Where the data would have a larger still, the bound holds it, and b is known.
    """
    total = redundant.theta["a"] + redundant.theta["b"] if on_ridge else 2.0
    theta = {**redundant.theta, "a": np.array(1.0), "b": np.array(total - 1.0)}
    likelihood = redundant.setting.likelihood(redundant.space)
    space = likelihood.space
    stages = redundant.setting.estimator.stages(likelihood)
    found = flat_directions(likelihood, None, stages, Path(("",), theta))
    names = free_entries(space, space.free_leaves, theta).names
    moved = np.abs(found).max(axis=1, initial=0.0) > 1e-6
    assert {name for name, each in zip(names, moved, strict=True) if each} == expected


def test_an_identified_model_on_a_bound_is_not_called_flat(tosses):
    """With so small an a the data hold b at one."""
    with pytest.warns(pf.ConvergenceWarning, match="boundary"):
        est = toss(tosses, fixed={"a": 0.2})
    assert est.boundary == ("b",)
    assert est.converged
    assert np.isfinite(est.bse["q"])


def test_an_identified_model_takes_the_steps_that_it_took(known):
    assert known.converged
    assert known.doubts == ()
    assert known.information.unidentified.shape == (2, 0)
    assert known.steps <= 12
    errors = np.sqrt(np.diag(np.linalg.inv(-known.information.hessian)))
    np.testing.assert_allclose(known.standard_errors("hessian"), errors, rtol=1e-10)


def test_agents_who_are_all_alike_do_not_make_a_model_flat(tosses):
    """Their scores span one direction, whatever the model: second derivatives know better."""
    z = np.tile([0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1], (tosses.agent_count, 1))
    panel = pf.Panel.from_arrays(z, np.zeros_like(tosses.a))
    with pytest.warns(pf.ConvergenceWarning):
        est = toss(panel, fixed={"b": 0.7})
    assert est.information.unidentified.shape[1] == 0


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_a_table_of_probabilities_ends_early(seed):
    """Rank 9 of 12. Without an end of its own the last stage took 71, 35 and 51 steps."""
    model = pf.models.Tabular(2, 2, 1)
    panel = pf.simulate(model, model.example(), agents=400, periods=20, seed=0, prior=PRIOR)
    start = {"kernel": np.random.default_rng(seed).dirichlet(np.ones(4), size=(2, 2, 1))}
    with pytest.warns(pf.ConvergenceWarning, match="not identified: the log-likelihood is flat"):
        est = pf.fit(model, panel, prior=PRIOR, start=start, starts=1, batch=1)
    assert est.result is pf.Result.FLAT
    assert len(est.trace()) - 1 <= 25  # steps of the last stage
