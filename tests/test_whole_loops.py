"""Small loops as one piece of code: asked for at first use, in time or not, and never forced."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.full

_SCRIPT = """
import json, os, sys
import jax, jax.numpy as jnp
import pomdpfit as pf
from pomdpfit._parallel import run_parallel
from pomdpfit.programs import whole_loops

def loops_there(_):
    pf.models.Tiger().example()  # as any use of the package
    return whole_loops()

if sys.argv[1] == "late":
    jnp.ones(3).sum()
model = pf.models.EngineReplacement(bins=20, increments=3, discount=0.99)
solution = pf.solve(model, model.example(), grid=pf.Linear(9))
value = float(solution.value(0, [0.5, 0.5]))
there = list(run_parallel(loops_there, (), [(1,), (2,)], int(sys.argv[2])))
print(json.dumps([whole_loops(), os.environ.get("XLA_FLAGS"), value, there]))
"""
_OWN = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1024"


def in_new_process(when="early", flags=None, jobs=1):
    clean = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    added = {} if flags is None else {"XLA_FLAGS": flags}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, when, str(jobs)],
        env=clean | added | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def early():
    return in_new_process()


def test_who_uses_the_package_first_has_whole_loops(early):
    assert early[0]
    assert "xla_cpu_small_while_loop_byte_threshold" in early[1]


def test_flags_of_other_kinds_stay():
    there, flags, *_ = in_new_process(flags="--xla_cpu_enable_fast_math=false")
    assert there
    assert flags.startswith("--xla_cpu_enable_fast_math=false --")


@pytest.mark.parametrize(("when", "flags"), [("late", None), ("early", _OWN)])
def test_without_them_the_answer_is_the_same(early, when, flags):
    """JAX has read its flags before, or the user has set such options."""
    there, told, value, _ = in_new_process(when, flags)
    assert not there
    assert flags is None or told == flags
    assert value == pytest.approx(early[2], rel=1e-12)


@pytest.mark.parametrize("when", ["early", "late"])
def test_other_processes_compile_loops_as_this_one_does(when):
    """Else the last bit of a result would tell how many processes had found it."""
    here, _, _, there = in_new_process(when, jobs=2)
    assert here is (when == "early")
    assert there == [here, here]
