"""Moves of theta that no data can show, however many: derived from the equations, not from data.

Three families leave every sigma and every choice probability as it is.

gauge     P(z', z, a) -> S_z^-1 P(z', z, a) S_z', r(z, ., a) -> S_z^-1 r(z, ., a), with one matrix
          S_z for each observation, S_z 1 = 1, and x0 S_z = x0 for the priors of agents first seen
          at z: another description of what is hidden.
shaping   r(z, s, a) -> r + c(z, s) - beta sum P(z', s' | z, s, a) c(z', s'): adds c(z, x) to the
          value of every action.
scale     rewards and the scale of the shocks times the same number.

A model's theta moves in such a way if its primitives' derivative lies in the tangent of these
families: a linear system in the rates of theta, of S_z = 1 + G_z, of c and of the scale.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.linalg import null_space

from pomdpfit._model import Model, Primitives
from pomdpfit._params import ParameterSpace
from pomdpfit._types import Float, Theta
from pomdpfit.identification.rank._designs import possible_successors
from pomdpfit.identification.rank._primitive_moves import (
    Move,
    along_theta,
    place,
    scaled,
    shaped,
    turned,
)

MOST_UNKNOWNS = 2500  # a dense system of this width is solved in seconds
_ZERO = 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class Invisible:
    """Directions of theta (columns, in the free coordinates) that each family explains."""

    gauge: Float[np.ndarray, "p g"]
    shaping: Float[np.ndarray, "p c"]
    scale: Float[np.ndarray, "p k"]
    all: Float[np.ndarray, "p m"]
    unmoved: Float[np.ndarray, "p u"]  # moves of parameters that nothing seen depends on
    gauge_of_the_kernel: int  # dimensions of the gauge for an unrestricted kernel

    @property
    def counts(self) -> dict[str, int]:
        """How many directions each family explains by itself, and all of them together."""
        return {
            "gauge": self.gauge.shape[1],
            "shaping": self.shaping.shape[1],
            "scale": self.scale.shape[1],
            "together": self.all.shape[1],
        }


@dataclasses.dataclass(frozen=True, eq=False)
class _Equations:
    """Columns of the system for each family of unknowns, over the same rows."""

    theta: np.ndarray
    gauge: np.ndarray
    shaping: np.ndarray
    scale: np.ndarray

    def solve(self, *families: np.ndarray) -> Float[np.ndarray, "p m"]:
        """The rates of theta for which some rates of these families make up the difference."""
        p = self.theta.shape[1]
        system = np.concatenate([self.theta, *families], axis=1)
        unit = np.sqrt((system**2).sum(axis=0))
        unit = np.where(unit > 0, unit, 1.0)
        rates = null_space(system / unit, rcond=_ZERO)[:p] / unit[:p, None]
        left, values, _ = np.linalg.svd(rates, full_matrices=False)
        return left[:, values > 1e-7]


def invisible_moves(
    model: Model,
    theta: Theta,
    space: ParameterSpace,
    first: Sequence[int],
    priors: Mapping[int, Float[np.ndarray, "k S"]] | None,
    *,
    prior_name: str | None = None,
    choices: bool,
    periods: int,
) -> Invisible | None:
    """What no data can show from agents first seen at `first`; None if the system is too large.

    priors      their beliefs there, by z; None where they follow from theta as the policy does
    prior_name  the parameter that the one prior is, if it is one
    choices     rewards must follow; without, only what is observed counts, in `periods` transitions
    """
    primitives = model.primitives({name: theta[name] for name in model.parameters()})
    seen, met = reached(primitives, list(first), None if choices else periods)
    S = primitives.states
    basis = _gauge_basis(S)
    epochs = 1 if primitives.horizon is None else primitives.horizon + 1
    if len(basis) * len(seen) + S * primitives.observations * epochs > MOST_UNKNOWNS:
        return None
    equations = _equations(
        model, theta, space, _Scope(sorted(seen), sorted(met), priors or {}, prior_name, choices)
    )
    unmoved = equations.solve()  # rates that move nothing at all belong to no family
    gauge = equations.solve(equations.gauge)
    known = {} if priors is None or prior_name is not None else priors
    return Invisible(
        _apart(gauge, unmoved),
        _apart(equations.solve(equations.shaping), unmoved),
        _apart(equations.solve(equations.scale), unmoved),
        equations.solve(equations.gauge, equations.shaping, equations.scale),
        unmoved,
        sum((S - 1) * (S - _rank_of(known.get(z))) for z in seen)
        - (0 if prior_name is None else (len(first) - 1) * (S - 1)),
    )


def _rank_of(beliefs: np.ndarray | None) -> int:
    return 0 if beliefs is None else int(np.linalg.matrix_rank(beliefs))


def _apart(moves: np.ndarray, unmoved: np.ndarray) -> np.ndarray:
    if not unmoved.shape[1]:
        return moves
    rest = moves - unmoved @ (unmoved.T @ moves)
    left, values, _ = np.linalg.svd(rest, full_matrices=False)
    return left[:, values > 1e-7]


def reached(
    primitives: Primitives, first: list[int], periods: int | None
) -> tuple[set[int], set[int]]:
    """Observations that can be seen, and those that a transition can leave, in so many periods."""
    successors, possible = possible_successors(primitives)
    seen, met, front = set(first), set(), set(first)
    while front and (periods is None or periods > 0):
        met |= front
        ahead = {int(z1) for z in front for z1 in successors[z][possible[z]]}
        front = ahead - met
        seen |= ahead
        periods = None if periods is None else periods - 1
    return seen, met


def _gauge_basis(states: int) -> Float[np.ndarray, "g S S"]:
    """A basis of the matrices G with G 1 = 0."""
    right = null_space(np.ones((1, states)))
    return np.einsum("si,tj->ijst", np.eye(states), right).reshape(-1, states, states)


@dataclasses.dataclass(frozen=True, eq=False)
class _Scope:
    """What counts: observations seen and left, priors by first observation, choices or not."""

    seen: list[int]
    met: list[int]
    priors: Mapping[int, np.ndarray]
    prior_name: str | None
    choices: bool


def _equations(model: Model, theta: Theta, space: ParameterSpace, scope: _Scope) -> _Equations:
    """Rows: kernel entries at the observations met, all that choices depend on, the priors.

    A prior moves with the gauge, x0 -> x0 S_z, and so must theta's x0; a known one stays.
    """
    primitives = model.primitives({name: theta[name] for name in model.parameters()})
    at = place(primitives)
    shown = np.zeros((primitives.observations, primitives.actions), dtype=bool)
    shown[scope.met] = True
    if primitives.available is not None:
        shown &= np.asarray(primitives.available)

    horizon = primitives.horizon
    epochs = range(1 if horizon is None else horizon)

    def vector(move: Move) -> np.ndarray:
        """What can show of a move: at actions that can be taken, and choices only if they count."""
        whole = {n: move.get(n, np.zeros_like(part)) for n, part in at.parts.items()}
        kernel, reward = whole.pop("kernel")[shown], whole.pop("reward")
        rewards = [move.get(f"reward {t}", reward) for t in epochs]
        entries = [np.swapaxes(each, 1, 2)[shown] for each in rewards]
        kept = [kernel, *entries, *whole.values()] if scope.choices else [kernel]
        beliefs = [move.get(f"prior {z}", np.zeros_like(x)) for z, x in scope.priors.items()]
        return np.concatenate([np.ravel(part) for part in (*kept, *beliefs)])

    def columns(moves: list[Move]) -> np.ndarray:
        return np.stack([vector(m) for m in moves], axis=1) if moves else vector({})[:, None][:, :0]

    def turned_with_prior(z: int, G: np.ndarray) -> Move:
        move = turned(at, z, G)
        return {**move, f"prior {z}": -scope.priors[z] @ G} if z in scope.priors else move

    basis = _gauge_basis(primitives.states)
    cells = np.ndindex(primitives.observations, primitives.states) if scope.choices else ()
    blocks = [
        columns(_with_prior(along_theta(model, theta, space), space, scope)),
        columns([turned_with_prior(z, G) for z in scope.seen for G in basis]),
        columns([move for z, s in cells for move in shaped(at, z, s, horizon)]),
        columns([scaled(at)] if scope.choices else []),
    ]
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
    # Null spaces of any columns are those of the triangle's: far fewer rows.
    triangle = np.linalg.qr(np.concatenate(blocks, axis=1), mode="r")
    return _Equations(*np.split(triangle, ends, axis=1))


def _with_prior(moves: list[Move], space: ParameterSpace, scope: _Scope) -> list[Move]:
    """The same moves with what they do to a prior that is a parameter."""
    if scope.prior_name not in space.free_leaves:
        return moves
    rates = space.directions()[scope.prior_name]
    return [
        {**move, **{f"prior {z}": rate[None] for z in scope.priors}}
        for move, rate in zip(moves, rates, strict=True)
    ]
