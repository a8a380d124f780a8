"""From the best path to an estimate: boundary, chart, scores, Hessian, verdict, tables."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pomdpfit._entries import free_entries
from pomdpfit._estimate import Estimate
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._priors import labels_of
from pomdpfit._restrictions import Restrictions
from pomdpfit._setting import Setting
from pomdpfit.estimators._flat import flat_off_bounds
from pomdpfit.estimators._kinks import on_kinks
from pomdpfit.estimators._objective import Scores
from pomdpfit.estimators._paths import Path
from pomdpfit.estimators._tables import mode_table, start_table
from pomdpfit.estimators._verdict import verdict
from pomdpfit.inference._information import information_at, scores_along


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
    off_bounds: tuple[str, ...] = ()
    if whole is not chart:
        stages = setting.estimator.stages(likelihood)
        stages = stages if setting.estimator.by_stages else stages[-1:]
        off_bounds = flat_off_bounds(likelihood, restrictions, stages, best, whole, known)
    result, reason = verdict(best.decisive(setting.estimator), information, off_bounds)
    if not setting.estimator.by_stages:
        reason = " ".join(filter(None, [reason, on_kinks(likelihood, entries.leaves, result)]))
    dimension = len(entries.chart(phi).independent)
    own = likelihood.panel.agent_count * (likelihood.states - 1)
    priors = None
    if likelihood.prior is not None and likelihood.prior.by_agent:
        index = pd.Index(likelihood.panel.agents, name="agent", tupleize_cols=False)
        priors = pd.DataFrame(
            terms.belief[:, 0], index, labels_of(setting.model, likelihood.states)
        )
    return Estimate(
        setting=setting,
        theta={name: np.asarray(leaf) for name, leaf in best.theta.items()},
        space=space,
        restrictions=() if restrictions is None else restrictions.texts,
        terms=terms.parts(),
        information=information,
        boundary=tuple(entries.names[k] for k in np.flatnonzero(bound)),
        derived=tuple(entries.names[k] for k in chart.dependent),
        result=result,
        reason=reason,
        steps=sum(climb.steps for climb in best.climbs),
        gain=best.climbs[-1].gain,
        dimension=dimension,
        incidental=0 if priors is None else own,
        modes=mode_table(likelihood, ranked, terms.parts().sum(axis=0), setting.estimator),
        starts=start_table(likelihood, ranked, ended, begun),
        traces=tuple((climb.trace, climb.norms) for climb in best.climbs),
        agent_priors=priors,
    )
