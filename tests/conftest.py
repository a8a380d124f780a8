"""What every test module shares: quick compilation, and none of the others' compiled code."""

import gc
import os
from collections.abc import Iterator

import pytest

from pomdpfit.programs import forget_programs

_QUICK = "--xla_backend_optimization_level=0"


def pytest_configure(config: pytest.Config) -> None:
    """Compile with little effort: most of a default run is compiling programs that run once.

    Such code takes 40 % less time to make and half as much again to run, so the slow tests, which
    compute, do without. It is as exact: sums may be taken in another order, no more. JAX reads the
    setting at its first compilation, which is after this.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if config.getoption("markexpr") == "not slow" and "optimization_level" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_QUICK}".strip()


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_code() -> Iterator[None]:
    """Compiled code of a whole run would exceed the number of memory maps that Linux allows."""
    yield
    forget_programs()
    gc.collect()
