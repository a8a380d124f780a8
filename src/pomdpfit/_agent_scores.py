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

from pomdpfit._interpolate import ByState, by_state, interpolate, read
from pomdpfit._kernel import Kernel
from pomdpfit._moves import move_matrices
from pomdpfit._plain_filter import follow, pull_back
from pomdpfit._scene import Scene
from pomdpfit._score_panel import Terms, observation_terms, taken
from pomdpfit._stage import Data, Stage
from pomdpfit._term_by_term import term_by_term
from pomdpfit._types import Array, Bool, Float, Int


def agent_scores(
    stage: Stage, moves: Stage, data: Data
) -> tuple[Terms, Float[Array, "p N 2"], Bool[Array, ""]]:
    """The terms, the derivatives of each agent's two parts along p moves of the stage, and `lost`.

    Where it is `lost`, numbers were too small, and only `push_score` can tell.
    """
    panel, places = data.panel, data.places(stage.kernel)
    matrices = move_matrices(stage.kernel)
    x0 = jnp.broadcast_to(stage.x0, (places.shape[1], stage.kernel.states))
    path = follow(matrices, places, x0)
    observation, back = jax.vjp(lambda log: observation_terms(panel, log.T), path.log_sigma)
    chosen, direct = jnp.zeros_like(observation), jnp.zeros((1, 1))
    by_belief = (jnp.zeros_like(path.sigma),) * stage.kernel.states
    if stage.scene is not None and moves.scene is not None:
        chosen, by_belief, direct = _choices(stage.scene, moves.scene, data, path.x)
    # First what the observation part hangs on, then the choice part.
    (by_log,) = back(jnp.ones_like(observation))
    bars = (
        tuple(jnp.stack([jnp.zeros_like(by), by]) for by in by_belief),
        jnp.stack([by_log, jnp.zeros_like(by_log)]),
    )
    by_mass, by_prior = jax.vmap(lambda *bars: pull_back(matrices, places, path, *bars))(*bars)
    through = _through_matrices(stage.kernel, moves.kernel, places, path.x, by_mass)
    each = jnp.broadcast_to(moves.x0, (len(moves.x0), *x0.shape))
    start = term_by_term(each[..., s, None] * by_prior[:, s].T for s in range(x0.shape[1]))
    scores = through + start + jnp.stack([jnp.zeros_like(direct), direct], axis=-1)
    terms = Terms(observation, chosen, jnp.transpose(path.x, (2, 0, 1)))
    return terms, scores, path.lost(matrices)


def _through_matrices(
    kernel: Kernel,
    moves: Kernel,
    places: Int[Array, "T N"],
    x: Float[Array, "T S N"],
    by_mass: Float[Array, "2 T S N"],
) -> Float[Array, "p N 2"]:
    """sum_t <G_t, dP_k[place_t]>, where G_t is the outer product of x_t and what is by mass."""
    moving, rest = eqx.partition(kernel, eqx.is_inexact_array)
    table = lambda moving: move_matrices(eqx.combine(moving, rest))
    along = lambda move: jax.jvp(table, (moving,), (move,))[1]
    moved = jax.vmap(along, out_axes=-1)(moves)  # (M, S, S, p)
    (_, S, _, p), N = moved.shape, places.shape[1]

    def add(total: Array, row: tuple[Array, Array, Array]) -> tuple[Array, None]:
        place, x, bar = row
        found = moved[place]
        for s in range(S):
            for to in range(S):
                total = total + (x[s] * bar[:, to])[..., None] * found[:, s, to]
        return total, None

    rows = places, x, jnp.moveaxis(by_mass, 1, 0)
    total, _ = jax.lax.scan(add, jnp.zeros((2, N, p)), rows)
    return jnp.transpose(total, (2, 1, 0))


def _choices(
    scene: Scene, moves: Scene, data: Data, x: Float[Array, "T S N"]
) -> tuple[Float[Array, "N T"], ByState, Float[Array, "p N"]]:
    """log pi(a_t | z_t, x_t), its derivative in x_t, and what is left of it along each move."""
    panel = data.panel
    table = jnp.moveaxis(moves.values.table, 0, -1)  # (context, epoch, z, m, A, p)
    *_, m, A, p = table.shape
    flat = table.reshape(-1, m, A * p)
    shock_moves = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), moves.shock)

    def one(shock, q, a, counts, available):  # type: ignore[no-untyped-def]
        return jnp.where(counts, taken(shock.log_choice(q, available), a), 0.0)

    def period(total: Array, row: tuple) -> tuple[Array, tuple[Array, ByState]]:
        context, z, a, epoch, counts, x = row
        place = scene.table_row(context, z, scene.epoch(epoch))
        q, in_x = read(scene.values.scheme, scene.table, place, x.T)
        available = scene.available(context, z)
        axes = (0, 0, 0, 0, None if available is None else 0)
        shock = jax.tree.map(lambda leaf: leaf[context], scene.shock)
        # Of a shock without parameters nothing is left to differentiate.
        moving, rest = eqx.partition(shock, eqx.is_inexact_array)
        of = lambda moving, *others: one(eqx.combine(moving, rest), *others)
        slope = jax.vmap(jax.value_and_grad(of, argnums=(0, 1)), in_axes=axes)
        chosen, (by_shock, by_q) = slope(moving, q, a, counts, available)
        found = interpolate(scene.values.scheme, flat, place, x.T)
        found = found.reshape(-1, A, p)
        for k in range(A):
            total = total + by_q[:, k, None] * found[:, k]
        for bar, move in zip(jax.tree.leaves(by_shock), jax.tree.leaves(shock_moves), strict=True):
            here = move[context].reshape(len(bar), -1, p)
            total = total + (bar.reshape(len(bar), -1, 1) * here).sum(axis=1)
        return total, (chosen, by_state(in_x, by_q))

    columns = (panel.context, panel.z, panel.a, panel.epoch, panel.score_choice)
    rows = (*(column.T for column in columns), x)
    first = jnp.zeros((panel.z.shape[0], p))
    total, (chosen, by_belief) = jax.lax.scan(period, first, rows)
    return chosen.T, by_belief, total.T
