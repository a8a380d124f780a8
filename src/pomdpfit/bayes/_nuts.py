"""Chains of the no-U-turn sampler, as one compiled program.

NumPyro's `MCMC` compiles the density three times for a run, and again for each panel. A density
with a Bellman equation inside takes far longer to compile than to walk on, so its kernels are
called from a program of our own, which has the density in it once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._stage import Data
from pomdpfit._types import Array, Bool, Float, Int

Unconstrained = dict[str, Array]
_OUT_OF_THE_WAY = 1e10


class Steps(NamedTuple):
    """What each draw of each chain has: where it is on the real line, and how it came there."""

    z: Unconstrained
    potential: Float[Array, "chains draws"]
    energy: Float[Array, "chains draws"]
    accept: Float[Array, "chains draws"]
    leaps: Int[Array, "chains draws"]
    diverging: Bool[Array, "chains draws"]


def make_chains(
    model: Callable[..., Any], warmup: int, draws: int, accept: float
) -> Callable[[Array, Unconstrained, Data], Steps]:
    """(a key and a start for each chain, data) -> its draws, after `warmup` steps of adaptation.

    Momenta have the posterior's own (full) covariance as it is learnt in the warm-up: parameters of
    a decision problem trade off against one another, and a diagonal one would creep along.
    """
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import ParamInfo, potential_energy

    def chain(key: Array, start: Unconstrained, data: Data) -> Steps:
        begin, step = hmc(lambda z: potential_energy(model, (data,), {}, z), algo="NUTS")
        # What the start's energy and slope are would be one more copy of the density to compile.
        # The first step of the warm-up goes without: it leaves a start of no slope and much energy.
        still = ParamInfo(start, jnp.asarray(_OUT_OF_THE_WAY), jax.tree.map(jnp.zeros_like, start))
        first = begin(still, warmup, dense_mass=True, target_accept_prob=accept, rng_key=key)

        def one(state: Any, _: None) -> tuple[Any, Steps]:
            new = step(state)
            stats = new.energy, new.accept_prob, new.num_steps, new.diverging
            return new, Steps(new.z, new.potential_energy, *stats)

        steps = jax.lax.scan(one, first, length=warmup + draws)[1]
        return jax.tree.map(lambda leaf: leaf[warmup:], steps)

    def chains(keys: Array, starts: Unconstrained, data: Data) -> Steps:
        return jax.lax.map(lambda each: chain(each[0], each[1], data), (keys, starts))

    return jax.jit(chains)
