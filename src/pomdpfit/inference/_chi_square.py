"""Rust's chi-square test of fit: observed against predicted choices, in cells of z."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pomdpfit import _labels
from pomdpfit._entries import free_entries
from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._test_result import TestResult, chi_square_p
from pomdpfit._types import Float
from pomdpfit.inference._few_agents import too_few
from pomdpfit.inference._information import Information, step_sizes
from pomdpfit.inference._tests import refuse_unfinished

_RANK = 1e-8  # of the largest eigenvalue; what vanishes by construction is near 1e-15


@dataclasses.dataclass(frozen=True, eq=False)
class FitTest:
    """A chi-square test of fit and the table behind it."""

    test: TestResult
    table: pd.DataFrame

    def __str__(self) -> str:
        return f"{self.test}\n{self.table.to_string(float_format='%.2f')}"


def chi_square_test(estimate: Estimate, cells: int | Sequence[int] = 8) -> FitTest:
    """Rust's test of fit: observed against predicted choices, in cells of z.

    m collects (chosen - predicted) by cell and action (the last one left out). Given z and x a
    choice has the covariance diag(pi) - pi pi', so that Var m = V, Cov(m, choice scores) = D =
    d predicted / d theta, and that of the choice scores is J = sum d_pi d_pi' / pi. Since theta was
    estimated, m is about m0 - D A^-1 psi, with psi the estimating equations and A their derivative
    (Andrews 1988): m' W^- m is chi-square with the rank of W, the covariance of that. All of these
    are the model's own: outer products of residuals are worthless where a choice is rare.

    `cells` is a number (of about equal counts of rows) or the first z of each cell.
    """
    refuse_unfinished(estimate, "tested")
    panel = estimate.panel
    likelihood = estimate.setting.likelihood(estimate.space)
    _, choice = likelihood.choice_probabilities(estimate.theta)
    edges = _edges(panel.z[panel.score_choice], cells)
    i, t = np.nonzero(panel.score_choice)
    cell = np.searchsorted(edges, panel.z[i, t], side="right") - 1
    chosen, predicted = np.eye(choice.shape[-1])[panel.a[i, t]], choice[i, t]
    slopes = _choice_slopes(estimate, likelihood)[:, i, t]
    m = _by_cell(chosen - predicted, cell, len(edges)).ravel()
    few = too_few(estimate)
    W = _covariance(estimate.information, predicted, slopes, cell, len(edges), few)
    unit = 1.0 / np.sqrt(np.maximum(_by_cell(predicted, cell, len(edges)).ravel(), 1e-300))
    values, vectors = np.linalg.eigh(W * np.outer(unit, unit))
    kept = values > _RANK * values[-1]
    along = vectors[:, kept].T @ (m * unit)
    statistic, df = float((along**2 / values[kept]).sum()), int(kept.sum())
    labels = _labels.action_names(estimate.model, choice.shape[-1], panel)
    readings = _labels.observation_names(estimate.model, int(panel.z.max()) + 1, panel)
    table = _fit_table(_cell_names(edges, readings), cell, chosen, predicted, labels)
    note = f"{panel.agent_count} agents, {len(edges)} cells of z."
    p = chi_square_p(statistic, df)
    return FitTest(
        TestResult("Chi-square test", "fit of the choices", statistic, df, p, note), table
    )


def _by_cell(rows: Float[np.ndarray, "n A"], cell: np.ndarray, count: int) -> np.ndarray:
    """Sums over the rows of each cell, (count, A - 1)."""
    sums = np.zeros((count, rows.shape[1] - 1))
    np.add.at(sums, cell, rows[:, :-1])
    return sums


def _choice_slopes(estimate: Estimate, likelihood: AbstractLikelihood) -> np.ndarray:
    """d pi / d theta of every row in the free coordinates, (p, N, T, A), by central differences."""
    information, space = estimate.information, estimate.space
    entries = free_entries(space, space.free_leaves, estimate.theta, estimate.parsed_restrictions)
    phi = entries.flatten(estimate.theta)
    steps = step_sizes(information, entries, phi, estimate.panel.scored_agents)
    start = likelihood.terms(estimate.theta).start

    def at(moved: np.ndarray) -> np.ndarray:
        theta = entries.insert(moved, estimate.theta)
        return likelihood.choice_probabilities(theta, start=start)[1]

    slopes = [
        (at(phi + change) - at(phi - change)) / (2 * step)
        for step, change in zip(steps, steps[:, None] * information.jacobian.T, strict=True)
    ]
    return np.array(slopes).reshape(len(slopes), *at(phi).shape)


def _covariance(
    information: Information,
    predicted: Float[np.ndarray, "n A"],
    slopes: Float[np.ndarray, "p n A"],
    cell: np.ndarray,
    count: int,
    few: bool,
) -> Float[np.ndarray, "q q"]:
    """W: what is left of V once theta has been fitted, and what a first stage adds.

    The information of the observations is the outer product of agents' scores; with few agents it
    is that of second derivatives, if there are any.
    """
    A = predicted.shape[1]
    V = np.zeros((count, A - 1, count, A - 1))
    mean = _by_cell(predicted, cell, count)
    for k in range(count):
        here = predicted[cell == k][:, :-1]
        V[k, :, k] = np.diag(mean[k]) - here.T @ here
    V = V.reshape(count * (A - 1), -1)
    if not information.names:
        return V
    D = np.array([_by_cell(slope, cell, count).ravel() for slope in slopes]).T
    possible = predicted > 0
    root = np.divide(slopes, np.sqrt(predicted), where=possible, out=np.zeros_like(slopes))
    J = np.einsum("pna,qna->pq", root, root)
    scores, hessian = information.scores[:, 0], information.hessian if few else None
    if information.first is None:
        both = J + scores.T @ scores if hessian is None else -hessian
        return V - D @ _solved(both, D.T)
    first, second = information.first, ~information.first
    of_rewards = _solved(J[np.ix_(second, second)], D[:, second].T)
    W = V - D[:, second] @ of_rewards
    G = D[:, first] - of_rewards.T @ J[np.ix_(second, first)]
    of_dynamics = scores[:, first].T @ scores[:, first]
    if hessian is not None:
        of_dynamics = -hessian[np.ix_(first, first)]
    return W + G @ _solved(of_dynamics, G.T)


def _solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A^-1 b in scaled units."""
    if A.size == 0:
        return b
    unit = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-300))
    scaled = A * np.outer(unit, unit)
    if np.linalg.cond(scaled) > 1e13:
        raise EstimationError(
            "a test of fit needs the information on every parameter, but the choices and the "
            "agents' observation scores do not span them: there are too few agents."
        )
    return unit[:, None] * np.linalg.solve(scaled, unit[:, None] * b)


def _edges(z: np.ndarray, cells: int | Sequence[int]) -> np.ndarray:
    """The first z of each cell."""
    if isinstance(cells, int | np.integer):
        if cells < 1:
            raise EstimationError(f"there must be at least one cell, not {cells}.")
        inner = np.quantile(z, np.arange(1, cells) / cells, method="higher")
        return np.unique(np.concatenate([[0], inner])).astype(int)
    return np.unique(np.concatenate([[0], np.asarray(cells, dtype=int)]))


def _cell_names(edges: np.ndarray, readings: Sequence[str]) -> list[str]:
    """Each cell by the names of its first and its last z; the last cell has no end."""
    called = lambda z: readings[z] if z < len(readings) else str(z)
    names = [
        f"{called(low)}..{called(high - 1)}" if high - low > 1 else called(low)
        for low, high in itertools.pairwise(edges)
    ]
    return [*names, f"{called(edges[-1])}.."]


def _fit_table(
    cells: list[str],
    cell: np.ndarray,
    chosen: Float[np.ndarray, "n A"],
    predicted: Float[np.ndarray, "n A"],
    labels: Sequence[str],
) -> pd.DataFrame:
    """Counts by cell: observed and predicted for each action."""
    frame = pd.DataFrame(index=pd.Index(cells, name="z"))
    count = lambda weights: np.bincount(cell, weights, minlength=len(cells))
    frame["rows"] = np.bincount(cell, minlength=len(cells))
    for a, label in enumerate(labels):
        frame[f"{label}: observed"] = count(chosen[:, a])
        frame[f"{label}: predicted"] = count(predicted[:, a])
    return frame
