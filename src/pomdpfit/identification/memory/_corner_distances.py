"""How far apart the beliefs of two priors are along a panel, and what Birkhoff promises of it.

After t periods the belief from x0 is x0 A / (x0 A 1), where A is the product of the matrices on the
way. That maps a polytope of priors onto the hull of its corners' images (a corner that cannot
have produced the data has none). Total variation is convex, D and Hilbert's h are quasi-convex
in each argument, so that the largest distance over the whole polytope is that of two corners.
"""

import itertools

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel
from pomdpfit._panel import Panel
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._priors import KnownPrior
from pomdpfit._track_beliefs import compiled_filter
from pomdpfit._types import ArrayLike, Bool, Float, Int
from pomdpfit.identification.memory._metrics import (
    diameter,
    hilbert,
    paper_distance,
    total_variation,
)
from pomdpfit.identification.memory._step_kernels import step_matrices


def checked_corners(beliefs: ArrayLike | None, states: int) -> Float[np.ndarray, "k S"]:
    """The corners given, on the simplex or refused; by default its vertices."""
    if beliefs is None:
        return np.eye(states)
    corners = np.asarray(beliefs, dtype=float)
    if corners.ndim != 2 or corners.shape[1] != states:
        raise ModelError(
            f"beliefs must be rows of {states} probabilities, the corners of the part of the "
            f"simplex that x0 may lie in, but they have shape {corners.shape}."
        )
    return np.asarray(KnownPrior(corners).data(range(len(corners)), states))


def corner_beliefs(
    kernel: Kernel, arrays: PanelArrays, corners: Float[np.ndarray, "k S"]
) -> Float[np.ndarray, "k N T S"]:
    """log x_t of every agent from every corner; all -inf once the data have refuted the corner."""
    each = (compiled_filter(kernel, arrays, x[None]).log_belief for x in corners)
    return np.stack([np.asarray(log_x) for log_x in each])


def largest_distances(
    log_x: Float[np.ndarray, "k N T S"], present: Bool[np.ndarray, "N T"]
) -> tuple[Float[np.ndarray, "N T"], Float[np.ndarray, "N T"], Float[np.ndarray, "N T"]]:
    """Total variation, D and h between the two corners furthest apart; NaN where no row is."""
    alive = np.isfinite(log_x).any(axis=-1)
    tv, D, h = (np.where(present, 0.0, np.nan) for _ in range(3))
    for k, l in itertools.combinations(range(len(log_x)), 2):
        both = alive[k] & alive[l]
        for largest, distance in ((tv, total_variation), (D, paper_distance), (h, hilbert)):
            apart = np.where(both, distance(log_x[k], log_x[l]), 0.0)
            np.maximum(largest, apart, out=largest)
    return tv, D, h


def promised_distances(
    kernel: Kernel, steps: Int[np.ndarray, "N T 4"], panel: Panel, first: float
) -> Float[np.ndarray, "N T"]:
    """h_t <= min(Delta(P_t), tau(P_t) h_{t-1}) from h_0 = first, along each agent's own panel.

    From the vertices h_0 is infinite: h_t <= Delta(P_1) tau(P_2) ... tau(P_t), or better if a
    later step has a diameter below what the earlier ones have left.
    """
    there = panel.continues
    distinct, where = np.unique(steps[there], axis=0, return_inverse=True)
    Delta = np.full(there.shape, np.inf)
    Delta[there] = diameter(step_matrices(kernel, distinct, kernel.observations))[where.ravel()]
    bound = np.full(there.shape, first)
    for t in range(1, there.shape[1]):
        with np.errstate(invalid="ignore"):  # 0 times infinity, where a step forgets everything
            shrunk = np.tanh(Delta[:, t - 1] / 4) * bound[:, t - 1]
        bound[:, t] = np.fmin(Delta[:, t - 1], shrunk)
    return np.where(panel.present, bound, np.nan)
