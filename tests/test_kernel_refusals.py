"""Kernels: what is refused, with an error that names (z, s, a) and the value."""

import jax
import numpy as np
import pytest

import pomdpfit as pf

jax.config.update("jax_enable_x64", True)

Z, S, A = 4, 3, 2


def random_table(seed):
    rows = np.random.default_rng(seed).dirichlet(np.ones(Z * S), size=(Z, S, A))
    return rows.reshape(Z, S, A, Z, S)


def simplex_rows(seed, *shape):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


@pytest.mark.parametrize(("value", "shown"), [(-0.25, "-0.25"), (np.nan, "nan"), (np.inf, "inf")])
def test_an_entry_that_is_no_probability_is_named(value, shown):
    table = random_table(15)
    table[3, 1, 0, 2, 0] = value
    with pytest.raises(pf.ModelError, match=rf"P\(z'=2, s'=0 \| z=3, s=1, a=0\) is {shown}"):
        pf.dense_kernel(table).check()


@pytest.mark.parametrize("factor", [0.5, 1.01, 1 + 1e-7])
def test_a_wrong_sum_is_named(factor):
    table = random_table(16)
    table[1, 2, 1] *= factor
    with pytest.raises(pf.ModelError, match=r"at \(z=1, s=2, a=1\) it sums to") as caught:
        pf.dense_kernel(table).check()
    if factor != 1 + 1e-7:  # six digits cannot show this one
        assert f"{factor:.6g}" in str(caught.value)


def test_a_wrong_sum_is_named_where_the_kernel_is_shared_by_all_z():
    transition, observation = simplex_rows(17, S, A, S), simplex_rows(18, S, A, Z)
    transition[2, 1] *= 0.5
    kernel, available = pf.factored_kernel(transition, observation), np.ones((Z, A), dtype=bool)
    available[0, 1] = False  # so that z=1 is the first that counts
    with pytest.raises(pf.ModelError, match=r"\(z=1, s=2, a=1\) it sums to 0\.5"):
        kernel.check(available)


def test_mass_is_not_asked_for_where_an_action_is_unavailable():
    table, available = random_table(19), np.ones((Z, A), dtype=bool)
    table[2, :, 1] = 0.0
    available[2, 1] = False
    pf.dense_kernel(table).check(available)


def test_a_successor_listed_twice_is_refused_even_behind_an_empty_slot():
    for first in (0.25, 0.0):
        probability = np.array([first, 0.5 - first]).reshape(1, 1, 2, 1, 1) * np.full((2, 2), 1.0)
        kernel = pf.Kernel(np.array([[[1, 1]]]), probability, observations=2)
        with pytest.raises(pf.ModelError, match=r"z'=1 of \(z=0, a=0\) is listed twice"):
            kernel.check()


@pytest.mark.parametrize("successor", [-1, 2, 99])
def test_a_successor_that_is_no_observation_is_refused(successor):
    kernel = pf.Kernel(np.array([[[0]], [[successor]]]), np.ones((2, 1, 1, 1, 1)), observations=2)
    with pytest.raises(pf.ModelError, match=rf"successor {successor} of \(z=1, a=0\).*0\.\.1"):
        kernel.check()


@pytest.mark.parametrize(
    ("successors", "probability"),
    [
        (np.zeros((1, 1, 1), int), np.ones((1, 1, 1, 1))),
        (np.zeros((1, 1, 1), int), np.ones((1, 1, 1, 2, 1))),
        (np.zeros((1, 1, 2), int), np.ones((1, 1, 1, 1, 1))),
        (np.zeros((1, 1), int), np.ones((1, 1, 1, 1, 1))),
        (np.zeros((3, 1, 1), int), np.ones((1, 1, 1, 1, 1))),
        (np.zeros((1, 1, 1), int), np.ones((3, 1, 1, 1, 1))),
    ],
)
def test_stored_arrays_of_wrong_shape_are_refused(successors, probability):
    with pytest.raises(pf.ModelError, match="but they have"):
        pf.Kernel(successors, probability, observations=2).check()


third = np.full((3, 1, 2, 3, 1), 1 / 3)
certain = np.zeros((3, 1, 2, 3, 1))  # z'=0 follows: a support read wrongly could still sum to one
certain[..., 0, 0] = 1.0
MISSHAPEN = {
    "dense without s'": lambda: pf.dense_kernel(np.ones((2, 2, 1, 2))),
    "dense with other z'": lambda: pf.dense_kernel(np.ones((2, 2, 1, 3, 2))),
    "dense with other s'": lambda: pf.dense_kernel(np.ones((2, 2, 1, 2, 3))),
    "support without z'": lambda: pf.dense_kernel(certain, np.ones((3, 2), bool)),
    "support (z, z', a)": lambda: pf.dense_kernel(third, np.ones((3, 3, 2), bool)),
    "transition without a": lambda: pf.factored_kernel(np.eye(2), np.full((2, 2, 3), 1 / 3)),
    "observation without a": lambda: pf.factored_kernel(np.full((2, 2, 2), 0.5), np.eye(2)),
    "other a": lambda: pf.factored_kernel(np.full((2, 1, 2), 0.5), np.full((2, 2, 3), 1 / 3)),
    "increments of other s": lambda: pf.increment_kernel(5, np.eye(2), np.full((3, 2), 0.5)),
    "increments without s": lambda: pf.increment_kernel(5, np.eye(2), np.full(2, 0.5)),
    "transition not square": lambda: pf.increment_kernel(5, np.ones((2, 3)), np.full((2, 2), 0.5)),
    "law without z'": lambda: pf.reset_kernel(5, np.full(2, 0.5)),
    "law too long": lambda: pf.reset_kernel(1, np.full((2, 1), 0.5)),
    "law beyond the last bin": lambda: pf.reset_kernel(3, np.full((2, 1), 0.5), first=2),
    "law before the first bin": lambda: pf.reset_kernel(3, np.ones((1, 1)), first=-1),
}


@pytest.mark.parametrize("build", MISSHAPEN.values(), ids=MISSHAPEN)
def test_builders_refuse_arguments_of_wrong_shape_with_a_model_error(build):
    with pytest.raises(pf.ModelError, match=r"shape|does not fit"):
        build().check()


def test_kernels_of_different_sizes_are_not_joined():
    small, large = (pf.reset_kernel(n, np.ones((1, 1))) for n in (2, 3))
    with pytest.raises(pf.ModelError, match="sizes"):
        pf.join_actions(small, large)
