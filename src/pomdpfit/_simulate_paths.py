"""Paths of Bayesian agents through a scene, period by period."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._belief import update_belief
from pomdpfit._kernel import at_z
from pomdpfit._scene import Scene
from pomdpfit._types import Array, Float, Int


class _Agent(NamedTuple):
    """One agent between two periods."""

    z: Int[Array, ""]
    s: Int[Array, ""]
    x: Float[Array, "S"]


@eqx.filter_jit
def simulate_paths(
    scene: Scene,
    x0: Array,
    z0: Array,
    context: Array,
    epoch: Array,
    key: Array,
    first: Array | int = 0,
) -> tuple[Array, Array, Array, Array]:
    """z, a, s and x of all agents, agents first, as many choices as there are columns.

    first  the number of the first of these agents: draws depend on the key and on an agent's number
    """
    agents, periods = context.shape
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(agents))
    step_keys = jax.vmap(lambda k: jax.random.split(k, periods + 1))(keys)
    s0 = jax.vmap(lambda k, x: jax.random.categorical(k, jnp.log(x)))(step_keys[:, 0], x0)
    horizon = scene.values.primitives.horizon

    def period(state: _Agent, step: tuple[Array, Array, Array]) -> tuple[_Agent, tuple]:
        keys, context, t = step
        epoch = None if horizon is None else jnp.minimum(t, horizon - 1)
        log_choice = scene.log_choice(context, state.z, state.x, epoch)
        choose, move = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        a = jax.vmap(jax.random.categorical)(choose, log_choice)
        new = _move(scene, context, state, a, move)
        return new, (state.z, a, state.s, state.x)

    by_period = lambda table: jnp.swapaxes(jnp.asarray(table), 0, 1)
    steps = (by_period(step_keys[:, 1:]), by_period(context), by_period(epoch))
    last, (z, a, s, x) = jax.lax.scan(period, _Agent(jnp.asarray(z0, dtype=int), s0, x0), steps)
    with_last = (jnp.concatenate([path, end[None]]) for path, end in ((z, last.z), (s, last.s)))
    z, s = (jnp.swapaxes(path, 0, 1) for path in with_last)
    x = jnp.swapaxes(jnp.concatenate([x, last.x[None]]), 0, 1)
    return z, jnp.swapaxes(a, 0, 1), s, x


def _move(scene: Scene, context: Array, state: _Agent, a: Array, keys: Array) -> _Agent:
    """(z', s') drawn jointly from P(. | z, s, a), and the belief after seeing z'."""
    kernel, row = scene.kernel, scene.row(context, state.z)
    law = at_z(kernel.probability, row, a, slice(None), state.s)
    flat = law.reshape(law.shape[0], -1)
    drawn = jax.vmap(jax.random.categorical)(keys, jnp.log(flat))
    k, s = jnp.divmod(drawn, law.shape[-1])
    z = at_z(kernel.successors, row, a, k)
    _, x = update_belief(kernel, row, state.x, a, z)
    return _Agent(z, s, x)
