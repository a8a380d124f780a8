"""Agents spread over devices: the same numbers, whatever the number of devices."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import pomdpfit as pf
from tests.small_hidden import hidden_panel


def ran_on(*arguments):
    """Host devices are made before JAX starts, so in a process of its own."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.shards_script", *arguments],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    "arguments", [["1", "2"], pytest.param(["all", "1", "2", "4"], marks=pytest.mark.full)]
)
def test_every_number_is_that_of_one_device(arguments):
    """21 agents: neither 2 nor 4 devices have equal parts of them."""
    (_, one), *spread = (found := ran_on(*arguments)).values()
    for devices, (held, several) in zip(list(found)[1:], spread, strict=True):
        assert held == int(devices)
        assert one.keys() == several.keys()
        for name, numbers in one.items():
            known, here = np.array(numbers), np.array(several[name])
            # A difference of gradients, and what is fitted with it, have lost digits before.
            tolerance = {"curvature": 1e-7, "params": 1e-8, "bse": 1e-7}.get(name, 1e-12)
            assert here.shape == known.shape, name
            limit = tolerance * max(1.0, np.abs(known).max())
            assert np.abs(here - known).max() <= limit, name


def test_more_devices_than_there_are_are_refused():
    with pytest.raises(pf.PanelError, match="1 to 1 devices here, not 2"):
        hidden_panel().shard(2)
