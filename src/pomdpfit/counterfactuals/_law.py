"""How often each action is taken: the law of (z, x) under the policy, on a belief grid of its own.

P moves (z, x) to (z', lambda) with probability pi(a | z, x) sigma(z' | z, x, a). Mass that lands
between nodes is split by the weights of `Lagrange`, which keep the mean and the variance of the
belief: linear weights would spread beliefs that move by less than a cell a period, an error of
first order in its width. Weights, and so masses of single nodes, may be negative. Shares follow
from

    mu = mu P                                     in the long run
    d = (1 - beta) mu_0 (I - beta P)^-1           discounted, from the start
    (mu_0 + mu_0 P + ... + mu_0 P^(T-1)) / T      over T periods from the start

as sparse linear systems or by forward iteration: nothing is simulated. The grid is refined until
twice as many cells change no share by more than `_RELATIVE` of itself, and the last change is
handed on as the error: it is that of half the cells, several times that of the shares themselves.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

from pomdpfit._errors import ModelError, SolveError
from pomdpfit._policy import ActionValues
from pomdpfit._schemes import Lagrange, law_degree, law_scheme
from pomdpfit._solve import Solution
from pomdpfit._types import Array, Float, Int
from pomdpfit.counterfactuals._information import Starts

_SETTLED = 1e-9  # what may be left of mu P - mu
_DUST = 1e-12  # of a belief's weight
_FIRST_STEPS = 50  # before the most visited node is chosen as the reference
_RELATIVE, _ABSOLUTE = 1e-4, 1e-7  # changes of a share at which a grid is fine enough
_MOST_PAIRS = {2: 60_000, 3: 20_000}  # (z, node) by |S|, for the time that a sparse solve takes
_MOST_OTHERS = 10_000


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


class Shares(NamedTuple):
    """P(a is taken in a period), with the largest change of any since half as many cells.

    `fine` is whether that is small for every one of them.
    """

    share: Float[np.ndarray, "A"]
    error: float
    cells: int
    fine: bool


def action_shares(solution: Solution, starts: Starts, averaging: Averaging) -> Shares:
    """P(a is taken in a period), averaged over periods, on a grid that is fine enough."""
    primitives = solution.primitives
    S = primitives.states
    cells = max(1, round(solution.grid.resolution / law_degree(S) / 2))
    most = _MOST_PAIRS.get(S, _MOST_OTHERS)
    old = shares_on(cells, solution, starts, averaging)
    if S == 1:
        return Shares(old, 0.0, cells, fine=True)
    while True:
        cells *= 2
        new = shares_on(cells, solution, starts, averaging)
        next_size = primitives.observations * law_scheme(S, 2 * cells).size(S)
        fine = np.allclose(new, old, rtol=_RELATIVE, atol=_ABSOLUTE)
        if fine or next_size > most:
            return Shares(new, float(np.abs(new - old).max()), cells, fine)
        old = new


def shares_on(
    cells: int, solution: Solution, starts: Starts, averaging: Averaging
) -> Float[np.ndarray, "A"]:
    """The same on a grid of so many cells an edge; sums to one."""
    primitives = solution.primitives
    grid = law_scheme(primitives.states, cells)
    moves, first = _moves(solution, grid), _first_law(solution, grid, starts)
    if primitives.horizon is not None or averaging.periods is not None:
        return _within(_forward(solution, moves, first, averaging))
    chain, choice = _chain(moves, 0), moves.choice[0]
    reached = _reached(chain, first)
    chain, choice, first = chain[reached][:, reached], choice[reached], first[reached]
    beta = float(primitives.discount)
    law = _discounted_law(chain, first, beta) if averaging.discounted else stationary_law(chain)
    return _within(law @ choice)


def _within(shares: Float[np.ndarray, "A"]) -> Float[np.ndarray, "A"]:
    """Shares of what is all but never done may come out below zero by the error of the grid."""
    shares = np.maximum(shares, 0.0)
    return shares / shares.sum()


class _Moves(NamedTuple):
    """Where mass goes: (z, node) -> (z', node') by action, and how each is chosen in each epoch."""

    row: Int[np.ndarray, "e"]
    column: Int[np.ndarray, "e"]
    action: Int[np.ndarray, "e"]
    weight: Float[np.ndarray, "e"]
    choice: Float[np.ndarray, "H Zn A"]


def _moves(solution: Solution, grid: Lagrange) -> _Moves:
    primitives = solution.primitives
    kernel, Z, S = primitives.kernel, primitives.observations, primitives.states
    n, A, K = grid.size(S), kernel.actions, kernel.successors.shape[2]
    choice, position, weight = map(np.asarray, _choices_and_weights(solution.values, grid))
    weight = _without_dust(weight[..., 0])
    shape = (Z, A, K, n, position.shape[-1])
    successors = np.broadcast_to(np.asarray(kernel.successors, dtype=np.int64), (Z, A, K))
    column = np.broadcast_to(n * successors[..., None, None] + position, shape)
    row = np.broadcast_to(np.arange(Z * n).reshape(Z, 1, 1, n, 1), shape)
    action = np.broadcast_to(np.arange(A)[:, None, None, None], shape)
    weight = np.broadcast_to(weight, shape)
    real = weight != 0
    parts = (row[real], column[real], action[real], weight[real])
    return _Moves(*parts, choice.reshape(-1, Z * n, A))


@eqx.filter_jit
def _choices_and_weights(values: ActionValues, grid: Lagrange) -> tuple[Array, Array, Array]:
    """pi at every (epoch, z, node), and the positions and weights of the next beliefs."""
    primitives = values.primitives
    Z, x = primitives.observations, jnp.asarray(grid.beliefs(primitives.states))
    H = primitives.horizon
    shape = (Z, len(x)) if H is None else (H, Z, len(x))
    z = jnp.broadcast_to(jnp.arange(Z)[:, None], shape)
    t = None if H is None else jnp.broadcast_to(jnp.arange(H)[:, None, None], shape)
    log_choice = values.log_choice(z, jnp.broadcast_to(x, (*shape, x.shape[-1])), t)
    return jnp.exp(log_choice), *grid.perspective(jnp.asarray(primitives.kernel.probability))


def _chain(moves: _Moves, t: int) -> sparse.csr_array:
    """P over pairs (z, node), with the choices of epoch t."""
    size = moves.choice.shape[1]
    mass = moves.choice[t][moves.row, moves.action] * moves.weight
    real = mass != 0
    at = (moves.row[real], moves.column[real])
    return sparse.csr_array((mass[real], at), shape=(size, size))


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
    return visits / visits.sum()


def _discounted_law(
    chain: sparse.csr_array, first: Float[np.ndarray, "m"], beta: float
) -> Float[np.ndarray, "m"]:
    """(1 - beta) mu_0 (I - beta P)^-1."""
    system = sparse.eye_array(len(first), format="csc") - beta * chain.T
    return (1.0 - beta) * np.atleast_1d(spsolve(system.tocsc(), first))


def _forward(
    solution: Solution, moves: _Moves, law: Float[np.ndarray, "m"], averaging: Averaging
) -> Float[np.ndarray, "A"]:
    """Period by period; with a finite horizon each epoch has its own policy."""
    horizon, beta = solution.primitives.horizon, float(solution.primitives.discount)
    periods = averaging.periods if averaging.periods is not None else horizon
    assert periods is not None
    if horizon is not None and periods > horizon:
        raise ModelError(f"periods must not exceed the horizon of {horizon} epochs.")
    chain = _chain(moves, 0)
    total, weight = np.zeros(moves.choice.shape[-1]), 0.0
    for t in range(int(periods)):
        epoch = 0 if horizon is None else t
        if epoch > 0:
            chain = _chain(moves, epoch)
        now = beta**t if averaging.discounted else 1.0
        total, weight = total + now * (law @ moves.choice[epoch]), weight + now
        law = law @ chain
    return total / weight


def _first_law(solution: Solution, grid: Lagrange, starts: Starts) -> Float[np.ndarray, "Zn"]:
    """The starts on the grid."""
    position, weight = map(np.asarray, grid.basis(jnp.asarray(starts.x)))
    n = grid.size(solution.primitives.states)
    law = np.zeros(solution.primitives.observations * n)
    weight = starts.weight[:, None] * _without_dust(weight)
    np.add.at(law, n * starts.z[:, None] + position, weight)
    return law


def _without_dust(weight: Float[np.ndarray, "*b V"]) -> Float[np.ndarray, "*b V"]:
    """Weights without what rounding puts on further nodes, and with the same sum.

    Dust would tie together beliefs between which nothing moves.
    """
    total = weight.sum(axis=-1, keepdims=True)
    kept = np.where(np.abs(weight) > _DUST * total, weight, 0.0)
    left = kept.sum(axis=-1, keepdims=True)
    return kept * np.divide(total, left, out=np.zeros_like(total), where=left > 0)


def _reached(chain: sparse.csr_array, first: Float[np.ndarray, "m"]) -> np.ndarray:
    """The numbers of all states that can ever be reached from where `first` has mass."""
    forward, reached = abs(chain).T.tocsr(), first != 0
    while True:
        more = reached | ((forward @ reached.astype(float)) > 0)
        if (more == reached).all():
            return np.flatnonzero(reached)
        reached = more
