"""Chains of the no-U-turn sampler, in one compiled program that is called part by part.

NumPyro's `MCMC` compiles the density three times for a run, and again for each panel. A density
with a Bellman equation inside takes far longer to compile than to walk on, so its kernels are
called from a program of our own, which has the density in it once. That program takes some steps
of a chain: between two calls progress is told, and whoever is tired of waiting is heard.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._progress import Progress, silent
from pomdpfit._stage import Data
from pomdpfit._types import Array, Bool, Float, Int

Unconstrained = dict[str, Array]
Run = Callable[..., "Steps"]
_OUT_OF_THE_WAY = 1e10
_PARTS = 20  # of a chain


class Steps(NamedTuple):
    """What each draw of each chain has: where it is on the real line, and how it came there."""

    z: Unconstrained
    potential: Float[Array, "chains draws"]
    energy: Float[Array, "chains draws"]
    accept: Float[Array, "chains draws"]
    leaps: Int[Array, "chains draws"]
    diverging: Bool[Array, "chains draws"]


def make_chains(model: Callable[..., Any], warmup: int, draws: int, accept: float) -> Run:
    """(a key and a start for each chain, covariance, data, tell) -> draws, after the warm-up.

    The inverse mass matrix is a full one, since parameters of a decision problem trade off against
    one another: to begin with the covariance that is given, then what the warm-up estimates.
    """
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import ParamInfo, potential_energy

    def kernel(
        key: Array, start: Unconstrained, covariance: Array, data: Data
    ) -> tuple[Any, Callable[[Any], Any]]:
        """The state to begin with, and a step; without the former NumPyro's step is not set up."""
        begin, step = hmc(lambda z: potential_energy(model, (data,), {}, z), algo="NUTS")
        # What the start's energy and slope are would be one more copy of the density to compile.
        # The first step of the warm-up goes without: it leaves a start of no slope and much energy.
        still = ParamInfo(start, jnp.asarray(_OUT_OF_THE_WAY), jax.tree.map(jnp.zeros_like, start))
        options = {"inverse_mass_matrix": covariance, "dense_mass": True, "rng_key": key}
        return begin(still, warmup, target_accept_prob=accept, **options), step

    @jax.jit
    def opened(
        key: Array, start: Unconstrained, covariance: Array, data: Data
    ) -> tuple[Any, Steps]:
        """A chain that has not moved yet, with room for what is to come."""
        state = kernel(key, start, covariance, data)[0]
        room = jax.tree.map(lambda leaf: jnp.zeros((warmup + draws, *leaf.shape)), _row(state))
        return state, jax.tree.map(lambda r, leaf: r.astype(leaf.dtype), room, _row(state))

    @jax.jit
    def walked(
        key: Array,
        start: Unconstrained,
        covariance: Array,
        data: Data,
        chain: tuple[Any, Steps],
        since: int,
        to: int,
    ) -> tuple[Any, Steps]:
        """The same chain after the steps from `since` to `to`."""
        step = kernel(key, start, covariance, data)[1]

        def one(k: Array, chain: tuple[Any, Steps]) -> tuple[Any, Steps]:
            state = step(chain[0])
            return state, jax.tree.map(lambda r, leaf: r.at[k].set(leaf), chain[1], _row(state))

        return jax.lax.fori_loop(since, to, one, chain)

    def chains(
        keys: Array, starts: Unconstrained, covariance: Array, data: Data, tell: Progress = silent
    ) -> Steps:
        count, length = len(keys), warmup + draws
        stops = [length * k // _PARTS for k in range(_PARTS + 1)]
        found = []
        for c in range(count):
            begun = keys[c], jax.tree.map(lambda leaf, c=c: leaf[c], starts), covariance, data
            chain = opened(*begun)
            for since, to in itertools.pairwise(stops):
                if to > since:
                    chain = jax.block_until_ready(walked(*begun, chain, since, to))
                    tell("sampling", c * length + to, count * length)
            found.append(jax.tree.map(lambda leaf: leaf[warmup:], chain[1]))
        return jax.tree.map(lambda *each: jnp.stack(each), *found)

    return chains


def _row(state: Any) -> Steps:
    """What is kept of a state."""
    stats = state.energy, state.accept_prob, state.num_steps, state.diverging
    return Steps(state.z, state.potential_energy, *stats)
