"""The prior of each agent that makes that agent's panel most probable, at a given theta.

The value does not depend on x0, so this is a search over one simplex for each agent, all of them
at once: the best points of a lattice, then golden sections along the lines through each vertex.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit import _grid
from pomdpfit._problem import Problem
from pomdpfit._score_panel import score
from pomdpfit._stage import Data, Value
from pomdpfit._types import Array, Float, Theta

_RESOLUTION = 10  # of the lattice, or less
_MOST_POINTS = 20_000  # of the lattice, each of which is one pass over the panel
_STARTS = 3  # points of the lattice
_CYCLES = 3  # over the vertices, where there are more than two
_SECTIONS = 25  # shrink a bracket of 0.2 to 1e-6; the likelihood is flat at its maximum


@eqx.filter_jit
def best_priors(problem: Problem, theta: Theta, value: Value, data: Data) -> Float[Array, "N S"]:
    """argmax over x0 of log l_i(theta, x0) for every agent i."""
    agents, states = data.panel.z.shape[0], data.prior.shape[1]

    ground = problem.ground(theta, data, with_choices=value is not None)
    stage = problem.stage(ground, value, data)

    def of(x0: Float[Array, "N S"]) -> Float[Array, "N"]:
        return score(dataclasses.replace(stage, x0=x0), data).by_part().sum(axis=1)

    resolution = _resolution(states)
    lattice = jnp.asarray(_grid.nodes(states, resolution))
    each = jax.lax.map(lambda x: of(jnp.broadcast_to(x, (agents, states))), lattice)

    order = jnp.asarray([0] if states == 2 else list(range(states)) * _CYCLES)

    def climb(x: Float[Array, "N S"]) -> tuple[Array, Array]:
        x, _ = jax.lax.scan(lambda x, s: (_section(of, x, s, 1.0 / resolution), None), x, order)
        return x, of(x)

    # Choices can make several maxima: the best points of the lattice are all climbed from.
    starts = jax.lax.top_k(each.T, min(_STARTS, len(lattice)))[1].T
    found, height = jax.lax.map(climb, lattice[starts])
    best = jnp.argmax(height, axis=0)
    return jnp.take_along_axis(found, best[None, :, None], axis=0)[0]


def _resolution(states: int) -> int:
    """The finest lattice with few enough points; that of the vertices at the least."""
    fits = lambda m: _grid.node_count(states, m) <= _MOST_POINTS
    return next((m for m in range(_RESOLUTION, 1, -1) if fits(m)), 1)


def _section(of, x, s, step):  # type: ignore[no-untyped-def]
    """Golden section in x(s), at most a step away, the other entries kept in proportion."""
    rest = x.at[:, s].set(0.0)
    total = rest.sum(axis=1, keepdims=True)
    even = jnp.ones_like(rest).at[:, s].set(0.0) / (x.shape[1] - 1)
    rest = jnp.where(total > 0, rest / jnp.where(total > 0, total, 1.0), even)
    at = lambda share: (rest * (1 - share)[:, None]).at[:, s].set(share)
    low = jnp.maximum(x[:, s] - step, 0.0)
    high = jnp.minimum(x[:, s] + step, 1.0)
    golden = (np.sqrt(5.0) - 1.0) / 2.0

    def shrink(state: tuple, _: None) -> tuple:
        low, high, left, right, at_left, at_right = state
        lower = at_left >= at_right  # the maximum is not in the upper part
        low, high = jnp.where(lower, low, left), jnp.where(lower, right, high)
        # One of the two inner points stays; the other is new.
        new = jnp.where(lower, high - golden * (high - low), low + golden * (high - low))
        at_new = of(at(new))
        left, right = jnp.where(lower, new, right), jnp.where(lower, left, new)
        at_left, at_right = jnp.where(lower, at_new, at_right), jnp.where(lower, at_left, at_new)
        return (low, high, left, right, at_left, at_right), None

    left, right = high - golden * (high - low), low + golden * (high - low)
    first = (low, high, left, right, of(at(left)), of(at(right)))
    (inner_low, inner_high, *_), _ = jax.lax.scan(shrink, first, None, length=_SECTIONS)
    best = 0.5 * (inner_low + inner_high)
    # A section ends inside its bracket: where an end (a face, a vertex) is as good, it is better.
    for end in (low, high):
        best = jnp.where(of(at(end)) >= of(at(best)), end, best)
    return at(best)
