"""Who acts: a solution with its beliefs, or a function of what was seen and done so far."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._belief import update_belief
from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._errors import ImpossibleObservationError, ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._solve import Solution
from pomdpfit._types import Array, Float

Paths = Sequence[list[int]]
Policy = Solution | Callable[[tuple[int, ...], tuple[int, ...]], Any]


class AbstractActor(abc.ABC):
    """Choice probabilities of several agents, period after period."""

    @abc.abstractmethod
    def choices(self, z: Paths, a: Paths, alive: Sequence[int]) -> list[np.ndarray]:
        """P(a | history) of every agent that is alive, in their order.

        z[i] is what agent i has seen, the present observation last; a[i] is what it has done.
        """


class Bayesian(AbstractActor):
    """Follows pi(a | z, x) of a solution, and keeps x by Bayes' rule from x0 (one row an agent)."""

    def __init__(self, solution: Solution, x0: Float[np.ndarray, "N S"]) -> None:
        self._solution, self._x = solution, np.array(x0)

    def choices(self, z: Paths, a: Paths, alive: Sequence[int]) -> list[np.ndarray]:
        """All agents at once; those that have ended are carried along and not read."""
        if a[alive[0]]:
            self._update(z, a, alive)
        t = len(a[alive[0]])
        epoch = None if self._solution.primitives.horizon is None else np.asarray(t)
        policy = self._solution.policy(np.array([path[-1] for path in z]), self._x, epoch)
        rows = np.asarray(policy)
        return [rows[i] for i in alive]

    def _update(self, z: Paths, a: Paths, alive: Sequence[int]) -> None:
        now = np.array([path[-1] for path in z])
        before = np.array([path[-2] if len(path) > 1 else path[-1] for path in z])
        taken = np.array([path[-1] if path else 0 for path in a])
        kernel = self._solution.primitives.kernel
        sigma, x = _bayes(kernel, *map(jnp.asarray, (before, self._x, taken, now)))
        for i in alive:
            if not sigma[i] > 0:
                raise ImpossibleObservationError(
                    f"the solution gives probability zero to z'={now[i]} after z={before[i]}, "
                    f"a={taken[i]} (agent {i}, period {len(a[i])}): the world that it acts in is "
                    "not the one that it was solved for."
                )
        moves = np.isin(np.arange(len(now)), list(alive))
        self._x = np.where(moves[:, None], x, self._x)


@eqx.filter_jit
def _bayes(kernel: Kernel, z: Array, x: Array, a: Array, z_next: Array) -> tuple[Array, Array]:
    return update_belief(kernel, z, x, a, z_next)


class Free(AbstractActor):
    """Follows policy(z, a), which gives an action or a row of probabilities."""

    def __init__(self, policy: Callable, actions: int) -> None:
        self._policy, self._actions = policy, actions

    def choices(self, z: Paths, a: Paths, alive: Sequence[int]) -> list[np.ndarray]:
        """One call an agent."""
        return [self._law(self._policy(tuple(z[i]), tuple(a[i])), i, len(a[i])) for i in alive]

    def _law(self, answer: Any, agent: int, period: int) -> np.ndarray:
        given, A = np.asarray(answer), self._actions
        where = f"(agent {agent}, period {period})"
        if given.ndim == 0 and np.issubdtype(given.dtype, np.integer):
            if not 0 <= given < A:
                raise ModelError(f"the policy chose action {given}, not one of 0..{A - 1} {where}.")
            return np.eye(A)[int(given)]
        if given.shape != (A,) or given.dtype.kind not in "fiu":
            raise ModelError(
                f"a policy must give an action (a whole number) or {A} probabilities, but it gave "
                f"{answer!r} {where}."
            )
        if not (np.all(given >= 0) and abs(given.sum() - 1) <= SUM_TOLERANCE):
            raise ModelError(
                f"the policy's probabilities must not be negative and must sum to 1, but they are "
                f"{given.tolist()} {where}."
            )
        return given.astype(float)


def make_actor(policy: Policy, actions: int, x0: Float[np.ndarray, "N S"] | None) -> AbstractActor:
    """The one or the other."""
    if not isinstance(policy, Solution):
        if not callable(policy):
            raise ModelError(
                "policy must be a pf.Solution or a function of what was seen and done, not "
                f"{type(policy)}."
            )
        return Free(policy, actions)
    if x0 is None:
        raise ModelError(
            "a solution acts on beliefs, and this environment does not tell the first one: hand it "
            "over, as in prior=pf.KnownPrior(x0)."
        )
    states = policy.primitives.states
    if policy.primitives.actions != actions or x0.shape[1] != states:
        raise ModelError(
            f"the solution is of another model: it has {policy.primitives.actions} actions and "
            f"{states} hidden states, the world {actions} and {x0.shape[1]}."
        )
    return Bayesian(policy, x0)
