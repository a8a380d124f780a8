"""The paper's Algorithm 2: panels from a Bayesian agent who controls a hidden process."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._belief import update_belief
from pomdpfit._errors import ModelError
from pomdpfit._kernel import at_z
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._policy import ActionValues
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, checked_with_prior
from pomdpfit._schemes import AbstractScheme
from pomdpfit._solve import Solution, solve_primitives
from pomdpfit._types import Array, ArrayLike, Float, Int, Theta


@dataclasses.dataclass(frozen=True, eq=False)
class Simulation:
    """A panel and what nobody sees: the hidden path s (N, T) and the agents' beliefs (N, T, S)."""

    panel: Panel
    s: Int[np.ndarray, "N T"]
    belief: Float[np.ndarray, "N T S"]
    seed: int


class _Agent(NamedTuple):
    """One agent between two periods."""

    z: Int[Array, ""]
    s: Int[Array, ""]
    x: Float[Array, "S"]


@in_float64
def simulate(
    model: Model,
    theta: Theta,
    *,
    agents: int,
    periods: int,
    seed: int,
    prior: AbstractPrior | None = None,
    z0: ArrayLike | int = 0,
    grid: AbstractScheme | None = None,
    solution: Solution | None = None,
    hidden: bool = False,
) -> Panel | Simulation:
    """Simulate `agents` agents over `periods` choices and as many transitions.

    Each agent starts at z0 (one for all, or one each) with the prior's belief x0, and s0 is drawn
    from x0: otherwise the agent would not be Bayesian. Agent i's draws depend on the seed and on i
    alone. The last row of each agent holds z without an action. `hidden=True` returns a
    `Simulation` with the hidden path and the beliefs beside the panel. A `solution` at the same
    theta saves solving again.
    """
    for name, value, least in (("agents", agents, 1), ("periods", periods, 1), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or value < least:
            raise ModelError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    primitives, prior, theta = checked_with_prior(model, theta, prior)
    if primitives.horizon is not None and periods > primitives.horizon:
        raise ModelError(f"periods must not exceed the horizon of {primitives.horizon} epochs.")
    x0 = prior.beliefs(theta, prior.data(range(agents), primitives.states))
    x0 = jnp.broadcast_to(x0, (agents, primitives.states))
    z0 = _first_observations(z0, agents, primitives.observations)
    if solution is None:
        solution = solve_primitives(primitives, grid)
    elif not eqx.tree_equal(solution.primitives, primitives):
        raise ModelError("the solution given is of another model or another theta.")
    z, a, s, x = _paths(solution.values, x0, jnp.asarray(z0), jax.random.key(seed), periods)
    panel = Panel.from_arrays(np.asarray(z), np.asarray(a))
    panel = dataclasses.replace(panel, notes=(f"simulated with seed {seed}",))
    if not hidden:
        return panel
    return Simulation(panel, np.asarray(s), np.asarray(x), seed)


def _first_observations(z0: ArrayLike | int, agents: int, observations: int) -> np.ndarray:
    z0 = np.asarray(z0)
    if z0.shape not in {(), (agents,)} or not np.issubdtype(z0.dtype, np.integer):
        raise ModelError(
            f"z0 must be one integer or {agents} of them, but it has type {z0.dtype} and shape "
            f"{z0.shape}."
        )
    if z0.min() < 0 or z0.max() >= observations:
        bad = z0.min() if z0.min() < 0 else z0.max()
        raise ModelError(f"z0 must lie in 0..{observations - 1}, but it is {bad}.")
    return np.broadcast_to(z0, (agents,))


@eqx.filter_jit
def _paths(
    values: ActionValues, x0: Array, z0: Array, key: Array, periods: int
) -> tuple[Array, Array, Array, Array]:
    """z, a, s and x of all agents, agents first."""
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(len(z0)))
    step_keys = jax.vmap(lambda k: jax.random.split(k, periods + 1))(keys)
    s0 = jax.vmap(lambda k, x: jax.random.categorical(k, jnp.log(x)))(step_keys[:, 0], x0)
    finite = values.primitives.horizon is not None

    def period(state: _Agent, step: tuple[Array, Array]) -> tuple[_Agent, tuple]:
        keys, t = step
        epoch = jnp.full(state.z.shape, t) if finite else None
        log_choice = values.log_choice(state.z, state.x, epoch)
        choose, move = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        a = jax.vmap(jax.random.categorical)(choose, log_choice)
        new = _move(values, state, a, move)
        return new, (state.z, a, state.s, state.x)

    steps = (jnp.swapaxes(step_keys[:, 1:], 0, 1), jnp.arange(periods))
    last, (z, a, s, x) = jax.lax.scan(period, _Agent(z0, s0, x0), steps)
    with_last = (jnp.concatenate([path, end[None]]) for path, end in ((z, last.z), (s, last.s)))
    z, s = (jnp.swapaxes(path, 0, 1) for path in with_last)
    x = jnp.swapaxes(jnp.concatenate([x, last.x[None]]), 0, 1)
    return z, jnp.swapaxes(a, 0, 1), s, x


def _move(values: ActionValues, state: _Agent, a: Array, keys: Array) -> _Agent:
    """(z', s') drawn jointly from P(. | z, s, a), and the belief after seeing z'."""
    kernel = values.primitives.kernel
    law = at_z(kernel.probability, state.z, a, slice(None), state.s)
    flat = law.reshape(law.shape[0], -1)
    drawn = jax.vmap(jax.random.categorical)(keys, jnp.log(flat))
    k, s = jnp.divmod(drawn, law.shape[-1])
    z = at_z(kernel.successors, state.z, a, k)
    _, x = update_belief(kernel, state.z, state.x, a, z)
    return _Agent(z, s, x)
