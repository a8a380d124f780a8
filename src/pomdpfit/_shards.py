"""Agents spread over the devices of one process, in equal parts.

Only the panel is cut up; what theta makes of the model is on every device. Agents are apart from
one another, so that devices have nothing to tell one another but sums.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pomdpfit._errors import PanelError
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._stage import Data
from pomdpfit._types import Array


def checked_shards(devices: int | None) -> int:
    """As many devices as are asked for, or all."""
    there = jax.device_count()
    if devices is None:
        return there
    if not 1 <= devices <= there:
        raise PanelError(f"a panel can be spread over 1 to {there} devices here, not {devices}.")
    return devices


def spread(data: Data, shards: int) -> Data:
    """The data with its agents on so many devices, filled with nobody to equal parts.

    Nobody begins as the first agent does, and nothing of him is scored. A panel that was made where
    there were more devices is spread over those that are here.
    """
    shards = min(shards, jax.device_count())
    if shards == 1:
        return data
    mesh = Mesh(np.array(jax.devices()[:shards]), ("agents",))
    by_agent = NamedSharding(mesh, PartitionSpec("agents"))
    alike = NamedSharding(mesh, PartitionSpec())

    def place(rows: Array) -> Array:
        return jax.device_put(filled(rows, -(-len(rows) // shards) * shards), by_agent)

    panel: PanelArrays = jax.tree.map(place, data.panel)
    prior = place(data.prior) if len(data.prior) > 1 else jax.device_put(data.prior, alike)
    covariates = {n: jax.device_put(values, alike) for n, values in data.covariates.items()}
    return Data(panel, prior, covariates)


def filled(rows: Array, count: int) -> Array:
    """As many rows as that: False in masks, the first row elsewhere."""
    if len(rows) == count:
        return rows
    first = jnp.zeros_like(rows[:1]) if rows.dtype == bool else rows[:1]
    return jnp.concatenate([rows, jnp.repeat(first, count - len(rows), axis=0)])
