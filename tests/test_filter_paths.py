"""The filter's two ways through a period, its look-up, and Q read a cell at a time."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from helpers import Table, at, random_belief, random_kernel, random_paths, random_reward
from pomdpfit import _belief, _likelihood
from pomdpfit._belief import filter_by_period
from pomdpfit._log_likelihood import Part
from pomdpfit._moves import find_moves
from pomdpfit._point import Point
from pomdpfit._policy import ActionValues
from pomdpfit._precision import require_float64
from pomdpfit._scene import single_scene

pytestmark = pytest.mark.full


def plain_recursion(P, x0, z, a):
    """x_t and log sigma_t by the textbook, one agent at a time."""
    x, beliefs, logs = x0, [x0], []
    for t in range(len(a)):
        mass = x @ P[z[t], :, a[t], z[t + 1]]
        logs.append(np.log(mass.sum()))
        x = mass / mass.sum()
        beliefs.append(x)
    return np.array(beliefs), np.array(logs)


def a_case(S, seed=0, agents=4, length=30):
    require_float64()
    rng = np.random.default_rng(seed)
    P, x0 = random_kernel(rng, 3, S, 2), random_belief(rng, S)
    return P, x0, random_paths(P, x0, (length,) * agents, rng)


def run(P, x0, panel):
    """As it stands, not as it was compiled before a test took the other way."""
    kernel, arrays = pf.dense_kernel(P), panel.arrays()
    as_it_stands = filter_by_period.__wrapped__
    return as_it_stands(kernel, find_moves(kernel, arrays), jnp.asarray(x0)[None])


def take_the_careful_way(monkeypatch):
    """As if products of the kernel's entries might be lost."""
    monkeypatch.setattr(_belief, "underflows", lambda matrices: jnp.asarray(True))


@pytest.mark.parametrize("S", [1, 2, 3])
@pytest.mark.parametrize("careful", [False, True])
def test_both_ways_equal_the_textbook(S, careful, monkeypatch):
    P, x0, panel = a_case(S)
    if careful:
        take_the_careful_way(monkeypatch)
    x, log_sigma = run(P, x0, panel)
    for i in range(len(panel.z)):
        beliefs, logs = plain_recursion(P, x0, panel.z[i], panel.a[i, :-1])
        np.testing.assert_allclose(x[:, :, i], beliefs, rtol=1e-13)
        np.testing.assert_allclose(log_sigma[:-1, i], logs, atol=1e-13)


@pytest.mark.parametrize("zeros", [False, True])
def test_both_ways_have_the_same_derivatives(zeros, monkeypatch):
    rng = np.random.default_rng(1)
    P, x0, panel = a_case(2, 1)
    if zeros:  # a sure prior, and a state that is not left from the first observation
        x0 = np.array([1.0, 0.0])
        P = P.copy()
        P[0, 0, :, :, 1] = 0.0
        P /= P.sum(axis=(3, 4), keepdims=True)
        panel = random_paths(P, x0, (30,) * 4, rng)
    weight = rng.normal(size=(30, 2, 4))

    def total(P, x0):
        x, log_sigma = run(P, x0, panel)
        return (weight * x).sum() + log_sigma.sum()

    plain = jax.grad(total, argnums=(0, 1))(jnp.asarray(P), jnp.asarray(x0))
    take_the_careful_way(monkeypatch)
    careful = jax.grad(total, argnums=(0, 1))(jnp.asarray(P), jnp.asarray(x0))
    for one, other in zip(plain, careful, strict=True):
        # Rounding of thirty periods, relative to the largest derivative.
        np.testing.assert_allclose(one, other, atol=1e-12 * np.abs(one).max(), rtol=0)


def test_a_type_given_up_is_proven_by_what_the_other_cannot_do():
    """The log-odds are -2798 when z = 2 comes, which the first type never emits."""
    n = 5000
    emits = np.array([[0.7, 0.3, 0.0], [0.4, 0.5, 0.1]])
    P = np.einsum("sk,st->skt", emits, np.eye(2))[None, :, None].repeat(3, axis=0)
    z = np.array([0] * (n + 1) + [2, 1])
    panel = pf.Panel.from_arrays([z], [np.zeros(n + 2, dtype=int)])
    model = Table(P, np.zeros(P.shape[:3]))
    got = pf.filter_beliefs(model, at(0.9), panel, prior=pf.KnownPrior([0.5, 0.5]))
    # An ulp of the log-odds in each period.
    accuracy = n * np.spacing(n * np.log(7 / 4))
    odds = n * np.log(4 / 7)
    assert got.log_sigma[0, n] == pytest.approx(odds + np.log(0.1), abs=accuracy)
    np.testing.assert_array_equal(got.x[0, n + 1 :], [[0, 1], [0, 1]])
    assert got.log_sigma[0, n + 1] == pytest.approx(np.log(0.5), rel=1e-14)


@pytest.mark.parametrize("grid", [pf.Linear(7), pf.Smooth(7), pf.Smooth(2)])
@pytest.mark.parametrize("S", [1, 2, 3])
@pytest.mark.parametrize("epochs", [None, 3])
def test_choices_read_by_cells_equal_those_read_one_by_one(grid, S, epochs):
    if S != 2 and isinstance(grid, pf.Smooth):
        pytest.skip("two states only")
    rng = np.random.default_rng(S)
    model = Table(random_kernel(rng, 4, S, 3), random_reward(rng, 4, S, 3), epochs=epochs)
    values = pf.solve(model, at(0.9), grid=grid).values
    z, x = jnp.asarray(rng.integers(4, size=50)), rng.dirichlet(np.ones(S), size=50)
    x = jnp.asarray(np.concatenate([x[:-S], np.eye(S)]))  # the corners, too
    t = None if epochs is None else jnp.asarray(rng.integers(epochs, size=50))
    one_by_one = lambda values, x: values.log_choice(z, x, t)
    by_cells = lambda values, x: single_scene(values).log_choice(jnp.zeros_like(z), z, x, t)
    np.testing.assert_allclose(by_cells(values, x), one_by_one(values, x), atol=1e-13)
    weight = rng.normal(size=(50, 3))

    def gradients(of):
        def total(table, x):
            there = eqx.tree_at(lambda v: v.table, values, table)
            return (weight * of(there, x)).sum()

        return jax.grad(total, argnums=(0, 1))(values.table, x)

    assert isinstance(values, ActionValues)
    for one, other in zip(gradients(by_cells), gradients(one_by_one), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12 * (1 + np.abs(other).max()), rtol=0)


# ---- the look-up ------------------------------------------------------------------------------


class Jump(pf.Model):
    """z moves by a jump that is a parameter: successors that change with theta."""

    def parameters(self):
        return {"discount": pf.discount_parameter(0.5), "jump": pf.Parameter(1.0)}

    def kernel(self, theta):
        step = jnp.round(jnp.asarray(theta["jump"])).astype(int)
        stay, go = jnp.arange(5), (jnp.arange(5) + step) % 5
        law = jnp.asarray([[0.3, 0.7], [0.6, 0.4]])
        probability = jnp.einsum("sk,st->kst", law, jnp.asarray([[0.8, 0.2], [0.1, 0.9]]))
        successors = jnp.stack([stay, go], axis=-1)[:, None]
        return pf.Kernel(successors, probability[None, None], observations=5)

    def reward(self, theta):
        return jnp.zeros((5, 2, 1))


def test_transitions_are_looked_up_again_only_where_successors_change():
    prior, a = pf.KnownPrior([0.5, 0.5]), np.zeros((1, 3), dtype=int)
    theta = {"discount": 0.5, "jump": 1.0}
    panel = pf.Panel.from_arrays([[0, 0, 0, 0]], a)  # possible under any jump
    likelihood = pf.Likelihood(Jump(), panel, prior=prior)
    first = likelihood.terms(theta, part=Part.OBSERVATION).observation
    moves = likelihood._data.moves
    likelihood.terms(theta | {"jump": 1.1}, part=Part.OBSERVATION)
    assert likelihood._data.moves is moves
    again = likelihood.terms(theta | {"jump": 2.0}, part=Part.OBSERVATION).observation
    assert likelihood._data.moves is not moves
    np.testing.assert_array_equal(first, again)
    far = pf.Likelihood(Jump(), pf.Panel.from_arrays([[0, 2, 2, 4]], a), prior=prior)
    with pytest.raises(pf.ImpossibleObservationError):
        far.terms(theta, part=Part.OBSERVATION)
    found = far.terms(theta | {"jump": 2.0}, part=Part.OBSERVATION).observation
    fresh = pf.Likelihood(Jump(), far.panel, prior=prior)
    expected = fresh.terms(theta | {"jump": 2.0}, part=Part.OBSERVATION).observation
    np.testing.assert_array_equal(found, expected)


def test_data_without_the_look_up_give_the_same_terms():
    P, x0, panel = a_case(2)
    model = Table(P, np.zeros(P.shape[:3]))
    likelihood = pf.Likelihood(model, panel, prior=pf.KnownPrior(x0))
    got = likelihood.terms(at(0.9), part=Part.OBSERVATION)
    bare = likelihood._data._replace(moves=None)
    terms = _likelihood.evaluate(Point(likelihood._problem, at(0.9), None, bare))
    np.testing.assert_array_equal(terms.observation, got.observation)
