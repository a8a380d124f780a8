"""The plain filter and its reverse mode, against the careful one; and when each is used."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import pomdpfit as pf
from pomdpfit import _plain_filter
from pomdpfit._batch import Batch, Members
from pomdpfit._log_likelihood import Part
from pomdpfit._plain_filter import by_matrices, follow, pull_back
from pomdpfit._precision import require_float64
from pomdpfit._scaled_belief import bayes, log_sigma, scaled

some = settings(max_examples=20, deadline=None)


def careful(matrices, places, x0):
    """Beliefs and log sigma by `_scaled_belief`, whatever the sizes."""

    def step(belief, place):
        look_up = lambda: jnp.moveaxis(matrices[place], 0, -1)
        return bayes(belief, look_up, jnp.asarray(False))

    _, steps = jax.lax.scan(step, scaled(x0.T), places)
    return steps.x, log_sigma(steps)


def a_case(S, seed, zeros=False, T=6, N=5, M=7):
    require_float64()
    rng = np.random.default_rng(seed)
    matrices = rng.random((M, S, S)) / S
    x0 = rng.dirichlet(np.ones(S), size=N)
    if zeros:
        matrices[rng.random(matrices.shape) < 0.3] = 0.0
        matrices[:, :, 0] += 0.1  # something is always possible
        x0 = np.eye(S)[rng.integers(S, size=N)]
    places = rng.integers(M, size=(T, N))
    bars = rng.normal(size=(T, S, N)), rng.normal(size=(T, N))
    return (*map(jnp.asarray, (matrices, places, x0)), *map(jnp.asarray, bars))


def slopes(matrices, places, x0, by_x, by_log_sigma):
    path = follow(matrices, places, x0)
    by_mass, by_x0 = pull_back(matrices, places, path, tuple(by_x.swapaxes(0, 1)), by_log_sigma)
    return path, by_matrices(matrices, places, path.x, by_mass), by_x0.T


@given(S=st.integers(1, 4), seed=st.integers(0, 2**32 - 1), zeros=st.booleans())
@some
@pytest.mark.full
def test_it_is_the_careful_filter_with_its_derivatives(S, seed, zeros):
    matrices, places, x0, by_x, by_log = a_case(S, seed, zeros)
    path, by_table, by_prior = slopes(matrices, places, x0, by_x, by_log)

    def total(matrices, x0):
        x, log = careful(matrices, places, x0)
        return (by_x * x).sum() + (by_log * log).sum(), (x, log)

    expected, (x, log) = jax.grad(total, argnums=(0, 1), has_aux=True)(matrices, x0)
    np.testing.assert_allclose(path.x, x, atol=1e-14)
    np.testing.assert_allclose(path.log_sigma, log, atol=1e-13)
    assert not path.lost(matrices)
    for got, wanted in zip((by_table, by_prior), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-12 * (1 + np.abs(wanted).max()), rtol=0)


@pytest.mark.full
def test_period_by_period_is_the_same_as_at_once(monkeypatch):
    case = a_case(3, 1)
    _, at_once, _ = slopes(*case)
    monkeypatch.setattr(_plain_filter, "_ROWS_AT_ONCE", 0)
    _, in_turn, _ = slopes(*case)
    np.testing.assert_allclose(in_turn, at_once, rtol=1e-13)


def test_what_is_impossible_stays_with_the_agent_whom_it_befell():
    matrices, places, x0, by_x, by_log = a_case(2, 2)
    matrices = matrices.at[0].set(0.0)
    places = jnp.where(places == 0, 1, places).at[3, 2].set(0)
    path, by_table, by_prior = slopes(
        matrices, places, x0, by_x.at[..., 2].set(0), by_log.at[:, 2].set(0)
    )
    assert np.isneginf(path.log_sigma[3:, 2]).all()
    assert np.isfinite(np.delete(path.log_sigma, 2, axis=1)).all()
    others = np.array([0, 1, 3, 4])
    alone = slopes(matrices, places[:, others], x0[others], by_x[..., others], by_log[:, others])
    np.testing.assert_allclose(by_table, alone[1], rtol=1e-13)
    np.testing.assert_array_equal(by_prior[2], 0.0)


@pytest.mark.parametrize(("entry", "lost"), [(0.0, False), (1e-140, False), (1e-160, True)])
def test_numbers_that_are_too_small_are_told(entry, lost):
    matrices, places, x0, *_ = a_case(2, 3)
    path = follow(matrices, places, x0)
    assert bool(path.lost(matrices.at[0, 0, 0].set(entry))) is lost
    small = path._replace(x=path.x.at[0, 0, 0].set(entry))
    assert bool(small.lost(matrices)) is lost
    rare = path._replace(sigma=path.sigma.at[0, 0].set(entry))
    assert bool(rare.lost(matrices)) is lost


# ---- where it will not do ----------------------------------------------------------------------


class Types(pf.Model):
    """An agent is of one of two types for ever; the second alone can do z = 2."""

    def parameters(self):
        inside = pf.Interval(0.0, 0.9)
        chances = {"p": pf.Parameter(0.7, inside), "q": pf.Parameter(0.4, inside)}
        return chances | {"discount": pf.discount_parameter(0.5)}

    def kernel(self, theta):
        p, q = theta["p"], theta["q"]
        emits = jnp.array([[p, 1 - p, 0.0], [q, 0.9 - q, 0.1]])
        P = jnp.einsum("sk,st->skt", emits, jnp.eye(2))[None, :, None]
        return pf.dense_kernel(jnp.broadcast_to(P, (3, 2, 1, 3, 2)))

    def reward(self, theta):
        return jnp.zeros((3, 2, 1))


ZEROS, ONES = 4000, 30
ROUNDING = 1e-8  # of slopes of 1e4 that cancel
HERE = {"p": 0.7, "q": 0.4, "discount": 0.5}


def two_agents():
    """The first looks like the first type until z = 2 comes; the second sees only three periods."""
    long = [0] * (ZEROS + 1) + [1] * ONES + [2]
    actions = [np.zeros(len(long) - 1, dtype=int), np.zeros(3, dtype=int)]
    panel = pf.Panel.from_arrays([long, [0, 1, 0, 1]], actions)
    return pf.Likelihood(Types(), panel, prior=pf.KnownPrior([0.5, 0.5]))


def closed_form():
    """log l_i and its derivative in p and q, agent by agent."""
    p, q = HERE["p"], HERE["q"]
    first = np.log(0.5) + ZEROS * np.log(q) + ONES * np.log(0.9 - q) + np.log(0.1)
    chances = 0.5 * np.array([p * (1 - p) ** 2, q * (0.9 - q) ** 2])
    slopes = chances * [1 / p - 2 / (1 - p), 1 / q - 2 / (0.9 - q)] / chances.sum()
    return (
        np.array([first, np.log(chances.sum())]),
        np.array([[0.0, ZEROS / q - ONES / (0.9 - q)], slopes]),
    )


@pytest.mark.full
def test_a_type_that_was_given_up_has_its_likelihood_slope_and_scores():
    likelihood, (level, scores) = two_agents(), closed_form()
    terms, gradient = likelihood.gradient(HERE)
    np.testing.assert_allclose(terms.by_agent["total"], level, rtol=1e-11)
    np.testing.assert_allclose(likelihood(HERE).by_agent["total"], level, rtol=1e-11)
    np.testing.assert_allclose(gradient[["p", "q"]], scores.sum(axis=0), atol=ROUNDING, rtol=1e-11)
    _, found = likelihood.scores(HERE)
    np.testing.assert_allclose(found[["p", "q"]], scores, atol=ROUNDING, rtol=1e-11)


@pytest.mark.full
def test_batches_with_such_an_agent_are_right_too():
    likelihood, (level, scores) = two_agents(), closed_form()
    batch = Batch(likelihood, 2)
    weights = np.array([[1.0, 1.0], [0.0, 1.0]])
    both = {name: np.full(2, value) for name, value in HERE.items()}
    start = jnp.stack([batch.cold, batch.cold])
    members = Members(both, weights, start)
    found = batch.slopes(Part.OBSERVATION, ("p", "q"), members)
    value, gradient = found.answer
    np.testing.assert_allclose(value, weights @ level, rtol=1e-11)
    for k, name in enumerate(("p", "q")):
        slope = weights @ scores[:, k]
        np.testing.assert_allclose(gradient[name], slope, atol=ROUNDING, rtol=1e-11)
    directions = {"p": np.tile([1.0, 0.0], (2, 1)), "q": np.tile([0.0, 1.0], (2, 1))}
    outers = batch.outers(Part.OBSERVATION, directions, members)
    expected = np.einsum("mi,ij,ik->mjk", weights, scores, scores)
    np.testing.assert_allclose(outers.answer, expected, rtol=1e-10, atol=1e4 * ROUNDING)
