"""Kernels: builders against brute-force tables, look-up by z', and refusals that name (z, s, a)."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf

jax.config.update("jax_enable_x64", True)

# A table entry is a sum of at most four products of two numbers below one.
ATOL = 16 * np.finfo(float).eps
Z, S, A = 4, 3, 2
seeds = st.integers(0, 2**32 - 1)
examples = settings(max_examples=25, deadline=None)


def random_table(seed, shape=(Z, S, A)):
    """P[z, s, a, z', s'] with about a third of exact zeros."""
    rng = np.random.default_rng(seed)
    nz, ns, na = shape
    table = rng.gamma(0.7, size=(nz, ns, na, nz, ns)) * (rng.random((nz, ns, na, nz, ns)) < 0.7)
    table[..., 0, 0] += 0.1
    return table / table.sum(axis=(3, 4), keepdims=True)


def brute_increments(bins, transition, increments):
    table = np.zeros((bins, len(transition), 1, bins, len(transition)))
    for z, s, s1 in np.ndindex(bins, *transition.shape):
        for j in range(increments.shape[1]):
            table[z, s, 0, min(z + j, bins - 1), s1] += increments[s, j] * transition[s, s1]
    return table


def simplex_rows(seed, *shape):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


# ---- builders ----------------------------------------------------------------------------------


def test_dense_kernel_is_the_table():
    table = random_table(0)
    kernel = pf.dense_kernel(table)
    kernel.check()
    np.testing.assert_array_equal(kernel.to_dense(), table)


def test_support_keeps_the_table_and_shortens_the_list_of_successors():
    table = random_table(1)
    table[:, :, :, 3] = 0.0
    table[2, :, 1, 1] = 0.0
    table /= table.sum(axis=(3, 4), keepdims=True)
    kernel = pf.dense_kernel(table, support=table.sum(axis=(1, 4)) > 0)
    kernel.check()
    assert kernel.successors.shape == (Z, A, 3)
    np.testing.assert_array_equal(kernel.to_dense(), table)


def test_mass_outside_the_support_is_missed_at_its_place():
    table, support = random_table(2), np.ones((Z, A, Z), dtype=bool)
    support[1, 1, 0] = False
    lost = 1.0 - table[1, 0, 1, 0].sum()
    with pytest.raises(pf.ModelError, match=rf"\(z=1, s=0, a=1\) it sums to {lost:.6g}"):
        pf.dense_kernel(table, support=support).check()


def test_an_action_without_successors_is_legal_where_it_is_unavailable():
    table, support = random_table(3), np.ones((Z, A, Z), dtype=bool)
    support[2, 0] = False
    kernel, available = pf.dense_kernel(table, support=support), np.ones((Z, A), dtype=bool)
    with pytest.raises(pf.ModelError, match=r"z=2, s=0, a=0\) it sums to 0"):
        kernel.check(available)
    available[2, 0] = False
    kernel.check(available)


def test_factored_kernel_is_transition_times_observation():
    transition, observation = simplex_rows(4, S, A, S), simplex_rows(5, S, A, Z)
    kernel = pf.factored_kernel(transition, observation)
    kernel.check()
    assert kernel.probability.shape[0] == 1  # nothing is repeated over z
    assert len(kernel.successors) == len(kernel.probability) == 1
    expected = np.zeros((Z, S, A, Z, S))
    for z, s, a, z1, s1 in np.ndindex(expected.shape):
        expected[z, s, a, z1, s1] = transition[s, a, s1] * observation[s1, a, z1]
    np.testing.assert_allclose(kernel.to_dense(), expected, atol=ATOL)


@given(seed=seeds)
@examples
def test_increment_kernel_merges_what_goes_beyond_the_last_bin(seed):
    transition, increments = simplex_rows(seed, S, S), simplex_rows(seed + 1, S, 4)
    kernel = pf.increment_kernel(6, transition, increments)
    kernel.check()
    assert kernel.successors.shape[2] == 4  # never a bins x bins table
    expected = brute_increments(6, transition, increments)
    np.testing.assert_allclose(kernel.to_dense(), expected, atol=ATOL)
    # The merged kernel is found by z': all increments from the last bin lead to it.
    last = kernel.transition(jnp.array(5), jnp.array(0), jnp.array(5))
    np.testing.assert_allclose(last, transition, atol=ATOL)


def test_more_increments_than_bins_all_end_in_the_last_bin():
    transition, increments = simplex_rows(6, S, S), simplex_rows(7, S, 5)
    kernel = pf.increment_kernel(2, transition, increments)
    kernel.check()
    expected = brute_increments(2, transition, increments)
    np.testing.assert_allclose(kernel.to_dense(), expected, atol=ATOL)


@pytest.mark.parametrize("first", [0, 2])
def test_reset_forgets_where_it_came_from(first):
    law = np.random.default_rng(8).dirichlet(np.ones(2 * S)).reshape(2, S)
    kernel = pf.reset_kernel(Z, law, first=first)
    kernel.check()
    expected = np.zeros((Z, S, 1, Z, S))
    for z, s, k, s1 in itertools.product(range(Z), range(S), range(2), range(S)):
        expected[z, s, 0, first + k, s1] = law[k, s1]
    np.testing.assert_array_equal(kernel.to_dense(), expected)


def test_joined_actions_stand_side_by_side_with_padding():
    law = np.random.default_rng(9).dirichlet(np.ones(S)).reshape(1, S)
    parts = [
        pf.reset_kernel(5, law, first=3),
        pf.increment_kernel(5, simplex_rows(10, S, S), simplex_rows(11, S, 3)),
        pf.factored_kernel(simplex_rows(12, S, 2, S), simplex_rows(13, S, 2, 5)),
    ]
    joined = pf.join_actions(*parts)
    joined.check()
    assert joined.successors.shape == (5, 4, 5)
    expected = np.concatenate([part.to_dense() for part in parts], axis=2)
    np.testing.assert_array_equal(joined.to_dense(), expected)
    # A padded slot must never answer for z'=0, where padding could have been left.
    assert not np.any(joined.transition(jnp.array(4), jnp.array(0), jnp.array(0)))


def test_joining_keeps_shared_successors_with_probabilities_that_depend_on_z():
    probability = np.random.default_rng(14).dirichlet(np.ones(2 * 2), size=(2, 1, 2))
    probability = probability.reshape(2, 1, 2, 2, 2).transpose(0, 1, 3, 2, 4)
    kernel = pf.Kernel(np.array([[[0, 1]]]), probability, observations=2)
    kernel.check()
    joined = pf.join_actions(kernel, kernel)
    expected = np.concatenate([kernel.to_dense()] * 2, axis=2)
    np.testing.assert_array_equal(joined.to_dense(), expected)


# ---- look-up -----------------------------------------------------------------------------------


@given(seed=seeds)
@examples
def test_transition_looks_up_by_the_next_observation(seed):
    table = random_table(seed)
    # Successors in a shuffled order, another one for each (z, a).
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.broadcast_to(np.arange(Z), (Z, A, Z)), axis=2)
    by_z1 = table.transpose(0, 2, 3, 1, 4)
    shuffled = np.take_along_axis(by_z1, order[..., None, None], axis=2)
    kernel = pf.Kernel(order, shuffled, observations=Z)
    kernel.check()
    z, a, z1 = np.indices((Z, A, Z))
    found = kernel.transition(jnp.asarray(z), jnp.asarray(a), jnp.asarray(z1))
    np.testing.assert_array_equal(found, by_z1)
    np.testing.assert_array_equal(kernel.to_dense(), table)
    predictive = kernel.predictive(jnp.asarray(z[..., 0]), jnp.asarray(a[..., 0]))
    np.testing.assert_allclose(predictive, by_z1.sum(axis=2), atol=ATOL)


def test_transition_to_no_successor_is_zero():
    kernel = pf.reset_kernel(Z, np.full((1, S), 1 / S), first=2)
    for z1 in range(Z):
        found = kernel.transition(jnp.array(3), jnp.array(0), jnp.array(z1))
        np.testing.assert_array_equal(found, np.full((S, S), (z1 == 2) / S))
