"""Numbers of the host on JAX's device, without a program: for jnp.asarray each shape needs one."""

from typing import Any

import jax
import numpy as np

from pomdpfit._types import Array


def on_device(numbers: Any, dtype: Any = None) -> Array:
    """A copy, for what is JAX's own must not change with what a user holds."""
    return jax.device_put(np.array(numbers, dtype=dtype))
