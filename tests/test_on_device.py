"""What goes from the host to the device: no program, no change with what the user holds."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from pomdpfit._on_device import on_device
from pomdpfit._precision import require_float64
from pomdpfit.solvers._reads import row_at, with_row

pytestmark = pytest.mark.full

_SCRIPT = """
import collections, json
import jax, numpy as np
from pomdpfit._on_device import on_device
from pomdpfit._precision import require_float64
require_float64()
heard = collections.Counter()
listen = lambda name, *_, **__: heard.update([name.split("/")[-1]])
jax.monitoring.register_event_duration_secs_listener(listen)
shapes = [(), (3,), (2, 5), (2, 3, 1)]
found = [on_device(np.ones(shape)) for shape in shapes]
programs = heard["backend_compile_duration"]
jax.jit(lambda x: 2 * x)(found[0])
print(json.dumps([programs, heard["backend_compile_duration"]]))
"""


@pytest.fixture(scope="module", autouse=True)
def float64():
    require_float64()


def test_no_program_is_compiled_for_numbers_of_the_host():
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True
    )
    before, after = json.loads(done.stdout.splitlines()[-1])
    assert before == 0
    assert after > before  # the listener hears programs


def test_a_later_change_of_the_users_array_is_not_seen():
    held = np.arange(4096.0)
    kept = on_device(held)
    held[:] = -1.0
    assert (np.asarray(kept) == np.arange(4096.0)).all()
    assert on_device([1, 2], np.int32).dtype == np.int32


@pytest.mark.parametrize("z", [0, 2, np.int64(3)])
def test_rows_are_read_and_written_at_real_places(z):
    table = np.arange(12.0).reshape(4, 3)
    for place in (z, jnp.asarray(z)):  # known to Python, or as it runs
        np.testing.assert_array_equal(row_at(jnp.asarray(table), place), table[z])
        changed = with_row(jnp.asarray(table), jnp.full(3, -1.0), place)
        expected = table.copy()
        expected[z] = -1.0
        np.testing.assert_array_equal(changed, expected)
