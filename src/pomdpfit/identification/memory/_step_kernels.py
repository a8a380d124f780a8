"""Every matrix that can move a belief in one period, told apart, counted and measured."""

import enum
from collections import Counter

import numpy as np
import pandas as pd

from pomdpfit._kernel import Kernel
from pomdpfit._types import Bool, Float, Int
from pomdpfit.identification.memory._metrics import diameter, eta

_DIGITS = 12  # kernels that agree to so many are one
_ANY = -1  # in the place of z' where it did not inform


class Memory(enum.StrEnum):
    """What one step leaves of two priors."""

    NOTHING = "forgets all at once"
    LESS = "forgets"
    NO_PROMISE = "promises nothing"
    GROUPS = "keeps groups of states apart"
    ODDS = "never forgets"


def memory_of(P: Float[np.ndarray, "S S"]) -> Memory:
    """How a substochastic matrix treats the odds of hidden states.

    A matrix with one positive entry in each row and column (a diagonal one, say) multiplies odds by
    numbers that do not depend on the prior: h(x P, y P) = h(x, y), and two priors stay as far
    apart as they were. If its states fall into groups with no entry between them, priors on
    different groups stay apart.
    """
    alive = P[P.sum(axis=1) > 0][:, P.sum(axis=0) > 0] > 0
    wide = float(diameter(P))
    if wide < 1e-9:
        return Memory.NOTHING
    if np.isfinite(wide):
        return Memory.LESS
    groups = _groups(alive)
    if groups == len(alive) == alive.shape[1]:
        return Memory.ODDS
    return Memory.GROUPS if groups > 1 else Memory.NO_PROMISE


def _groups(alive: Bool[np.ndarray, "m n"]) -> int:
    """Into how many parts rows and columns fall if positive entries tie them."""
    linked = (alive.astype(int) @ alive.T.astype(int)) > 0
    for _ in range(len(linked)):
        linked = (linked.astype(int) @ linked.astype(int)) > 0
    return len(np.unique(linked, axis=0))


def panel_steps(
    context: Int[np.ndarray, "N T"],
    z: Int[np.ndarray, "N T"],
    a: Int[np.ndarray, "N T"],
    informs: Bool[np.ndarray, "N T"],
) -> Int[np.ndarray, "N T 4"]:
    """(context, z, a, z') of every transition; z' is -1 where it did not inform."""
    z_next = np.concatenate([z[:, 1:], z[:, -1:]], axis=1)
    return np.stack([context, z, a, np.where(informs, z_next, _ANY)], axis=-1)


def step_matrices(
    kernel: Kernel, steps: Int[np.ndarray, "n 4"], observations: int
) -> Float[np.ndarray, "n S S"]:
    """P(z', . | z, ., a) of each step, or P(. | z, ., a) where z' did not inform."""
    context, z, a, z_next = np.asarray(steps).T
    row = context * observations + z
    seen = np.asarray(kernel.transition(row, a, z_next))
    blind = np.asarray(kernel.predictive(row, a))
    return np.where((z_next == _ANY)[:, None, None], blind, seen)


def model_steps(
    kernel: Kernel, contexts: int, available: Bool[np.ndarray, "Z A"] | None
) -> Int[np.ndarray, "n 4"]:
    """(context, z, a, z') of everything that the model can do."""
    Z, A, K = kernel.observations, kernel.actions, np.shape(kernel.successors)[2]
    shape = (contexts * Z, A, K)
    mass = np.asarray(kernel.probability).sum(axis=(3, 4))
    possible = np.broadcast_to(mass, shape) > 0
    if available is not None:
        possible = possible & np.tile(available, (contexts, 1))[..., None]
    row, a, k = np.nonzero(possible)
    z_next = np.broadcast_to(kernel.successors, shape)[row, a, k]
    return np.stack([row // Z, row % Z, a, z_next], axis=1)


def coefficient_table(
    kernel: Kernel,
    of_model: Int[np.ndarray, "n 4"],
    of_panel: Int[np.ndarray, "m 4"],
    actions: tuple[str, ...],
    names: tuple[str, ...] | None = None,
) -> pd.DataFrame:
    """One row for each different matrix: where it stands, how often it moved a belief, eta, tau.

    `names` are those of observations, where they have any.
    """
    Z = kernel.observations
    count = Counter(map(tuple, of_panel.tolist()))
    blind = [step for step in count if step[3] == _ANY]
    steps = np.concatenate([of_model, np.array(blind, dtype=int).reshape(-1, 4)])
    P = step_matrices(kernel, steps, Z)
    flat = P.reshape(len(P), -1).round(_DIGITS)
    key = np.column_stack([steps[:, 2], steps[:, 0], steps[:, 3] == _ANY, flat])
    _, first, member = np.unique(key, axis=0, return_index=True, return_inverse=True)
    member = member.ravel()
    cuts = np.cumsum(np.bincount(member))[:-1]
    alike = np.split(steps[np.argsort(member, kind="stable")], cuts)
    Delta, paper = diameter(P[first]), eta(P[first])
    rows = []
    for g, (f, where) in enumerate(zip(first, alike, strict=True)):
        rows.append(
            {
                "action": actions[steps[f, 2]],
                "context": int(steps[f, 0]),
                "z": _listed(np.unique(where[:, 1]), names),
                "z'": _successors(where, names),
                "kernels": len(where),
                "in panel": sum(count[tuple(step)] for step in where.tolist()),
                "eta": float(paper[g]),
                "Delta": float(Delta[g]),
                "tau": float(np.tanh(Delta[g] / 4)),
                "memory": memory_of(P[f]),
            }
        )
    order = np.argsort(first)  # as the model lists them
    frame = pd.DataFrame(rows).iloc[order].reset_index(drop=True)
    return frame if frame["context"].nunique() > 1 else frame.drop(columns="context")


def _listed(values: Int[np.ndarray, "n"], names: tuple[str, ...] | None = None) -> str:
    """3; 0..5; 0, 2, 7; or how many there are; by name where there are names."""
    called = [str(v) if names is None else names[v] for v in values]
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{called[0]}..{called[-1]}"
    return ", ".join(called) if len(values) <= 6 else f"{len(values)} of them"


def _successors(where: Int[np.ndarray, "n 4"], names: tuple[str, ...] | None = None) -> str:
    """z' in words: a number, z + 1, or a list."""
    z, z_next = where[:, 1], where[:, 3]
    if (z_next == _ANY).all():
        return "not read"
    distinct, step = np.unique(z_next), np.unique(z_next - z)
    if len(distinct) > 1 and len(step) == 1 and (names is None or step[0] == 0):
        return "z" if step[0] == 0 else f"z {'+' if step[0] > 0 else '-'} {abs(step[0])}"
    return _listed(distinct, names)
