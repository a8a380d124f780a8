"""The paper's Algorithm 2: panels from a Bayesian agent who controls a hidden process."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, checked_with_prior
from pomdpfit._scene import Scene, single_scene
from pomdpfit._schemes import AbstractScheme
from pomdpfit._simulate_paths import simulate_paths
from pomdpfit._solve import Solution, solve_primitives
from pomdpfit._types import Array, ArrayLike, Float, Int, Theta
from pomdpfit.solvers import Newton


@dataclasses.dataclass(frozen=True, eq=False)
class Simulation:
    """A panel and what nobody sees: the hidden path s (N, T) and the agents' beliefs (N, T, S)."""

    panel: Panel
    s: Int[np.ndarray, "N T"]
    belief: Float[np.ndarray, "N T S"]
    seed: int


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
    drawer = prepare(model, theta, agents, periods, seed, prior, z0, grid, solution)
    z, a, s, x = drawer.draw(0, agents)
    panel = Panel.from_arrays(np.asarray(z), np.asarray(a))
    panel = panel.with_covariates(**drawer.covariates)
    panel = dataclasses.replace(
        panel, notes=(f"simulated with seed {seed}",), groups=model.group_labels() or ()
    )
    if not hidden:
        return panel
    return Simulation(panel, np.asarray(s), np.asarray(x), seed)


@dataclasses.dataclass(frozen=True, eq=False)
class Drawer:
    """A solved model, and where each agent begins."""

    scene: Scene
    x0: Float[Array, "#N S"]
    z0: Int[np.ndarray, "N"]
    periods: int
    key: Array
    covariates: dict[str, float]

    def draw(self, first: int, agents: int) -> tuple[Array, Array, Array, Array]:
        """z, a, s and x of so many agents from number `first` on; the same in any company.

        Beyond the last agent they begin as he does.
        """
        some = np.minimum(np.arange(first, first + agents), len(self.z0) - 1)
        x0 = self.x0 if len(self.x0) == 1 else self.x0[some]
        x0 = jnp.broadcast_to(x0, (agents, x0.shape[1]))
        context = jnp.zeros((agents, self.periods), dtype=int)
        epoch = jnp.broadcast_to(jnp.arange(self.periods), context.shape)
        z0 = jnp.asarray(self.z0[some])
        return simulate_paths(self.scene, x0, z0, context, epoch, self.key, first)


def prepare(
    model: Model,
    theta: Theta,
    agents: int,
    periods: int,
    seed: int,
    prior: AbstractPrior | None,
    z0: ArrayLike | int,
    grid: AbstractScheme | None,
    solution: Solution | None,
) -> Drawer:
    """Everything that `simulate` is given, checked, and the model solved."""
    for name, value, least in (("agents", agents, 1), ("periods", periods, 1), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or value < least:
            raise ModelError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    primitives, prior, theta = checked_with_prior(model, theta, prior)
    if primitives.horizon is not None and periods > primitives.horizon:
        raise ModelError(f"periods must not exceed the horizon of {primitives.horizon} epochs.")
    x0 = prior.beliefs(theta, prior.data(range(agents), primitives.states))
    z0 = _first_observations(z0, agents, primitives.observations)
    if solution is None:
        # As likelihoods do: a fit to the panel finds its solver compiled.
        solution = solve_primitives(primitives, grid, Newton(coarse_first=False))
    elif not eqx.tree_equal(solution.primitives, primitives):
        raise ModelError("the solution given is of another model or another theta.")
    covariates = {n: float(theta[n]) for n in model.space().covariates}
    scene = single_scene(solution.values)
    return Drawer(scene, x0, z0, int(periods), jax.random.key(seed), covariates)


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
