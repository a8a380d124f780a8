"""Tests of hypotheses and between models: likelihood ratio, score, Vuong."""

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtri, ndtr

from pomdpfit._entries import free_entries
from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import difference, panel_fingerprint
from pomdpfit._panel import Panel
from pomdpfit._test_result import TestResult, chi_square_p
from pomdpfit.inference._few_agents import FEW
from pomdpfit.inference._nested import (
    nested,
    same_model,
    same_restrictions,
    values_on_bounds,
    without_chi_square,
)

_ALIKE = 1e-6  # of the sum of squares of the agents' differences, which estimation leaves near one


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


def refuse_unfinished(estimate: Estimate, name: str) -> None:
    """Raise unless the estimate is a maximum, which tests at it presume."""
    if not estimate.converged:
        raise EstimationError(f"the {name} estimate has not converged: {estimate.reason}")


def likelihood_ratio_test(restricted: Estimate, full: Estimate) -> TestResult:
    """2 (l_full - l_restricted), chi-square in the number of restrictions; for joint estimates."""
    refuse_different_data([restricted, full])
    why = without_chi_square(restricted, full)
    if why:
        raise EstimationError(f"the restricted model is a special case of the full one: {why}.")
    for name, estimate in (("restricted", restricted), ("full", full)):
        if estimate.information.first is not None:
            raise EstimationError(
                f"the {name} estimate is a two-stage one, which does not maximise the likelihood: "
                "its ratio has no chi-square distribution. Fit with pf.Joint()."
            )
        refuse_unfinished(estimate, name)
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
    elif ends := values_on_bounds(restricted, full):
        note = (
            f"The restriction puts {', '.join(ends)} on its bound, where the ratio's law is a "
            "mixture of chi-squares with fewer degrees of freedom: the p-value is an upper limit."
        )
    hypothesis = "; ".join([*restricted.restrictions, *restricted.fixed]) or "the restricted model"
    statistic = max(statistic, 0.0)
    p = chi_square_p(statistic, df)
    return TestResult("Likelihood-ratio test", hypothesis, statistic, df, p, note)


def score_test(restricted: Estimate, free: Sequence[str] = ()) -> TestResult:
    """Score (Lagrange multiplier) test of the restrictions of a joint estimate, at that estimate.

    With the agents' scores S in all parameters, 1'S (S'S)^-1 S'1. Tested are the constraints and
    fixed values that the fit was given, and the parameters in `free` that the model itself fixes.
    """
    if restricted.information.first is not None:
        raise EstimationError("the score test is for joint estimates: fit with pf.Joint().")
    refuse_unfinished(restricted, "restricted")
    leaves = [name for name in restricted.fixed if name in restricted.space.parameters]
    space = restricted.space.free(*leaves, *free)
    likelihood = restricted.setting.likelihood(space)
    entries = free_entries(space, space.free_leaves, restricted.theta)
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
    agents, size = restricted.panel.scored_agents, len(chart.independent)
    if agents <= size:
        raise EstimationError(
            f"a score test needs more agents than parameters, but there are {agents} agents with "
            f"scored rows for {size} parameters: the outer products of their scores are singular, "
            f"or the statistic is {agents} whatever the data. Fit without the restrictions too, "
            "and use pf.likelihood_ratio_test."
        )
    note = ""
    if agents < max(FEW, 2 * size):
        note = (
            f"The outer products of the scores of {agents} agents, for {size} parameters, are "
            "unreliable: compare pf.likelihood_ratio_test."
        )
    scores = likelihood.push(restricted.theta, entries.split(chart.jacobian.T))[1].sum(axis=1)
    total = scores.sum(axis=0)
    if not isinstance(restricted.panel, Panel):  # rows with the outer products of agents' scores
        ones = np.broadcast_to(1.0, (restricted.panel.agent_count, 2))
        _, tree = likelihood.pull(restricted.theta, ones, entries.leaves)
        total = entries.flatten(tree) @ chart.jacobian
    scale = np.sqrt((scores**2).sum(axis=0))
    outer = (scores / scale).T @ (scores / scale)
    statistic = float((total / scale) @ np.linalg.solve(outer, total / scale))
    hypothesis = "; ".join([*restricted.restrictions, *leaves, *free])
    p = chi_square_p(statistic, df)
    return TestResult("Score test", hypothesis, statistic, df, p, note)


def _refuse_nested(first: Estimate, second: Estimate) -> None:
    """Raise where one model is known to be a special case of the other, with what to do instead."""
    if same_model(first, second) and same_restrictions(first, second):
        raise EstimationError(
            "both are fits of one model under the same restrictions: they cannot be told apart. "
            "Compare their log-likelihoods."
        )
    for small, large, words in (
        (first, second, "first model is a special case of the second"),
        (second, first, "second model is a special case of the first"),
    ):
        why = without_chi_square(small, large)
        if nested(small, large):
            why = "use pf.likelihood_ratio_test(restricted, full), of joint fits, instead"
        if why:
            raise EstimationError(
                f"the {words}, and Vuong's statistic of nested models is not normal: {why}."
            )


def vuong_test(first: Estimate, second: Estimate, correction: str | None = None) -> TestResult:
    """Which of two models that are not nested lies nearer to the truth, by agents' likelihoods.

    z = sum_i d_i / (sqrt(N) sd(d)), d_i = l_1i - l_2i; positive if the first is nearer.
    `correction` "aic" or "bic" takes the difference in the number of parameters into account.

    Of nested models z is not normal: with one restriction that is true it is half the absolute
    value of a normal variable, and |z| > 1.96 in .01 % of samples. They are refused where the
    package knows that they are nested, which it does of restrictions, groups, priors and ready
    models with fewer hidden states; of other models it is for you to know. Models that fit alike
    are refused, and the note says where they hardly differ.
    """
    refuse_different_data([first, second])
    _refuse_nested(first, second)
    if not isinstance(first.panel, Panel):
        raise EstimationError(
            "Vuong's test needs the likelihood of each agent, of which a data set that is streamed "
            "keeps sums alone: fit both models to a part of it, scan.sample(1000, seed=0)."
        )
    gap = (first.terms - second.terms).sum(axis=1)[first.panel.scored]
    N, k = len(gap), first.df_model - second.df_model
    penalties = {None: 0.0, "aic": float(k), "bic": 0.5 * k * np.log(first.nobs)}
    if correction not in penalties:
        raise EstimationError(f"correction must be None, 'aic' or 'bic', not {correction!r}.")
    spread, apart = gap.std(), float(((gap - gap.mean()) ** 2).sum())
    if N < 2 or apart <= _ALIKE or spread <= 1e-10 * np.abs(first.terms).max():
        raise EstimationError(
            "the two models give every agent the same likelihood: they cannot be told apart."
        )
    statistic = float((gap.sum() - penalties[correction]) / (np.sqrt(N) * spread))
    note = "Positive: the first is nearer." if statistic > 0 else "Negative: the second is nearer."
    note += " It presumes that neither model is a special case of the other."
    # Of well specified models that fit alike the sum has a law below this chi-square (Vuong 1989).
    chance = float(chdtri(first.df_model + second.df_model, 0.05))
    if apart < chance:
        note += (
            f" The agents' log-likelihoods hardly differ (sum of squares {apart:.3g}; estimation "
            f"alone explains up to {chance:.3g}): both may be one and the same law, and then the "
            "p-value does not hold."
        )
    if N < FEW:
        note += f" The normal distribution is unreliable with {N} agents, below {FEW}."
    p = float(2 * ndtr(-abs(statistic)))
    return TestResult("Vuong test", "equal distance to the truth", statistic, None, p, note)
