"""log pi(a_t | z_t, x_t) in every row of a panel, with the derivatives of its weighted sum.

Written down rather than left to reverse mode over all rows, which would read the table twice, and
need room for all that it reads. Period by period everything stays in the cache, and only what is
asked for is kept: the terms, and derivatives in beliefs and in action values. These are added up
into the derivative in the table at the end, in a loop of their own: next to the terms, the compiler
would work them out anew for each entry that they are added to.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._interpolate import ByState, add_back, apart, by_state, read
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._plain_filter import over_periods
from pomdpfit._scene import Scene
from pomdpfit._score_panel import taken
from pomdpfit._shocks import AbstractShock
from pomdpfit._types import Array, Float


def pull_choices(
    moving: Scene,
    rest: Scene,
    panel: PanelArrays,
    x: Float[Array, "T S N"],
    weights: Float[Array, "N"],
) -> tuple[Float[Array, "T N"], Scene, ByState]:
    """The terms, and the derivatives of their weighted sum in what moves and in x by state."""
    scene: Scene = eqx.combine(moving, rest)
    scheme, table = scene.values.scheme, scene.table

    def slopes(by_shock: AbstractShock, some: tuple) -> tuple[AbstractShock, tuple]:
        context, z, epoch, a, counts, x = some
        row = scene.table_row(context, z, scene.epoch(epoch))
        q, in_x = read(scheme, table, row, _states_last(x))

        def total(shock: AbstractShock, q: Array) -> tuple[Array, Array]:
            log_choice = scene.log_choice_at(eqx.combine(shock, rest.shock), context, z, q)
            chosen = jnp.where(counts, taken(log_choice, a), 0.0)
            return (weights * chosen).sum(), chosen

        (more, by_q), chosen = jax.grad(total, argnums=(0, 1), has_aux=True)(moving.shock, q)
        found = chosen, apart(by_q), by_state(in_x, by_q)
        return jax.tree.map(jnp.add, by_shock, more), found

    def add(total: Array, some: tuple) -> tuple[Array, None]:
        context, z, epoch, x, by_q = some
        row = scene.table_row(context, z, scene.epoch(epoch))
        return add_back(scheme, total, row, _states_last(x), jnp.stack(by_q, axis=-1)), None

    place = (panel.context.T, panel.z.T, panel.epoch.T)
    none = jax.tree.map(jnp.zeros_like, moving.shock)
    rows = (*place, panel.a.T, panel.score_choice.T, x)
    by_shock, (chosen, by_q, by_x) = over_periods(slopes, none, rows)
    by_table, _ = over_periods(add, jnp.zeros_like(table), (*place, x, by_q))
    _, put_back = jax.vjp(lambda scene: (scene.values.table, scene.shock), moving)
    (back,) = put_back((by_table.reshape(scene.values.table.shape), by_shock))
    return chosen, back, by_x


def _states_last(x: Float[Array, "*T S N"]) -> Float[Array, "*T N S"]:
    return jnp.moveaxis(x, -2, -1)
