"""From the best path to an estimate: boundary, chart, scores, Hessian, verdict, tables."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from pomdpfit._entries import free_entries
from pomdpfit._errors import Result
from pomdpfit._estimate import Estimate
from pomdpfit._log_likelihood import AbstractLikelihood, LogLikelihood
from pomdpfit._priors import labels_of
from pomdpfit._restrictions import Restrictions
from pomdpfit._setting import Setting
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.estimators._flat import flat_directions
from pomdpfit.estimators._kinks import on_kinks
from pomdpfit.estimators._modes import maxima
from pomdpfit.estimators._objective import Scores
from pomdpfit.estimators._paths import Path
from pomdpfit.estimators._tables import mode_table, parts_at, start_table
from pomdpfit.estimators._verdict import verdict
from pomdpfit.inference._information import Information, information_at, scores_along


def finish(
    likelihood: AbstractLikelihood,
    setting: Setting,
    restrictions: Restrictions | None,
    ranked: Sequence[Path],
    ended: Sequence[Path],
    begun: Sequence[Path],
    *,
    hessian: bool,
) -> Estimate:
    """The highest of the ranked paths, with all that is to be said of it."""
    space, best = likelihood.space, ranked[0]
    entries = free_entries(space, space.free_leaves, best.theta, restrictions)
    phi = entries.flatten(best.theta)
    bound = entries.at_bound(phi)
    # Entries further back follow from those before them: the last of a row is the derived one.
    order = np.arange(len(phi), dtype=float)
    chart = entries.chart(phi, held=bound, priority=order)
    whole = chart  # with entries on bounds, if scores can tell anything of these
    if bound.any():
        whole = entries.chart(phi, priority=order)
        if len(whole.independent) >= likelihood.panel.scored_agents:
            whole = chart
    first = None
    if setting.estimator.by_stages:
        owners = space.only(entries.leaves).owners
        first = np.array([owners[k] in likelihood.dynamics for k in chart.independent], dtype=bool)
    last = best.climbs[-1]
    if last.scores is not None and np.array_equal(last.phi, phi):  # not under other names
        known, terms = last.scores, likelihood.terms(best.theta, start=best.warm)
        scores = known.along(chart.jacobian)
    else:
        terms, parts = scores_along(likelihood, entries, best.theta, whole, best.warm)
        known = Scores(whole.jacobian, parts)
        scores = parts if whole is chart else known.along(chart.jacobian)
    information = information_at(
        likelihood, entries, best.theta, chart, first, terms.start, scores, hessian=hessian
    )
    stages = setting.estimator.stages(likelihood)
    stages = stages if setting.estimator.by_stages else stages[-1:]
    directions = functools.partial(flat_directions, likelihood, restrictions, stages)
    if whole is not chart:
        ridge = directions(best, known)
        if ridge.shape[1]:
            information = dataclasses.replace(information, ridge=ridge)
    result, reason = verdict(best.decisive(setting.estimator), information)
    found = _maxima(likelihood, ranked, setting.estimator, directions, information)
    if information.not_identified and len(found[0].origins) > 1:
        reason += (
            f" {len(found[0].origins)} of {len(begun)} starts ended with this log-likelihood: on "
            "one ridge, not on several maxima."
        )
    values = [terms.parts().sum(axis=0), *(parts_at(likelihood, path) for path in found[1:])]
    if not setting.estimator.by_stages:
        reason = " ".join(filter(None, [reason, on_kinks(likelihood, entries.leaves, result)]))
    pinned = entries.pinned()
    priors = _agent_priors(likelihood, setting, terms)
    return Estimate(
        setting=setting,
        theta={name: np.asarray(leaf) for name, leaf in best.theta.items()},
        space=space,
        restrictions=() if restrictions is None else restrictions.texts,
        terms=terms.parts(),
        information=information,
        boundary=tuple(entries.names[k] for k in np.flatnonzero(bound & ~pinned)),
        derived=tuple(entries.names[k] for k in chart.dependent if not pinned[k]),
        result=result,
        reason=reason,
        steps=sum(climb.steps for climb in best.climbs),
        gain=best.climbs[-1].gain,
        dimension=len(entries.chart(phi).independent),
        incidental=0 if priors is None else priors.shape[0] * (priors.shape[1] - 1),
        modes=mode_table(
            likelihood,
            found,
            values,
            setting.estimator,
            converged=result is Result.CONVERGED,
        ),
        starts=start_table(likelihood, found, values, ended, begun, setting.estimator, result),
        traces=tuple((climb.trace, climb.norms) for climb in best.climbs),
        agent_priors=priors,
    )


def _agent_priors(
    likelihood: AbstractLikelihood, setting: Setting, terms: LogLikelihood
) -> pd.DataFrame | None:
    """The prior of each agent, where each has its own."""
    if likelihood.prior is None or not likelihood.prior.by_agent:
        return None
    index = pd.Index(likelihood.panel.agents, name="agent", tupleize_cols=False)
    names = labels_of(setting.model, likelihood.states)
    return pd.DataFrame(terms.belief[:, 0], index, names)


def _maxima(
    likelihood: AbstractLikelihood,
    ranked: Sequence[Path],
    estimator: AbstractEstimator,
    directions: Callable[[Path], np.ndarray],
    information: Information,
) -> list[Path]:
    """The estimate's path and the other maxima; what is flat is known of the first."""
    by_origin = {path.origins[0]: path for path in ranked[1:]}

    @functools.cache
    def flat(origin: str) -> bool:
        if origin == ranked[0].origins[0]:
            return information.not_identified
        return directions(by_origin[origin]).shape[1] > 0

    return maxima(likelihood.space, ranked, estimator, lambda path: flat(path.origins[0]))
