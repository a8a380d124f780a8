"""How often each action is taken: the law of (z, x) under the policy, on the belief grid.

P moves (z, x) to (z', lambda) with probability pi(a | z, x) sigma(z' | z, x, a); mass that lands
between nodes is split by barycentric weights, which keeps the mean belief. Shares follow from

    mu = mu P                                     in the long run
    d = (1 - beta) mu_0 (I - beta P)^-1           discounted, from the start
    (mu_0 + mu_0 P + ... + mu_0 P^(T-1)) / T      over T periods from the start

as sparse linear systems or by forward iteration: nothing is simulated.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

from pomdpfit._errors import ModelError, SolveError
from pomdpfit._schemes import Linear
from pomdpfit._solve import Solution
from pomdpfit._types import Float
from pomdpfit.counterfactuals._information import Starts

_SETTLED = 1e-9  # what may be left of mu P - mu
_DUST = 1e-12  # of a belief's weight
_FIRST_STEPS = 50  # before the most visited node is chosen as the reference


@dataclasses.dataclass(frozen=True)
class Averaging:
    """Over which periods an action's frequency is taken, and with what weights.

    Without `periods`: all of them; in the long run if not discounted. With a finite horizon: all
    epochs.
    """

    periods: int | None = None
    discounted: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.periods, int | np.integer) and not isinstance(self.periods, bool)
        if self.periods is not None and not (whole and self.periods >= 1):
            raise ModelError(
                f"periods must be a whole number of at least 1, but it is {self.periods!r}."
            )

    def long_run(self, horizon: int | None) -> bool:
        """Whether it is the stationary law that counts."""
        return self.periods is None and not self.discounted and horizon is None

    def words(self, horizon: int | None) -> str:
        """In words, for a table."""
        if self.long_run(horizon):
            return "in the long run"
        many = horizon if self.periods is None else self.periods
        span = "from the start on" if many is None else f"over {many} periods from the start"
        return f"{'discounted, ' if self.discounted else ''}{span}"


def action_shares(
    solution: Solution, starts: Starts, averaging: Averaging
) -> Float[np.ndarray, "A"]:
    """P(a is taken in a period), averaged over periods; sums to one."""
    primitives = solution.primitives
    first = _first_law(solution, starts)
    horizon, beta = primitives.horizon, float(primitives.discount)
    if horizon is not None or averaging.periods is not None:
        return _forward(solution, first, averaging)
    chain, choice = belief_chain(solution)
    reached = _reached(chain, first)
    chain, choice, first = chain[reached][:, reached], choice[reached], first[reached]
    law = _discounted_law(chain, first, beta) if averaging.discounted else stationary_law(chain)
    return law @ choice


def belief_chain(
    solution: Solution, t: int | None = None
) -> tuple[sparse.csr_array, Float[np.ndarray, "Zn A"]]:
    """P over pairs (z, node), and the choice probabilities there (of epoch t)."""
    primitives, kernel = solution.primitives, solution.primitives.kernel
    grid, Z, S = Linear(solution.grid.nodes), primitives.observations, primitives.states
    beliefs = grid.beliefs(S)
    n, A, K = len(beliefs), kernel.actions, kernel.successors.shape[2]
    epoch = None if t is None else np.asarray(t)
    choice = np.asarray(solution.policy(np.arange(Z)[:, None], beliefs[None], epoch))
    position, weight = map(np.asarray, grid.perspective(jnp.asarray(kernel.probability)))
    full = (Z, A, K, n, position.shape[-1])
    successors = np.broadcast_to(np.asarray(kernel.successors, dtype=np.int64), (Z, A, K))
    column = np.broadcast_to(n * successors[..., None, None] + position, full)
    row = np.broadcast_to(np.arange(Z * n).reshape(Z, 1, 1, n, 1), full)
    mass = np.moveaxis(choice, -1, 1)[:, :, None, :, None] * _without_dust(weight[..., 0])
    real = mass > 0
    matrix = sparse.csr_array((mass[real], (row[real], column[real])), shape=(Z * n, Z * n))
    return matrix, choice.reshape(Z * n, A)


def stationary_law(chain: sparse.csr_array) -> Float[np.ndarray, "m"]:
    """mu = mu P, sum mu = 1; refused where there is more than one."""
    count, kind = connected_components(chain, directed=True, connection="strong")
    entries = chain.tocoo()
    ways_out = kind[entries.row[kind[entries.row] != kind[entries.col]]]
    closed = np.setdiff1d(np.arange(count), ways_out)
    if len(closed) > 1:
        raise SolveError(
            f"(z, x) has no single stationary law: it falls apart into {len(closed)} sets that are "
            "never left, as when a hidden state never changes, so that the long run depends on "
            "luck. Ask for periods=... or discounted=True, which start where you say."
        )
    inside = np.flatnonzero(kind == closed[0])
    law = np.zeros(chain.shape[0])
    law[inside] = _irreducible_law(chain[inside][:, inside])
    if np.abs(law @ chain - law).max() > _SETTLED:
        raise SolveError(
            "the stationary law of (z, x) was not found to 1e-9: the chain hardly mixes. Ask for "
            "periods=... or discounted=True."
        )
    return law


def _irreducible_law(chain: sparse.csr_array) -> Float[np.ndarray, "m"]:
    """Visits to every state between two visits to one of them, over their sum.

    v (I - P without that state) = the state's own row; it should be one that is visited often.
    """
    m = chain.shape[0]
    if m == 1:
        return np.ones(1)
    law = np.full(m, 1.0 / m)
    for _ in range(_FIRST_STEPS):
        law = 0.5 * (law + law @ chain)
    often = int(np.argmax(law))
    rest = np.delete(np.arange(m), often)
    system = sparse.eye_array(m - 1, format="csc") - chain[rest][:, rest].T
    visits = np.ones(m)
    visits[rest] = spsolve(system.tocsc(), chain[[often]].toarray()[0, rest])
    visits = np.maximum(visits, 0.0)  # rounding of what is all but zero
    return visits / visits.sum()


def _discounted_law(
    chain: sparse.csr_array, first: Float[np.ndarray, "m"], beta: float
) -> Float[np.ndarray, "m"]:
    """(1 - beta) mu_0 (I - beta P)^-1."""
    system = sparse.eye_array(len(first), format="csc") - beta * chain.T
    return (1.0 - beta) * np.atleast_1d(spsolve(system.tocsc(), first))


def _forward(
    solution: Solution, law: Float[np.ndarray, "m"], averaging: Averaging
) -> Float[np.ndarray, "A"]:
    """Period by period; with a finite horizon each epoch has its own policy."""
    horizon, beta = solution.primitives.horizon, float(solution.primitives.discount)
    periods = averaging.periods if averaging.periods is not None else horizon
    assert periods is not None
    if horizon is not None and periods > horizon:
        raise ModelError(f"periods must not exceed the horizon of {horizon} epochs.")
    chain, choice = belief_chain(solution, None if horizon is None else 0)
    total, weight = np.zeros(choice.shape[1]), 0.0
    for t in range(int(periods)):
        if horizon is not None and t > 0:
            chain, choice = belief_chain(solution, t)
        now = beta**t if averaging.discounted else 1.0
        total, weight = total + now * (law @ choice), weight + now
        law = law @ chain
    return total / weight


def _first_law(solution: Solution, starts: Starts) -> Float[np.ndarray, "Zn"]:
    """The starts on the grid."""
    grid, S = Linear(solution.grid.nodes), solution.primitives.states
    position, weight = map(np.asarray, grid.basis(jnp.asarray(starts.x)))
    n = grid.size(S)
    law = np.zeros(solution.primitives.observations * n)
    weight = starts.weight[:, None] * _without_dust(weight)
    np.add.at(law, n * starts.z[:, None] + position, weight)
    return law


def _without_dust(weight: Float[np.ndarray, "*b V"]) -> Float[np.ndarray, "*b V"]:
    """Barycentric weights without what rounding puts on the next node, and with the same sum.

    Dust would tie together beliefs between which nothing moves.
    """
    total = weight.sum(axis=-1, keepdims=True)
    kept = np.where(weight > _DUST * total, weight, 0.0)
    left = kept.sum(axis=-1, keepdims=True)
    return kept * np.divide(total, left, out=np.zeros_like(total), where=left > 0)


def _reached(chain: sparse.csr_array, first: Float[np.ndarray, "m"]) -> np.ndarray:
    """The numbers of all states that can ever be reached from where `first` has mass."""
    forward, reached = chain.T.tocsr(), first > 0
    while True:
        more = reached | ((forward @ reached.astype(float)) > 0)
        if (more == reached).all():
            return np.flatnonzero(reached)
        reached = more
