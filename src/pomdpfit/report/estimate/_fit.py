"""Fit against the data: choices by cell of z, and what the residuals of observations remember."""

import numpy as np
import pandas as pd

from pomdpfit import plots
from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._priors import AbstractPrior, KnownPrior
from pomdpfit._types import Float
from pomdpfit.baselines import MDP
from pomdpfit.baselines._mdp import checked_tables
from pomdpfit.inference._chi_square import chi_square_test
from pomdpfit.inference._serial import observation_residuals, serial_table
from pomdpfit.plots._fit import plotted_actions
from pomdpfit.plots._subject import model_of
from pomdpfit.report._blocks import Block, Figure, Section, Table, Text
from pomdpfit.report.estimate._piece import Piece, axes

_LAGS = 12
_MOST = 6  # actions with a picture


def fit_piece(estimate: Estimate) -> Piece:
    """Rust's chi-square test, its cells, and a picture for each action."""
    test = chi_square_test(estimate)
    names = plotted_actions(test)
    blocks: list[Block] = [Text((f"{test.test}",))]
    for a, name in list(enumerate(names))[1 if len(names) == 2 else 0 :][:_MOST]:
        drawing, ax = axes()
        plots.fit(test, a, ax=ax)
        caption = f"Share of {name} by cell of z, observed and predicted."
        alt = f"Dots with intervals, the observed shares of {name}, beside predicted ones."
        blocks.append(Figure(f"fit-{a}", drawing, caption, alt))
    formats = {column: ".1f" for column in test.table.columns if column != "rows"}
    blocks.append(Table("cells", test.table, "Choices by cell of z, counted.", formats))
    p = test.test.pvalue
    finding = (
        f"Choices by cell of z: chi-square({test.test.df}) {test.test.statistic:.2f}, p = {p:.3g}"
        f"{': **the model does not fit them**' if p < 0.05 else ''}."
    )
    lead = "Are choices as frequent as the model says, at each observation?"
    return Piece(Section("Fit against the data", lead, tuple(blocks)), (finding,))


def residual_piece(estimate: Estimate) -> Piece:
    """Serial dependence of what the model did not foresee in the next observation."""
    residuals = residuals_of(estimate)
    if not np.isfinite(residuals).any():
        raise EstimationError("no scored observation was uncertain: there are no residuals.")
    table = serial_table(residuals, estimate.panel, _LAGS)
    tested = table["p_value"].notna()
    failed = int((table["p_value"] < 0.05).sum())
    rows = {
        "residuals": f"{np.isfinite(residuals).sum():,}",
        "mean (0 if the model is right)": f"{np.nanmean(residuals):.3f}",
        "variance (1 if the model is right)": f"{np.nanvar(residuals):.3f}",
        "agents with enough of them to be tested": f"{tested.sum():,}",
        "of these, Ljung-Box p < 0.05": f"{failed:,}",
    }
    if tested.any():
        watson = table["durbin_watson"]
        low, middle, high = watson.min(), watson.median(), watson.max()
        rows["Durbin-Watson: lowest, median, highest"] = f"{low:.2f}, {middle:.2f}, {high:.2f}"
    summary = pd.DataFrame({"value": rows}).rename_axis("one-step residuals of z")
    drawing, ax = axes()
    plots.serial(residuals, lags=_LAGS, ax=ax)
    blocks: tuple[Block, ...] = (
        Text(
            (
                "A residual is (z' - E z') / sd z' given all that was seen before. If the hidden "
                "state is the right one, residuals of neighbouring periods are uncorrelated: "
                "Durbin-Watson is near 2, and Ljung-Box (12 lags) rejects for about one agent in "
                "twenty.",
            )
        ),
        Figure(
            "serial",
            drawing,
            "Autocorrelation of residuals over all agents, and what chance would leave.",
            "Dots by lag around zero, with a band for chance.",
        ),
        Table("residuals", summary, "Residuals of observations."),
    )
    findings: tuple[str, ...] = ()
    if tested.any():
        findings = (
            f"Ljung-Box (5 %) finds serial correlation in the observations of {failed} of "
            f"{int(tested.sum())} agents, where chance would give some {0.05 * tested.sum():.0f}.",
        )
    lead = "Is there anything left to foresee in the next observation?"
    return Piece(Section("Residual checks", lead, blocks), findings)


def residuals_of(estimate: Estimate) -> Float[np.ndarray, "N T"]:
    """One-step residuals of z at the estimate, of hidden and of fully observed models."""
    model, panel = model_of(estimate), estimate.panel
    if isinstance(model, MDP):
        return _residuals_of_mdp(estimate)
    theta = {name: estimate.theta[name] for name in estimate.space.parameters}
    prior = _first_beliefs(estimate)
    if isinstance(prior, KnownPrior):
        theta = {name: theta[name] for name in model.space().parameters}
    return observation_residuals(model, theta, panel, prior=prior)


def _first_beliefs(estimate: Estimate) -> AbstractPrior | None:
    """The prior; where it follows from the fit itself, the beliefs that it has come to."""
    prior = estimate.setting.prior
    if prior is None or not (prior.by_agent or prior.needs_policy):
        return prior
    return KnownPrior(estimate.log_likelihood().belief[:, 0])


def _residuals_of_mdp(estimate: Estimate) -> Float[np.ndarray, "N T"]:
    panel = estimate.panel
    P = checked_tables(estimate.model, estimate.theta, estimate.space).transition
    z = np.arange(len(P))
    mean = P @ z
    variance = np.maximum(P @ z**2 - mean**2, 0.0)
    known = panel.score_observation & (variance[panel.z, panel.a] > 1e-12)
    scale = np.sqrt(np.where(known, variance[panel.z, panel.a], 1.0))
    following = np.roll(panel.z, -1, axis=1)
    return np.where(known, (following - mean[panel.z, panel.a]) / scale, np.nan)
