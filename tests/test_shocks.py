"""Shocks: choice probabilities are the gradient of emax, and what else follows from E max."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from pomdpfit._soft_maximum import log_softmax, soft_maximum

jax.config.update("jax_enable_x64", True)

A = 4
NESTS = ((0, 2), (1,), (3,))
q_values = st.lists(st.floats(-8, 8), min_size=A, max_size=A).map(np.array)
scales = st.floats(0.05, 20)
dissimilarities = st.lists(st.floats(0.1, 1.0), min_size=3, max_size=3).map(np.array)
# Every subset of the actions but the empty one, closed nests included.
masks = st.integers(1, 2**A - 1).map(lambda bits: (bits >> np.arange(A)) % 2 == 1)
examples = settings(max_examples=50, deadline=None)

# Utilities up to 8 / (0.05 * 0.1) = 1600 lose 1600 eps; probabilities inherit that, in exp.
UTILITY_ROUNDING = 20 * 1600 * np.finfo(float).eps


def gumbel(scale, dissimilarity):
    return pf.Gumbel(scale)


def nested(scale, dissimilarity):
    return pf.NestedLogit(NESTS, dissimilarity, scale)


both = pytest.mark.parametrize("build", [gumbel, nested])


def compiled(function):
    """Compile once for each shock, with scale and dissimilarity as data."""
    return {build: jax.jit(lambda *data, b=build: function(b, *data)) for build in (gumbel, nested)}


emax = compiled(lambda b, q, available, scale, d: b(scale, d).emax(q, available))
choice = compiled(lambda b, q, available, scale, d: b(scale, d).choice(q, available))
correction = compiled(
    lambda b, q, available, scale, d: b(scale, d).correction(b(scale, d).log_choice(q, available))
)
slope = compiled(
    lambda b, q, available, scale, d: jax.grad(lambda v: b(scale, d).emax(v, available))(q)
)
derivatives = compiled(
    lambda b, q, available, scale, d: jax.jacobian(
        lambda v, k, m: (
            b(k, m).emax(v, available),
            jnp.where(available, b(k, m).log_choice(v, available), 0.0),
            b(k, m).choice(v, available),
        ),
        argnums=(0, 1, 2),
    )(q, scale, d)
)


@both
@given(q=q_values, available=masks, scale=scales, d=dissimilarities)
@examples
def test_choice_is_the_gradient_of_emax(build, q, available, scale, d):
    got = choice[build](q, available, scale, d)
    expected = slope[build](q, available, scale, d)
    np.testing.assert_allclose(got, expected, rtol=UTILITY_ROUNDING, atol=1e-300)


@both
@given(q=q_values, available=masks, scale=scales, d=dissimilarities)
@examples
def test_choices_sum_to_one_and_closed_actions_have_none(build, q, available, scale, d):
    got = np.asarray(choice[build](q, available, scale, d))
    assert np.all(got >= 0)
    assert np.all(got[~available] == 0)
    assert abs(got.sum() - 1) <= UTILITY_ROUNDING


@both
@given(q=q_values, c=st.floats(-1e3, 1e3), available=masks, scale=scales, d=dissimilarities)
@examples
def test_a_constant_moves_through_emax(build, q, c, available, scale, d):
    moved = emax[build](q + c, available, scale, d)
    # The larger utilities, (8 + 1000) / (scale d), round in the last bit of |q + c|.
    tolerance = 20 * np.finfo(float).eps * (np.abs(q).max() + abs(c) + scale)
    assert abs(moved - emax[build](q, available, scale, d) - c) <= tolerance


@both
@given(q=q_values, available=masks, scale=scales, d=dissimilarities)
@examples
def test_choices_alone_give_emax_less_each_value(build, q, available, scale, d):
    """The Hotz-Miller map: what is lost in log P comes back, up to rounding of q / (scale d)."""
    got = np.asarray(correction[build](q, available, scale, d))
    expected = emax[build](q, available, scale, d) - q
    assert np.all(np.isposinf(got[~available]))
    tolerance = 20 * np.finfo(float).eps * (8 / 0.1 + scale)
    np.testing.assert_allclose(got[available], expected[available], atol=tolerance)


def test_shocks_without_the_map_say_so():
    class Other(pf.AbstractShock):
        def emax(self, q, available=None):
            return pf.Gumbel().emax(q, available)

        def log_choice(self, q, available=None):
            return pf.Gumbel().log_choice(q, available)

    with pytest.raises(pf.ModelError, match=r"Other has no correction\(log_choice\)"):
        Other().correction(np.log([0.5, 0.5]))


@both
@given(q=q_values, available=masks, scale=scales, d=dissimilarities)
@examples
def test_gradients_are_finite_in_values_scale_and_dissimilarity(build, q, available, scale, d):
    for part in jax.tree.leaves(derivatives[build](q, available, scale, d)):
        assert np.all(np.isfinite(part))


@both
def test_a_closed_action_is_as_good_as_absent(build):
    q, scale, d = np.array([0.3, -1.0, 0.9, 2.0]), 0.7, np.array([0.4, 0.8, 0.9])
    available = np.array([True, True, True, False])
    without = pf.Gumbel(scale) if build is gumbel else pf.NestedLogit(NESTS[:2], d[:2], scale)
    np.testing.assert_allclose(emax[build](q, available, scale, d), without.emax(q[:3]), rtol=1e-14)
    np.testing.assert_allclose(
        choice[build](q, available, scale, d)[:3], without.choice(q[:3]), rtol=1e-13
    )


@both
def test_extreme_values_neither_overflow_nor_underflow(build):
    q, d = np.array([1e6, -1e6, 1e6, 1e6]), np.ones(3)
    got = emax[build](q, np.ones(A, bool), 1.0, d)
    np.testing.assert_allclose(got, 1e6 + np.log(3), rtol=1e-15)
    log_choice = build(1.0, d).log_choice(q)
    # A difference of 2e6 of numbers of size 1e6: the last bit of those.
    np.testing.assert_allclose(log_choice[1], -2e6 - np.log(3), atol=4 * np.spacing(2e6))


@given(q=q_values, available=masks, scale=scales)
@examples
def test_nested_logit_without_correlation_is_gumbel(q, available, scale):
    ones = np.ones(3)
    got, expected = (emax[b](q, available, scale, ones) for b in (nested, gumbel))
    # A common factor scale and at most 8 / 0.05 in the exponent.
    np.testing.assert_allclose(got, expected, atol=20 * np.finfo(float).eps * (8 + scale))
    got, expected = (choice[b](q, available, scale, ones) for b in (nested, gumbel))
    np.testing.assert_allclose(got, expected, rtol=UTILITY_ROUNDING, atol=1e-300)


def test_nested_logit_by_its_formula():
    q, d, scale = np.array([0.3, -1.0, 0.9, 2.0]), np.array([0.4, 0.8, 0.9]), 1.7
    sums = [
        sum(np.exp(q[a] / (scale * dg)) for a in nest) ** dg
        for nest, dg in zip(NESTS, d, strict=True)
    ]
    got = pf.NestedLogit(NESTS, d, scale).emax(q)
    np.testing.assert_allclose(got, scale * np.log(sum(sums)), rtol=1e-14)


def test_emax_is_the_mean_of_the_best_of_mean_zero_gumbel_draws():
    scale, q = 0.8, np.array([0.3, -0.5, 0.6, 0.0])
    draws = np.random.default_rng(0).gumbel(-scale * np.euler_gamma, scale, size=(400_000, A))
    best = (q + draws).max(axis=1)
    error = best.std() / np.sqrt(len(best))
    assert abs(pf.Gumbel(scale).emax(q) - best.mean()) <= 5 * error


def test_nested_emax_is_the_mean_of_the_best_of_correlated_draws():
    """eps = d (log W + G) in a nest, W positive stable of index d, G standard Gumbel draws."""
    rng, n, d, q = np.random.default_rng(1), 400_000, 0.5, np.array([0.3, -0.5, 0.6])
    # Positive stable of index 1/2 (Levy): E exp(-t W) = exp(-sqrt t) for W = 1 / (2 N^2).
    stable = 1 / (2 * rng.normal(size=n) ** 2)
    inside = d * (np.log(stable)[:, None] + rng.gumbel(size=(n, 2)))
    draws = np.column_stack([inside, rng.gumbel(size=n)]) - np.euler_gamma
    assert np.all(np.abs(draws.mean(axis=0)) <= 5 * draws.std(axis=0) / np.sqrt(n))
    best = (q + draws).max(axis=1)
    got = pf.NestedLogit(((0, 1), (2,)), [d, 1.0]).emax(q)
    assert abs(got - best.mean()) <= 5 * best.std() / np.sqrt(n)


@both
@given(q=q_values, available=masks)
@examples
def test_small_shocks_tend_to_the_maximum(build, q, available):
    best = q[available].max()
    for scale in (1e-2, 1e-4, 1e-8):
        gap = emax[build](q, available, scale, np.full(3, 0.5)) - best
        # E max of A mean-zero shocks lies between 0 and scale log A.
        rounding = 20 * np.finfo(float).eps * 8
        assert -rounding <= gap <= scale * np.log(A) + rounding


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_is_not_positive_and_finite_is_refused(scale):
    with pytest.raises(pf.ModelError, match=str(scale)):
        pf.Gumbel(scale).check(A)
    with pytest.raises(pf.ModelError, match=str(scale)):
        pf.NestedLogit(NESTS, np.ones(3), scale).check(A)


@pytest.mark.parametrize(
    ("nests", "dissimilarity"),
    [
        (((0, 1), (2,)), [1.0, 1.0]),  # action 3 in no nest
        (((0, 1), (1, 2, 3)), [1.0, 1.0]),  # action 1 in two
        (((0, 1), (2, 3, 4)), [1.0, 1.0]),  # there is no action 4
        (((0, 1, 2, 3), ()), [1.0, 1.0]),  # an empty nest
        (((0, 1), (2, 3)), [1.0]),
        (((0, 1), (2, 3)), [0.5, 0.0]),
        (((0, 1), (2, 3)), [0.5, 1.1]),
        (((0, 1), (2, 3)), [0.5, np.nan]),
    ],
)
def test_bad_nests_and_dissimilarities_are_refused(nests, dissimilarity):
    with pytest.raises(pf.ModelError, match="nest"):
        pf.NestedLogit(nests, np.array(dissimilarity)).check(A)


def test_good_nests_pass():
    pf.NestedLogit(NESTS, [0.2, 0.5, 1.0], 0.3).check(A)
    pf.Gumbel(1e-3).check(A)


# ---- the soft maximum, which takes few actions one by one and two in a way of their own ----------


@pytest.mark.parametrize("actions", [1, 2, 3, 8, 9])
@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.0, 1e-9, 1.0, 50.0, 800.0]))
@examples
def test_the_soft_maximum_is_that_of_jax_with_its_derivatives(actions, seed, spread):
    """Equal utilities (spread 0) included, where a maximum and an absolute value have a kink."""
    utility = spread * np.random.default_rng(seed).normal(size=actions)
    top, share = soft_maximum(jnp.asarray(utility))
    tight = {"rtol": 1e-13, "atol": 1e-13}
    np.testing.assert_allclose(top, jax.nn.logsumexp(utility), **tight)
    np.testing.assert_allclose(share, jax.nn.softmax(utility), **tight)
    np.testing.assert_allclose(jnp.exp(log_softmax(jnp.asarray(utility))), share, **tight)
    np.testing.assert_allclose(slope_of_top(utility), share, **tight)
    hessian = np.diag(share) - np.outer(share, share)
    np.testing.assert_allclose(hessian_of_top(utility), hessian, **tight)
    np.testing.assert_allclose(slope_of_share(utility), hessian, **tight)


slope_of_top = jax.jit(jax.grad(lambda u: soft_maximum(u)[0]))
hessian_of_top = jax.jit(jax.hessian(lambda u: soft_maximum(u)[0]))
slope_of_share = jax.jit(jax.jacrev(lambda u: soft_maximum(u)[1]))


@pytest.mark.parametrize("away", [0, 1])
def test_one_of_two_that_cannot_be_chosen_leaves_finite_derivatives(away):
    available = np.arange(2) != away
    value = lambda q, scale: pf.Gumbel(scale).emax(q, available)
    q = jnp.asarray([0.3, -0.2])
    np.testing.assert_allclose(value(q, 2.0), q[1 - away], rtol=1e-15)
    by_q, by_scale = jax.grad(value, argnums=(0, 1))(q, 2.0)
    np.testing.assert_array_equal(by_q, available.astype(float))
    np.testing.assert_allclose(by_scale, 0.0, atol=1e-15)
