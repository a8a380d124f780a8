"""LU factors under `vmap`: the same numbers, and no batch that threads wait for in one another."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from pomdpfit._precision import in_float64
from pomdpfit.solvers._lu import inverse, solve

pytestmark = pytest.mark.full

# On two threads the calls of jaxlib 0.10.2 wait for one another within some hundreds of rounds.
MANY = """
import jax
import numpy as np
from pomdpfit.solvers._lu import solve

jax.config.update("jax_enable_x64", True)
x = np.random.default_rng(0).normal(size=(4, 4, 100, 100))
run = jax.jit(lambda x: [jax.vmap(solve)(each, each[..., :1]).sum() for each in x])
for _ in range(200):
    found = run(x)
assert np.isfinite(jax.device_get(found)).all()
"""


def matrices(*shape):
    return np.random.default_rng(3).normal(size=shape) + 3 * np.eye(shape[-1])


@pytest.mark.parametrize("batch", [(), (3,), (3, 2)])
@in_float64
def test_a_batch_is_solved_as_its_members_are(batch):
    a, b = matrices(*batch, 5, 5), np.random.default_rng(4).normal(size=(*batch, 5, 2))
    run, turn = solve, inverse
    for _ in batch:
        run, turn = jax.vmap(run), jax.vmap(turn)
    np.testing.assert_allclose(jax.jit(run)(a, b), np.linalg.solve(a, b), rtol=1e-11)
    np.testing.assert_allclose(jax.jit(turn)(a), np.linalg.inv(a), rtol=1e-10, atol=1e-12)


@in_float64
def test_derivatives_of_a_batch():
    a, b = matrices(3, 5, 5), np.random.default_rng(4).normal(size=(3, 5))
    slope = jax.vmap(lambda a, b: jax.jvp(lambda t: solve(a + t, b), (0.0,), (1.0,))[1])(a, b)
    inverses = np.linalg.inv(a)
    expected = -np.einsum("kij,jl,klm,km->ki", inverses, np.ones((5, 5)), inverses, b)
    np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-12)
    back = jax.vmap(jax.grad(lambda b, a: solve(a, b).sum()))(b, a)
    np.testing.assert_allclose(back, inverses.sum(axis=1), rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="LAPACK is what a CPU has")
def test_no_call_holds_a_batch_on_a_cpu():
    text = jax.jit(jax.vmap(inverse)).lower(matrices(3, 5, 5)).compile().as_text()
    calls = [line for line in text.splitlines() if "getrf" in line]
    assert calls
    assert not any("[3,5,5]" in line for line in calls)


def test_many_at_a_time_come_to_an_end():
    subprocess.run([sys.executable, "-c", MANY], check=True, timeout=300)
