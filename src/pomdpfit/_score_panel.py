"""The terms of the log-likelihood, for every agent and period, from what theta makes of the model.

log l = sum_i sum_t log sigma(z_{t+1}, z_t, x_t, a_t) + log pi(a_t | z_t, x_t)

The paper adds sum_i log x0_i. A belief is a distribution, not the probability of anything in the
data (s0 is not seen), so that term has no place in a likelihood and is left out; it does not
depend on theta when x0 is known.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit._belief import filter_by_period
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._scene import Scene
from pomdpfit._stage import Data, Stage
from pomdpfit._types import Array, Float, Int

_ROWS_AT_ONCE = 2**16  # what fits the caches, derivatives included


class Terms(NamedTuple):
    """What the likelihood is made of."""

    observation: Float[Array, "N T"]
    choice: Float[Array, "N T"]
    belief: Float[Array, "N T S"]

    def by_part(self) -> Float[Array, "N 2"]:
        """Each agent's observation and choice part."""
        return jnp.stack([self.observation.sum(axis=1), self.choice.sum(axis=1)], axis=1)

    def by_row(self) -> Float[Array, "N T 2"]:
        """The observation and the choice term of each row."""
        return jnp.stack([self.observation, self.choice], axis=-1)


def score(stage: Stage, data: Data) -> Terms:
    """The terms of every agent and period."""
    x, log_sigma = filter_by_period(stage.kernel, data.places(stage.kernel), stage.x0)
    return terms_along(stage.scene, data.panel, x, log_sigma)


def terms_along(
    scene: Scene | None,
    panel: PanelArrays,
    x: Float[Array, "T S N"],
    log_sigma: Float[Array, "T N"],
) -> Terms:
    """The terms of agents whose beliefs are known."""
    belief = jnp.transpose(x, (2, 0, 1))
    observation = observation_terms(panel, log_sigma.T)
    if scene is None:
        return Terms(observation, jnp.zeros_like(observation), belief)
    chosen = _choice_terms(scene, panel, x).T
    return Terms(observation, jnp.where(panel.score_choice, chosen, 0.0), belief)


def pull_score(stage: Stage, data: Data, weights: Float[Array, "N 2"]) -> tuple[Terms, Stage]:
    """The terms, and the derivative of their weighted sum in all that has one."""
    moving, rest = stage.split()

    def total(moving: Stage) -> tuple[Array, Terms]:
        terms = score(eqx.combine(moving, rest), data)
        return weighted_sum(terms.by_part(), weights), terms

    back, terms = jax.grad(total, has_aux=True)(moving)
    return terms, back


def weighted_sum(parts: Float[Array, "N 2"], weights: Float[Array, "N 2"]) -> Float[Array, ""]:
    """An agent of weight zero is left out, even where its likelihood is zero."""
    return (weights * jnp.where(weights > 0, parts, 0.0)).sum()


def push_score(
    stage: Stage, moves: Stage, data: Data, parts: Callable[[Terms], Array]
) -> tuple[Terms, Float[Array, "p N *T 2"]]:
    """The terms, and the derivative of their parts (by agent or row) along p moves of the stage.

    Forward, move by move. For agents `agent_scores` gives the same; it is quicker where the moves
    are many and the batches one, as on a CPU.
    """
    moving, rest = stage.split()
    of = lambda moving: parts(score(eqx.combine(moving, rest), data))
    along = lambda move: jax.jvp(of, (moving,), (move,))[1]
    return score(stage, data), jax.vmap(along)(moves)


def _choice_terms(
    scene: Scene, panel: PanelArrays, x: Float[Array, "T S N"]
) -> Float[Array, "T N"]:
    """log pi(a_t | z_t, x_t), some periods at a time: derivatives need room for these alone."""

    def all_rows(row: tuple[Array, ...]) -> Float[Array, "*b"]:
        context, z, a, epoch, x = row
        return taken(scene.log_choice(context, z, x, scene.epoch(epoch)), a)

    @jax.checkpoint
    def period(row: tuple[Array, ...]) -> Float[Array, "N"]:
        *others, x = row
        return all_rows((*others, x.T))

    columns = (panel.context, panel.z, panel.a, panel.epoch)
    rows = (*(column.T for column in columns), x)
    T, N = panel.z.T.shape
    if T * N <= _ROWS_AT_ONCE:  # no loop, which would be more to compile
        return all_rows((*rows[:-1], jnp.moveaxis(x, 1, 2)))
    return jax.lax.map(period, rows, batch_size=min(T, max(1, _ROWS_AT_ONCE // N)))


def taken(log_choice: Float[Array, "*b A"], a: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """log_choice[..., a], by masks: its reverse mode would be slow by index."""
    each = (jnp.where(a == k, log_choice[..., k], 0.0) for k in range(log_choice.shape[-1]))
    return functools.reduce(jnp.add, each)


def observation_terms(panel: PanelArrays, log_sigma: Array) -> Float[Array, "N T"]:
    observation = jnp.where(panel.score_observation, log_sigma, 0.0)
    # The first impossible transition is reported even where it is not scored.
    broken = panel.continues & panel.informs & jnp.isneginf(log_sigma)
    return jnp.where(broken, -jnp.inf, observation)
