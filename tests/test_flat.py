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


# ---- a ridge that ends on bounds, and has many ends ----------------------------------------------


@pytest.fixture(scope="module")
def table():
    return pf.models.Tabular(2, 2, 1)


@pytest.fixture(scope="module")
def tabular(table):
    """Five starts: most end with four entries on bounds, at equal log-likelihoods."""
    panel = pf.simulate(table, table.example(), agents=400, periods=20, seed=1, prior=PRIOR)
    start = {"kernel": np.random.default_rng(1).dirichlet(np.ones(4), size=(2, 2, 1))}
    with pytest.warns(pf.ConvergenceWarning):
        return pf.fit(table, panel, pf.TwoStage(), prior=PRIOR, start=start, batch=1)


def turned(table, theta, ways):
    """The gauge: P(z', z) -> S_z^-1 P(z', z) S_z', S_z with rows that sum to one, x0 S_0 = x0.

    All agents begin at z = 0 with x0 = (1/2, 1/2), so that S_1 is free, and S_0 has one parameter.
    """
    (u, v, w), kernel = ways, np.asarray(theta["kernel"]).reshape(2, 2, 2, 2)
    S = np.array([[[1 - u, u], [u, 1 - u]], [[1 - v, v], [w, 1 - w]]])
    moved = np.einsum("zst,ztyk,ykl->zsyl", np.linalg.inv(S), kernel, S)
    return {**theta, "kernel": moved.reshape(2, 2, 1, 4)}


def test_the_gauge_of_the_table_has_three_dimensions(table, tabular):
    """Independent of the package's ranks: these moves leave the log-likelihood as it is."""
    theta = {name: np.asarray(leaf) for name, leaf in table.example().items()}
    here = pf.log_likelihood(table, theta, tabular.panel, prior=PRIOR).total
    slopes = []
    for way in np.eye(3):
        moved = turned(table, theta, 1e-2 * way)
        there = pf.log_likelihood(table, moved, tabular.panel, prior=PRIOR).total
        np.testing.assert_allclose(there, here, rtol=1e-12)
        slopes.append(np.ravel(moved["kernel"] - theta["kernel"]))
    assert np.linalg.matrix_rank(slopes) == 3


def test_a_ridge_that_ends_on_bounds_is_not_identified(tabular):
    """As many directions as the gauge has dimensions; it moves every probability."""
    assert tabular.result is pf.Result.FLAT
    assert tabular.on_boundary
    assert "flat along 3 directions that move kernel[" in tabular.reason
    assert "multipliers are near zero" in tabular.reason
    for kind in ("hessian", "opg", "sandwich"):
        assert tabular.standard_errors(kind).isna().all()


def test_equal_log_likelihoods_on_a_ridge_are_one_maximum(tabular):
    assert (np.diff(tabular.modes["llf"]) < -1e-3).all()  # more than what counts as equal
    assert tabular.modes["starts"].sum() == len(tabular.starts)
    first = tabular.starts[tabular.starts["mode"] == 1]
    assert len(first) > 1
    assert set(first["result"]) == {"flat"}
    assert f"{len(first)} of {len(tabular.starts)} starts ended" in tabular.reason
    assert not tabular.modes["converged"].loc[1]
    text = " ".join(str(tabular.summary()).split())
    assert "not identified" in text
    assert "Not converged:" not in text


def test_what_a_file_says_of_a_ridge_is_what_the_fit_said(tabular, tmp_path):
    tabular.save(tmp_path / "fit.zip")
    loaded = pf.load(tmp_path / "fit.zip")
    assert loaded.doubts == tabular.doubts
    assert str(loaded.summary()) == str(tabular.summary())
    assert loaded.bse.isna().all()


class Curved(Coins):
    """Heads of the first coin at .85 + .15 b^2: at b = 0 no agent has a score in b."""

    def kernel(self, theta):
        return super().kernel({**theta, "a": 1.7, "b": 0.3 * theta["b"] ** 2})


def test_a_multiplier_of_zero_where_the_log_likelihood_is_curved_is_no_ridge(tosses):
    """Heads came at .8, which is below what b can give: at b = 0 the log-likelihood is highest."""
    theta = {**Curved().example(), "b": np.array(0.0)}
    assert (pf.score_obs(Curved(), theta, tosses, prior=PRIOR)["b"] == 0).all()
    with pytest.warns(pf.ConvergenceWarning, match="boundary"):
        est = pf.fit(
            Curved(), tosses, pf.TwoStage(), prior=PRIOR, fixed={"a": 0.9}, starts=1, batch=1
        )
    assert est.boundary == ("b",)
    assert est.converged
    assert "not identified" not in str(est.summary())
    assert np.isfinite(est.bse["q"])
