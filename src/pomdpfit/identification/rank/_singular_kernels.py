"""Kernels that tell less than they could: Theorem 5 asks that P(z', z, a) be not of rank one.

A matrix of rank one makes the next belief the same whatever was believed before. Where the law of
(z', s') does not depend on s at all, that is the nature of the action: a reset, and harmless. Where
it does, z' tells what was believed but the next belief forgets it. Two rows that are equal in all
z' are two hidden states that nothing tells apart at that (z, a).
"""

import itertools

import numpy as np
import pandas as pd

from pomdpfit._labels import action_names, observation_keys
from pomdpfit._model import Model, Primitives
from pomdpfit._panel import Panel
from pomdpfit._priors import labels_of

_ZERO = 1e-10  # of the largest entry: beyond what rounding leaves

RESET, REVEALED, RANK_ONE, LOST, DUPLICATE = (
    "reset",
    "state revealed",
    "rank one",
    "rank below |S|",
    "equal states",
)
HARMLESS = {RESET, REVEALED}
MEANING = {
    RESET: "the law of (z', s') does not depend on s: a fresh start, harmless",
    REVEALED: "z' tells the next state: nothing stays hidden there, harmless",
    RANK_ONE: "the next belief is the same whatever was believed before",
    LOST: "some beliefs are told apart no longer after z'",
    DUPLICATE: "two states with the same law of all that follows: nothing tells them apart here",
}


def singular_kernels(
    model: Model, primitives: Primitives, panel: Panel | None = None
) -> pd.DataFrame:
    """A row for each (z', z, a) whose kernel has not full rank, with what kind it is of."""
    if primitives.states == 1:
        return pd.DataFrame(columns=["z'", "z", "a", "rank", "kind", "states"])
    actions = action_names(model, primitives.actions, panel)
    seen = observation_keys(model, primitives.observations, panel)
    states = labels_of(model, primitives.states)
    kernel, available = primitives.kernel, primitives.available
    successors, probability = np.asarray(kernel.successors), np.asarray(kernel.probability)
    rows: list[dict] = []
    for z, a in np.ndindex(primitives.observations, primitives.actions):
        if available is not None and not available[z, a]:
            continue
        follow = successors[z if len(successors) > 1 else 0, a]
        matrices = probability[z if len(probability) > 1 else 0, a]
        equal = _equal_states(matrices)
        reset = len(equal) == primitives.states - 1 and np.all(_close(matrices, matrices[:, :1]))
        names = ", ".join(f"{states[i]} = {states[j]}" for i, j in equal)
        for z1, matrix in zip(follow, matrices, strict=True):
            if matrix.max() <= 0:
                continue
            rank, kind = _kind(matrix, reset=bool(reset), equal=bool(equal))
            if kind:
                told = names if kind in {DUPLICATE, RESET} else ""
                cell = {"z'": seen[z1], "z": seen[z], "a": actions[a]}
                rows.append({**cell, "rank": rank, "kind": kind, "states": told})
    return pd.DataFrame(rows, columns=["z'", "z", "a", "rank", "kind", "states"])


def _kind(matrix: np.ndarray, *, reset: bool, equal: bool) -> tuple[int, str]:
    values = np.linalg.svd(matrix, compute_uv=False)
    rank = int((values > _ZERO * values[0]).sum())
    if rank == len(matrix):
        return rank, ""
    if reset:
        return rank, RESET
    if equal:
        return rank, DUPLICATE
    if (matrix.max(axis=0) > 0).sum() == 1:
        return rank, REVEALED
    return rank, RANK_ONE if rank == 1 else LOST


def _equal_states(matrices: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of states (each with its first twin) whose rows agree for every z'."""
    S = matrices.shape[1]
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(S), 2)
        if np.all(_close(matrices[:, i], matrices[:, j]))
    ]
    return [(i, j) for i, j in pairs if not any(k < i and (k, j) in pairs for k in range(i))]


def _close(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.abs(first - second) <= _ZERO


def kernels_in_words(table: pd.DataFrame) -> list[str]:
    """One sentence for each action and kind."""
    sentences = []
    for (a, kind), part in table.groupby(["a", "kind"], sort=False):
        cells = [f"({z1}, {z})" for z1, z in zip(part["z'"], part["z"], strict=True)]
        shown = ", ".join(cells[:4]) + (f" and {len(cells) - 4} more" if len(cells) > 4 else "")
        pairs = sorted({told for told in part["states"] if told})
        who = f" [{'; '.join(pairs)}]" if kind == DUPLICATE and pairs else ""
        sentences.append(f"{a}: {kind}{who} at (z', z) = {shown}: {MEANING[str(kind)]}.")
    return sentences
