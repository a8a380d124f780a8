"""Every agent's scores, at a cost that hardly grows with the number of parameters.

Agents are apart from one another. So reverse mode says for every single row how its agent's
log-likelihood depends on the matrix that moved the belief (G), on the action values that the choice
was read from (g), and on where the belief began. What theta moves are these alone: the score along
direction k is sum_t <G_t, dP_k> + g_t dQ_k(z_t, x_t), plus the part of x0, and all directions are
read at one place of a table that has them side by side.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._belief import filter_along
from pomdpfit._interpolate import interpolate
from pomdpfit._kernel import Kernel
from pomdpfit._moves import move_matrices
from pomdpfit._scene import Scene
from pomdpfit._score_panel import Terms, observation_terms, taken
from pomdpfit._stage import Data, Stage
from pomdpfit._types import Array, Float, Int


def agent_scores(stage: Stage, moves: Stage, data: Data) -> tuple[Terms, Float[Array, "p N 2"]]:
    """The terms, and the derivatives of each agent's two parts along p moves of the stage."""
    panel = data.panel
    places = data.places(stage.kernel)
    matrices = jnp.moveaxis(move_matrices(stage.kernel)[places], 1, -1)
    x0 = jnp.broadcast_to(stage.x0, (places.shape[1], stage.kernel.states))

    def along(matrices: Array, x0: Array) -> tuple[Array, Array]:
        x, log_sigma = filter_along(matrices, x0)
        return observation_terms(panel, log_sigma.T), x

    (observation, x), back = jax.vjp(along, matrices, x0)
    chosen, by_belief, direct = jnp.zeros_like(observation), jnp.zeros_like(x), jnp.zeros(())
    if stage.scene is not None and moves.scene is not None:
        chosen, by_belief, direct = _choices(stage.scene, moves.scene, data, x)
    # First what the observation part hangs on, then the choice part.
    ones, none = jnp.ones_like(observation), jnp.zeros_like(observation)
    bars = jnp.stack([ones, none]), jnp.stack([jnp.zeros_like(x), by_belief])
    by_matrix, by_prior = jax.vmap(back)(bars)
    through = _through_matrices(stage.kernel, moves.kernel, places, by_matrix)
    each = jnp.broadcast_to(moves.x0, (len(moves.x0), *x0.shape))
    start = jnp.einsum("cns,kns->knc", by_prior, each)
    scores = (through + start).at[..., 1].add(direct)
    return Terms(observation, chosen, jnp.transpose(x, (2, 0, 1))), scores


def _through_matrices(
    kernel: Kernel,
    moves: Kernel,
    places: Int[Array, "T N"],
    by_matrix: Float[Array, "2 T S S N"],
) -> Float[Array, "p N 2"]:
    """sum_t <G_t, dP_k[place_t]>."""
    moving, rest = eqx.partition(kernel, eqx.is_inexact_array)
    table = lambda moving: move_matrices(eqx.combine(moving, rest))
    along = lambda move: jax.jvp(table, (moving,), (move,))[1]
    moved = jax.vmap(along, out_axes=-1)(moves)  # (M, S, S, p)
    (_, S, _, p), N = moved.shape, places.shape[1]

    def add(total: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        place, bar = row
        found = moved[place]
        for s in range(S):
            for to in range(S):
                total = total + bar[:, s, to, :, None] * found[:, s, to]
        return total, None

    rows = places, jnp.moveaxis(by_matrix, 1, 0)
    total, _ = jax.lax.scan(add, jnp.zeros((2, N, p)), rows)
    return jnp.transpose(total, (2, 1, 0))


def _choices(
    scene: Scene, moves: Scene, data: Data, x: Float[Array, "T S N"]
) -> tuple[Float[Array, "N T"], Float[Array, "T S N"], Float[Array, "p N"]]:
    """log pi(a_t | z_t, x_t), its derivative in x_t, and what is left of it along each move."""
    panel = data.panel
    table = jnp.moveaxis(moves.values.table, 0, -1)  # (context, epoch, z, m, A, p)
    *_, m, A, p = table.shape
    flat = table.reshape(-1, m, A * p)
    shock_moves = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), moves.shock)

    def one(shock, q, a, counts, available):  # type: ignore[no-untyped-def]
        return jnp.where(counts, taken(shock.log_choice(q, available), a), 0.0)

    def period(total: Array, row: tuple) -> tuple[Array, tuple[Array, Array]]:
        context, z, a, epoch, counts, x = row
        t = scene.epoch(epoch)
        q, pull = jax.vjp(lambda x: scene.q(context, z, x, t), x.T)
        available = scene.available(context, z)
        axes = (0, 0, 0, 0, None if available is None else 0)
        shock = jax.tree.map(lambda leaf: leaf[context], scene.shock)
        # Of a shock without parameters nothing is left to differentiate.
        moving, rest = eqx.partition(shock, eqx.is_inexact_array)
        of = lambda moving, *others: one(eqx.combine(moving, rest), *others)
        slope = jax.vmap(jax.value_and_grad(of, argnums=(0, 1)), in_axes=axes)
        chosen, (by_shock, by_q) = slope(moving, q, a, counts, available)
        found = interpolate(scene.values.scheme, flat, scene.table_row(context, z, t), x.T)
        found = found.reshape(-1, A, p)
        for k in range(A):
            total = total + by_q[:, k, None] * found[:, k]
        for bar, move in zip(jax.tree.leaves(by_shock), jax.tree.leaves(shock_moves), strict=True):
            here = move[context].reshape(len(bar), -1, p)
            total = total + (bar.reshape(len(bar), -1, 1) * here).sum(axis=1)
        return total, (chosen, pull(by_q)[0].T)

    columns = (panel.context, panel.z, panel.a, panel.epoch, panel.score_choice)
    rows = (*(column.T for column in columns), x)
    first = jnp.zeros((panel.z.shape[0], p))
    total, (chosen, by_belief) = jax.lax.scan(period, first, rows)
    return chosen.T, by_belief, total.T
