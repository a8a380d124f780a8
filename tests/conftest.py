"""What every test module shares: none of the others' compiled code."""

import gc
from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_code() -> Iterator[None]:
    """Compiled code of a whole run would exceed the number of memory maps that Linux allows."""
    yield
    jax.clear_caches()
    gc.collect()
