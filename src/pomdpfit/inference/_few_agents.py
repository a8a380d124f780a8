"""Few agents: which covariances their scores cannot give, and what must be said of the others.

The sandwich and the outer products rest on a sum over agents, B = sum_i m_i m_i'. Its rank is at
most the number of agents whose scores are not zero, and one less at a maximum, where they sum to
zero; it is a useful estimate only if there are many more agents than parameters.
"""

from typing import Any

import numpy as np

from pomdpfit._panel import Panel
from pomdpfit._types import Bool, Float

_PER_PARAMETER = 2  # agents for each free parameter, below which the sandwich is not the default
FEW = 30  # agents, below which clustered standard errors are unreliable
_CLUSTERED = ("sandwich", "opg")


def fewest_agents(
    moments: Float[np.ndarray, "M p"], agents: int, size: int, *, by_agent: bool
) -> tuple[int, int, Bool[np.ndarray, "p"]]:
    """The set of parameters with the fewest agents for each: agents, parameters, coordinates.

    A set is all `size` parameters, or those about which only some agents have scores, as of a
    group's own ones. `by_agent` says that rows of `moments` are agents; sums over a data set are
    not.
    """
    found = agents, size, np.ones(moments.shape[1], dtype=bool)
    if not by_agent:
        return found
    scored = moments != 0
    informed = scored.any(axis=0)
    elsewhere = scored.T.astype(float) @ ~scored > 0  # [k, j]: an agent has k but not j
    for j in np.flatnonzero(informed):
        inside, count = informed & ~elsewhere[:, j], int(scored[:, j].sum())
        if count * found[1] < found[0] * inside.sum():
            found = count, int(inside.sum()), inside
    return found


def too_few(est: Any) -> bool:
    """Whether there are fewer than two agents for each free parameter."""
    count, size, _ = _fewest(est)
    return count < _PER_PARAMETER * size


def spanned(est: Any) -> bool:
    """Whether the outer products of agents' scores are invertible at a maximum, by their number."""
    stages = [np.ones(len(est.information.names), dtype=bool)]
    if est.information.first is not None:
        stages = [est.information.first, ~est.information.first]
    counts = (_fewest(est, stage) for stage in stages if stage.any())
    return all(count > size for count, size, _ in counts)


def error_notes(est: Any, kind: Any = None) -> tuple[str, ...]:
    """What must be said of standard errors of this kind where there are few agents."""
    agents = est.panel.scored_agents
    if not (kind is None or isinstance(kind, str)):
        few = agents < FEW and not getattr(kind, "parametric", True)
        return (clustered_note(agents),) if few else ()
    used = est.cov_type if kind is None else kind
    advice = "Use kind='hessian', or pf.bootstrap(est, parametric=True)."
    if est.information.hessian is None:
        advice = "Fit again without skip_hessian=True, and use kind='hessian'."
    if used == "opg" and not spanned(est):
        return (
            f"{_who(est)}: the outer products of their scores are singular, and there are no "
            f"standard errors of kind 'opg'. {advice}",
        )
    if used in _CLUSTERED and too_few(est):
        how = "the sandwich, clustered by agent, is unreliable, its standard errors far too small"
        if used == "opg":
            how = "standard errors from outer products of agents' scores are unreliable"
        return (f"{_who(est)}, fewer than {_PER_PARAMETER} for each: {how}. {advice}",)
    if used in _CLUSTERED and agents < FEW:
        return (clustered_note(agents),)
    if kind is None and used == "hessian" and est.information.first is not None:
        return (
            f"{_who(est)}, fewer than {_PER_PARAMETER} for each: the sandwich, the default after "
            "two stages, would be unreliable, as it is clustered by agent. These standard errors "
            "are Murphy and Topel's from second derivatives instead (kind 'hessian'), and presume "
            "that the model is right.",
        )
    return ()


def clustered_note(agents: int) -> str:
    """The line for fewer than thirty agents."""
    return (
        f"{_agents(agents)} with scored rows: standard errors clustered by agent (sandwich, outer "
        f"products, a bootstrap over agents) are unreliable below {FEW} agents. Compare "
        "kind='hessian' or pf.bootstrap(est, parametric=True)."
    )


def why_missing(
    est: Any, kind: Any, cov: Float[np.ndarray, "p p"], row: Float[np.ndarray, "p"]
) -> str:
    """Why a linear combination of the free coordinates has no standard error."""
    by_theory = kind is None or isinstance(kind, str)
    touched, flat = row != 0, est.information.unknown
    opg = by_theory and (est.cov_type if kind is None else kind) == "opg"
    reasons = {
        "the fit did not converge": kind is None and est.withheld,
        "each agent's prior was estimated": by_theory and est.incidental > 0,
        "it does not vary": not touched.any(),
        "its variance is not positive": not (np.isnan(np.diag(cov)) & touched).any(),
        "too few replicates": not by_theory,
        "too few agents": opg and not spanned(est),
        "not identified": (flat & touched).any(),
        "the first stage is not identified": flat.any(),
    }
    return next((reason for reason, holds in reasons.items() if holds), "information is singular")


def _fewest(est: Any, stage: np.ndarray | None = None) -> tuple[int, int, np.ndarray]:
    """Of all free parameters, those on a boundary included, or of those that a stage estimates."""
    moments, size = est.information.moments, est.dimension
    if stage is not None:
        moments, size = moments[:, stage], int(stage.sum())
    by_agent = isinstance(est.panel, Panel)
    return fewest_agents(moments, est.panel.scored_agents, size, by_agent=by_agent)


def _who(est: Any) -> str:
    """So many agents for so many free parameters, named where they are not all."""
    count, size, which = _fewest(est)
    if which.all():
        return f"{_agents(count)} with scored rows for {_parameters(size)}"
    names = [est.information.names[k] for k in np.flatnonzero(which)]
    more = " and others" if size > 4 else ""
    return f"{_agents(count)} with scores for {_parameters(size)} ({', '.join(names[:4])}{more})"


def _agents(count: int) -> str:
    return f"{count} agent{'' if count == 1 else 's'}"


def _parameters(count: int) -> str:
    return f"{count} free parameter{'' if count == 1 else 's'}"
