"""What a function of the parameters returns: numbers in a row, under the names it gave them."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._params import Parameter
from pomdpfit._types import Array, Float


def values_in_a_row(result: Any) -> Float[Array, "k"]:
    """A number, an array, a mapping or a Series of these, flattened."""
    leaves = [jnp.ravel(jnp.asarray(leaf)) for leaf in _leaves(result).values()]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)


def names_in_a_row(result: Any) -> list[str]:
    """One name each: keys of a mapping, labels of a Series, else f[0], f[1], ..."""
    leaves = _leaves(result)
    if not _is_labelled(result):
        return [f"f[{k}]" for k in range(int(np.size(leaves["f"])))]
    return [
        entry
        for name, leaf in leaves.items()
        for entry in Parameter(np.zeros(np.shape(leaf))).entry_names(name).flat
    ]


def _is_labelled(result: Any) -> bool:
    return isinstance(result, Mapping | pd.Series)


def _leaves(result: Any) -> dict[str, Any]:
    return {str(k): v for k, v in result.items()} if _is_labelled(result) else {"f": result}
