"""Work in other processes: 64-bit floats arrive as such, and order is kept."""

import jax.numpy as jnp
import pytest

import pomdpfit as pf
from pomdpfit._parallel import run_parallel

FINE = 1.0 + 2.0**-40  # lost in 32 bits


def kind_of(shared, task):
    return str(shared.dtype), float(shared[0]), task


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_arrays_keep_their_bits_and_tasks_their_order(n_jobs):
    pf.models.Tiger().example()  # switches 64-bit floats on here; a new process starts without
    shared = jnp.array([FINE])
    found = list(run_parallel(kind_of, (shared,), [(k,) for k in range(5)], n_jobs))
    assert found == [("float64", FINE, k) for k in range(5)]
