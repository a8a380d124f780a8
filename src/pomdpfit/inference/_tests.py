"""Tests of hypotheses and of fit: likelihood ratio, score, Vuong, chi-square."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from pomdpfit._entries import free_entries
from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import difference, panel_fingerprint
from pomdpfit._test_result import TestResult


def refuse_different_data(estimates: Sequence[Estimate]) -> None:
    """Raise, with what differs, unless all were scored on the same rows of the same data."""
    first = panel_fingerprint(estimates[0].panel)
    for k, other in enumerate(estimates[1:], 2):
        # A covariate that only one of the models reads does not change what is scored.
        names = [
            n for n in difference(first, panel_fingerprint(other.panel)) if "covariate" not in n
        ]
        if names:
            raise EstimationError(
                f"estimates 1 and {k} were scored on different data: they differ in "
                f"{', '.join(names)} ({estimates[0].panel} against {other.panel}). Fit them to the "
                "same panel with the same masks."
            )


def likelihood_ratio_test(restricted: Estimate, full: Estimate) -> TestResult:
    """2 (l_full - l_restricted), chi-square in the number of restrictions; for joint estimates."""
    refuse_different_data([restricted, full])
    for name, estimate in (("restricted", restricted), ("full", full)):
        if estimate.information.first is not None:
            raise EstimationError(
                f"the {name} estimate is a two-stage one, which does not maximise the likelihood: "
                "its ratio has no chi-square distribution. Fit with pf.Joint()."
            )
        if not estimate.converged:
            raise EstimationError(f"the {name} estimate has not converged: {estimate.reason}")
    df = full.df_model - restricted.df_model
    if df <= 0:
        raise EstimationError(
            f"the restricted model must have fewer parameters, but it has {restricted.df_model} "
            f"against {full.df_model}."
        )
    statistic = 2 * (full.llf - restricted.llf)
    if statistic < -1e-4:
        raise EstimationError(
            f"the full model has a lower log-likelihood ({full.llf:.4f}) than the restricted one "
            f"({restricted.llf:.4f}): the models are not nested, or a higher maximum of the full "
            "one was missed. Start it from the restricted estimate."
        )
    note = ""
    if full.on_boundary or restricted.on_boundary:
        note = "A parameter is on its boundary, so the p-value is only approximate."
    hypothesis = "; ".join([*restricted.restrictions, *restricted.fixed]) or "the restricted model"
    statistic = max(statistic, 0.0)
    p = float(stats.chi2.sf(statistic, df))
    return TestResult("Likelihood-ratio test", hypothesis, statistic, df, p, note)


def score_test(restricted: Estimate, free: Sequence[str] = ()) -> TestResult:
    """Score (Lagrange multiplier) test of the restrictions of a joint estimate, at that estimate.

    With the agents' scores S in all parameters, 1'S (S'S)^-1 S'1. Tested are the constraints and
    fixed values that the fit was given, and the parameters in `free` that the model itself fixes.
    """
    if restricted.information.first is not None:
        raise EstimationError("the score test is for joint estimates: fit with pf.Joint().")
    leaves = [name for name in restricted.fixed if name in restricted.space.parameters]
    space = restricted.space.free(*leaves, *free)
    likelihood = restricted.setting.likelihood(space)
    names = [name for name, p in space.parameters.items() if not p.fixed]
    entries = free_entries(space, names, restricted.theta)
    phi = entries.flatten(restricted.theta)
    held = np.array([name in restricted.boundary for name in entries.names])
    if (entries.at_bound(phi) & ~held).any():
        where = np.array(entries.names)[entries.at_bound(phi) & ~held][0]
        raise EstimationError(
            f"{where} is held at its bound: a score test there has no chi-square distribution."
        )
    chart = entries.chart(phi, held=held)
    df = len(chart.independent) - len(restricted.information.names)
    if df <= 0:
        raise EstimationError(
            "there is nothing to test: the fit had no constraints and no fixed values of the "
            "user's. Name the parameters to let go, as in free=['discount']."
        )
    scores = likelihood.push(restricted.theta, entries.split(chart.jacobian.T))[1].sum(axis=1)
    total = scores.sum(axis=0)
    scale = np.sqrt((scores**2).sum(axis=0))
    outer = (scores / scale).T @ (scores / scale)
    statistic = float((total / scale) @ np.linalg.solve(outer, total / scale))
    hypothesis = "; ".join([*restricted.restrictions, *leaves, *free])
    return TestResult("Score test", hypothesis, statistic, df, float(stats.chi2.sf(statistic, df)))


def vuong_test(first: Estimate, second: Estimate, correction: str | None = None) -> TestResult:
    """Which of two models that are not nested lies nearer to the truth, by agents' likelihoods.

    z = sum_i d_i / (sqrt(N) sd(d)), d_i = l_1i - l_2i; positive if the first is nearer.
    `correction` "aic" or "bic" takes the difference in the number of parameters into account.
    """
    refuse_different_data([first, second])
    gap = (first.terms - second.terms).sum(axis=1)
    N, k = len(gap), first.df_model - second.df_model
    penalties = {None: 0.0, "aic": float(k), "bic": 0.5 * k * np.log(first.nobs)}
    if correction not in penalties:
        raise EstimationError(f"correction must be None, 'aic' or 'bic', not {correction!r}.")
    spread = gap.std()
    if N < 2 or spread <= 1e-10 * max(1.0, np.abs(first.terms).max()):
        raise EstimationError(
            "the two models give every agent the same likelihood: they cannot be told apart."
        )
    statistic = float((gap.sum() - penalties[correction]) / (np.sqrt(N) * spread))
    note = "Positive: the first is nearer." if statistic > 0 else "Negative: the second is nearer."
    p = float(2 * stats.norm.sf(abs(statistic)))
    return TestResult("Vuong test", "equal distance to the truth", statistic, None, p, note)


@dataclasses.dataclass(frozen=True, eq=False)
class FitTest:
    """A chi-square test of fit and the table behind it."""

    test: TestResult
    table: pd.DataFrame

    def __str__(self) -> str:
        return f"{self.test}\n{self.table.to_string(float_format='%.2f')}"


def chi_square_test(estimate: Estimate, cells: int | Sequence[int] = 8) -> FitTest:
    """Rust's test of fit: observed against predicted choices, in cells of z.

    m_i collects agent i's (chosen - predicted) by cell and action (the last one left out). Since
    theta was estimated, m_i is replaced by m_i - E[m s'] A^-1 psi_i, where psi are the estimating
    equations and A their derivative (Andrews): the sum is then chi-square with the rank of its
    covariance. `cells` is a number (of about equal counts of rows) or the first z of each cell.
    """
    panel = estimate.panel
    likelihood = estimate.setting.likelihood(estimate.space)
    _, choice = likelihood.choice_probabilities(estimate.theta)
    edges = _edges(panel.z[panel.score_choice], cells)
    cell = np.searchsorted(edges, panel.z, side="right") - 1
    A, N = choice.shape[-1], panel.agent_count
    chosen = np.eye(A)[panel.a]
    gap = np.where(panel.score_choice[..., None], chosen - choice, 0.0)
    count, moments = len(edges), []
    rows = []
    for k in range(count):
        here = (cell == k) & panel.score_choice
        moments.append(np.where(here[..., None], gap, 0.0).sum(axis=1)[:, : A - 1])
        rows.append((chosen[here].sum(axis=0), choice[here].sum(axis=0), here.sum()))
    m = np.concatenate(moments, axis=1)
    information = estimate.information
    corrected = m
    if len(information.names):
        slope = m.T @ information.scores.sum(axis=1)
        corrected = m - information.moments @ np.linalg.solve(information.bread, slope.T)
    V = corrected.T @ corrected
    scale = np.sqrt(np.maximum(np.diag(V), 1e-300))
    values, vectors = np.linalg.eigh(V / np.outer(scale, scale))
    kept = values > 1e-8 * values[-1]
    along = vectors[:, kept].T @ (m.sum(axis=0) / scale)
    statistic, df = float((along**2 / values[kept]).sum()), int(kept.sum())
    labels = getattr(estimate.model, "action_labels", lambda: None)() or range(A)
    table = _fit_table(edges, rows, [str(label) for label in labels])
    note = f"{N} agents, {count} cells of z."
    p = float(stats.chi2.sf(statistic, df))
    return FitTest(
        TestResult("Chi-square test", "fit of the choices", statistic, df, p, note), table
    )


def _edges(z: np.ndarray, cells: int | Sequence[int]) -> np.ndarray:
    """The first z of each cell."""
    if isinstance(cells, int | np.integer):
        inner = np.quantile(z, np.arange(1, cells) / cells, method="higher")
        return np.unique(np.concatenate([[0], inner])).astype(int)
    edges = np.unique(np.asarray(cells, dtype=int))
    return edges if edges[0] == 0 else np.concatenate([[0], edges])


def _fit_table(edges: np.ndarray, rows: list, labels: list[str]) -> pd.DataFrame:
    """Counts by cell: observed and predicted for each action."""
    ends = [f"{low}..{high - 1}" for low, high in itertools.pairwise(edges)]
    frame = pd.DataFrame(index=pd.Index([*ends, f"{edges[-1]}.."], name="z"))
    frame["rows"] = [row[2] for row in rows]
    for a, label in enumerate(labels):
        frame[f"{label}: observed"] = [row[0][a] for row in rows]
        frame[f"{label}: predicted"] = [row[1][a] for row in rows]
    return frame
