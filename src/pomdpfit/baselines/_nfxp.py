"""Rust's nested fixed point: the log-likelihood of a fully observed decision process.

log l = sum_i sum_t log P(z_{t+1} | z_t, a_t) + log pi(a_t | z_t),  log pi = Q - emax Q,
Q(z, a) = r(z, a) + beta sum_z' P(z' | z, a) V(z'),  V(z) = log sum_a exp Q(z, a)

A path of its own, to check the rest against: numpy throughout, except that JAX differentiates
the model's primitives at a fixed V. What a move of V adds is the linear system
(I - beta P_pi) dV = sum_a pi dQ|_V, solved here.
"""

from collections.abc import Mapping
from typing import cast

import numpy as np
import scipy.sparse

from pomdpfit._errors import ImpossibleObservationError, ModelError
from pomdpfit._log_likelihood import LogLikelihood, MovableLikelihood, Part
from pomdpfit._model import Primitives, require_model
from pomdpfit._names_read import names_read
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import require_float64
from pomdpfit._types import Array, ArrayLike, Bool, Float, Theta
from pomdpfit.baselines._fixed_point import Solved, jacobian, linear_solve, solve
from pomdpfit.baselines._mdp import (
    MDP,
    Tables,
    action_values,
    built_tables,
    checked_tables,
    probabilities,
    pull_primitive,
    push_primitive,
)


class NFXPLikelihood(MovableLikelihood):
    """The log-likelihood of a panel under a fully observed model, and its exact derivatives."""

    def __init__(self, mdp: MDP, panel: Panel, space: ParameterSpace | None = None) -> None:
        require_float64()
        require_model(mdp, fully_observed=True)
        if not isinstance(mdp, MDP):
            raise ModelError(
                f"{type(mdp).__name__} has hidden states: use pf.Likelihood. NFXPLikelihood is for "
                "a baselines.MDP."
            )
        self.model, self.panel = mdp, panel
        self.space = mdp.space() if space is None else space
        example = self.space.example()
        tables = checked_tables(mdp, example, self.space)
        # Panel.check asks for sizes and available actions alone, which tables have too.
        panel.check(cast(Primitives, tables), mdp)
        self._dynamics = names_read(mdp.transition, example)
        self._belief = np.ones((*panel.z.shape, 1))
        self._read_panel(tables)

    def on(
        self, panel: Panel, contexts: Mapping[str, np.ndarray] | None = None
    ) -> "NFXPLikelihood":
        """The same likelihood of another panel."""
        return NFXPLikelihood(self.model, panel, self.space)

    def _read_panel(self, tables: Tables) -> None:
        """Count each agent's scored cells once: sums over time become sparse products."""
        panel, N = self.panel, self.panel.agent_count
        i, t = np.nonzero(panel.score_observation)
        Z, A = tables.reward.shape
        flat = (panel.z[i, t] * A + panel.a[i, t]) * Z + panel.z[i, t + 1]
        cells, self._cell = np.unique(flat, return_inverse=True)
        self._cells = np.stack(np.unravel_index(cells, (Z, A, Z)))
        self._moved = _counts(i, self._cell, (N, len(cells)))
        i, t = np.nonzero(panel.score_choice)
        self._chosen = _counts(i, panel.z[i, t] * A + panel.a[i, t], (N, Z * A))

    @property
    def dynamics(self) -> frozenset[str]:
        """The parameters that transition() reads."""
        return self._dynamics

    @property
    def states(self) -> int:
        """1: nothing is hidden."""
        return 1

    def terms(
        self, theta: Theta, *, part: Part = Part.BOTH, start: ArrayLike | None = None
    ) -> LogLikelihood:
        """log P(z' | z, a) and log pi(a | z) of every scored row."""
        return self._evaluate(self.space.check(theta), part, start)[0]

    def pull(
        self,
        theta: Theta,
        weights: Float[np.ndarray, "N 2"],
        names: tuple[str, ...],
        *,
        part: Part = Part.BOTH,
        start: ArrayLike | None = None,
    ) -> tuple[LogLikelihood, dict[str, np.ndarray]]:
        """The terms and the gradient of their weighted sum, by one transposed solve.

        With G(z, a) the weight on log pi(a | z), the weight on Q at a fixed V is
        G - pi sum_a G + pi lambda,  (I - beta P_pi)' lambda = beta sum_{z, a} (G - pi sum_a G) P.
        """
        counts = np.abs(weights).sum(axis=1) > 0
        checked = self.space.check(theta)
        terms, tables, solved = self._evaluate(checked, part, start, counts)
        at, still = self._split(checked, names)
        gradient = {name: np.zeros(np.shape(at[name])) for name in names}
        pulled = []
        if names and Part.OBSERVATION in part:
            on_cells = (self._moved.T @ weights[:, 0]) * self._inverse_probability(tables)
            pulled.append(
                pull_primitive(probabilities, self.model, still, at, self._cells, on_cells)
            )
        if names and solved is not None:
            pi = np.exp(solved.log_choice)
            G = (self._chosen.T @ weights[:, 1]).reshape(pi.shape)
            on_Q = G - pi * G.sum(axis=1, keepdims=True)
            on_V = tables.discount * np.tensordot(on_Q, tables.transition, axes=2)
            on_V[0] = 0.0  # V(0) stays where it is
            on_V = linear_solve(jacobian(tables, solved.log_choice).T, on_V)
            on_Q = on_Q + pi * on_V[:, None]
            pulled.append(pull_primitive(action_values, self.model, still, at, solved.V, on_Q))
        for tree in pulled:
            gradient = {name: gradient[name] + np.asarray(tree[name]) for name in names}
        return terms, gradient

    def push(
        self,
        theta: Theta,
        directions: Mapping[str, Float[np.ndarray, "p *shape"]],
        *,
        part: Part = Part.BOTH,
        start: ArrayLike | None = None,
        among: Bool[np.ndarray, "N"] | None = None,
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N 2 p"]]:
        """The terms and each agent's derivatives; dV by one factorisation for all directions."""
        checked = self.space.check(theta)
        terms, tables, solved = self._evaluate(checked, part, start, among)
        at, still = self._split(checked, tuple(directions))
        moves, p = _checked_directions(directions, at)
        slopes = np.zeros((self.panel.agent_count, 2, p))
        if p and Part.OBSERVATION in part:
            dP = np.asarray(
                push_primitive(probabilities, self.model, moves, still, at, self._cells)
            )
            slopes[:, 0] = self._moved @ (dP * self._inverse_probability(tables)).T
        if p and solved is not None:
            pi = np.exp(solved.log_choice)
            dQ = np.asarray(push_primitive(action_values, self.model, moves, still, at, solved.V))
            dV = linear_solve(jacobian(tables, solved.log_choice), (pi * dQ).sum(axis=2).T)
            dV[0] = 0.0  # that row moved the level
            dQ = dQ + tables.discount * np.moveaxis(tables.transition @ dV, 2, 0)
            d_log = dQ - (pi * dQ).sum(axis=2, keepdims=True)
            slopes[:, 1] = self._chosen @ d_log.reshape(p, -1).T
        if among is not None:
            slopes[~np.asarray(among)] = 0.0
        return terms, slopes

    def choice_probabilities(
        self, theta: Theta, *, start: ArrayLike | None = None
    ) -> tuple[LogLikelihood, Float[np.ndarray, "N T A"]]:
        """The terms and pi(. | z) in every row."""
        terms, _, solved = self._evaluate(self.space.check(theta), Part.BOTH, start)
        assert solved is not None
        return terms, np.exp(solved.log_choice)[self.panel.z]

    def simulate(self, theta: Theta, seed: int) -> Panel:
        """A panel with the same agents, lengths and first observations."""
        tables = checked_tables(self.model, theta, self.space)
        choice = np.exp(solve(tables, None).log_choice).cumsum(axis=1)
        moves = tables.transition.cumsum(axis=2)
        rng = np.random.default_rng(seed)
        (N, T), A = self.panel.z.shape, choice.shape[1]
        z, a = np.zeros((N, T), dtype=int), np.zeros((N, T), dtype=int)
        here = self.panel.z[:, 0]
        for t in range(T):
            draw, step = rng.uniform(size=(2, N, 1))
            z[:, t] = here
            # Sums of probabilities may end a rounding below one.
            a[:, t] = np.minimum((draw > choice[here]).sum(axis=1), A - 1)
            reached = (step > moves[here, a[:, t]]).sum(axis=1)
            here = np.minimum(reached, len(choice) - 1)
        return self.panel.replaced(z, a, seed)

    def _inverse_probability(self, tables: Tables) -> Float[np.ndarray, "u"]:
        """1 / P at the cells that occur; 0 where P is, for nobody who counts was there."""
        probability = tables.transition[tuple(self._cells)]
        return np.divide(1.0, probability, where=probability > 0, out=np.zeros(len(probability)))

    def _evaluate(
        self,
        checked: dict[str, Array],
        part: Part,
        start: ArrayLike | None,
        counts: Bool[np.ndarray, "N"] | None = None,
    ) -> tuple[LogLikelihood, Tables, Solved | None]:
        tables, panel = built_tables(self.model, checked), self.panel
        observation, choice = np.zeros(panel.z.shape), np.zeros(panel.z.shape)
        if Part.OBSERVATION in part:
            probability = tables.transition[tuple(self._cells)]
            with np.errstate(divide="ignore"):  # log 0 = -inf is refused, or belongs to nobody
                observation[panel.score_observation] = np.log(probability)[self._cell]
            self._refuse_impossible(np.isneginf(observation), counts)
        solved = None
        if Part.CHOICE in part:
            solved = solve(tables, _checked_start(start, tables.observations))
            scored = panel.score_choice
            choice[scored] = solved.log_choice[panel.z[scored], panel.a[scored]]
        terms = LogLikelihood(
            observation=observation,
            choice=choice,
            belief=self._belief,
            panel=panel,
            residual=solved.residual if solved else 0.0,
            steps=solved.steps if solved else 0,
            start=cast(Array, solved.V) if solved else cast(Array | None, start),
        )
        return terms, tables, solved

    def _refuse_impossible(self, bad: np.ndarray, counts: np.ndarray | None) -> None:
        if counts is not None:
            bad = bad & np.asarray(counts)[:, None]
        rows = np.argwhere(bad)
        if len(rows) == 0:
            return
        panel, (i, t) = self.panel, rows[0]
        raise ImpossibleObservationError(
            f"agent {panel.agents[i]!r}, time {panel.times[i, t]}: the model gives probability "
            f"zero to z'={panel.z[i, t + 1]} after z={panel.z[i, t]}, a={panel.a[i, t]} "
            f"({len(rows)} such transitions). Mend the data or the model, or leave such "
            "transitions out with panel.exclude_transitions(mask)."
        )

    def _split(self, checked: dict[str, Array], names: tuple[str, ...]) -> tuple[dict, dict]:
        """theta in two: the leaves that are named, and the rest."""
        for name in names:
            if name not in self.space.parameters:
                raise ModelError(
                    f"there is no parameter named {name!r}; the parameters are "
                    f"{', '.join(self.space.parameters)}."
                )
        at = {name: checked[name] for name in names}
        return at, {name: leaf for name, leaf in checked.items() if name not in at}


def _counts(
    agents: np.ndarray, cells: np.ndarray, shape: tuple[int, int]
) -> scipy.sparse.csr_array:
    """How often each agent was in each cell."""
    return scipy.sparse.coo_array((np.ones(len(agents)), (agents, cells)), shape=shape).tocsr()


def _checked_directions(directions: Mapping[str, np.ndarray], at: dict) -> tuple[dict, int]:
    moves = {name: np.asarray(move, dtype=np.float64) for name, move in directions.items()}
    counts = {len(move) for move in moves.values() if move.ndim}
    p = counts.pop() if len(counts) == 1 else 0
    for name, move in moves.items():
        if counts or move.shape != (p, *np.shape(at[name])):
            raise ModelError(
                f"directions[{name!r}] must have shape (p, *{np.shape(at[name])}), with the same "
                f"p for every name, but it has {move.shape}."
            )
    return moves, p


def _checked_start(start: ArrayLike | None, Z: int) -> np.ndarray | None:
    if start is None:
        return None
    V = np.asarray(start, dtype=np.float64)
    if V.shape != (Z,) or not np.isfinite(V).all():
        raise ModelError(f"start must hold {Z} finite values, but its shape is {V.shape}.")
    return V
