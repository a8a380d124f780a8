"""identify(): can these data tell these parameters apart?"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pomdpfit._errors import ModelError
from pomdpfit._estimate import Estimate
from pomdpfit._model import Model, require_model
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior, CommonPrior, KnownPrior
from pomdpfit._schemes import AbstractScheme, Linear
from pomdpfit._types import Float, Theta
from pomdpfit.identification.rank._designs import Design
from pomdpfit.identification.rank._evidence import Evidence, Question, ask, evidence
from pomdpfit.identification.rank._identification import Identification
from pomdpfit.identification.rank._invisible import Invisible, invisible_moves
from pomdpfit.identification.rank._local_rank import Rank, local_rank
from pomdpfit.identification.rank._mirrors import mirrors
from pomdpfit.identification.rank._normalised import normalised
from pomdpfit.identification.rank._singular_kernels import singular_kernels

# Rounding leaves 1e-16 in the observation terms. Choices carry the belief grid's error: in moves
# that cannot show some 1e-12 on the default smooth grid, 1e-5 on a linear one, more on coarse ones;
# so moves that are known not to show are taken out.
_ROUNDING, _SMOOTH, _LINEAR = 1e-10, 1e-8, 1e-4
_FEW = 10  # observations at which agents could all be first seen, when remedies are tried


@in_float64
def identify(
    model: Model | Estimate,
    theta: Theta | None = None,
    data: Design | Panel | None = None,
    *,
    prior: AbstractPrior | None = None,
    free: str | Sequence[str] = (),
    fixed: str | Sequence[str] = (),
    grid: AbstractScheme | None = None,
    tolerance: float | None = None,
    limit: int = 20_000,
    seed: int = 0,
) -> Identification:
    """What can be told apart, around theta, from data such as these: a report.

    model, theta  a model and where to look; or an estimate, with its panel and prior
    data          a `pf.Design` (periods, first observations), or a panel
    prior         as in `fit`; a `KnownPrior` with several rows stands for as many kinds of agent
    free, fixed   parameters to count as unknown (the discount, say) and as known
    tolerance     singular values below it, relative to the largest, count as zero; by default what
                  rounding and the belief grid leave
    limit         the most sequences to list one by one; beyond it they are simulated (`seed`)
    """
    names = {"free": free, "fixed": fixed}
    freed, held = ([given] if isinstance(given, str) else [*given] for given in names.values())
    if isinstance(theta, Design | Panel):  # identify(est, design)
        theta, data = None, theta
    if isinstance(model, Estimate):
        estimate = model
        _refuse_restrictions(estimate)
        theta = estimate.theta if theta is None else theta
        data = estimate.panel if data is None else data
        prior = estimate.setting.prior if prior is None else prior
        grid = estimate.setting.grid if grid is None else grid
        held += estimate.fixed
        freed += estimate.freed
        model = estimate.model
    require_model(model)
    assert isinstance(model, Model)
    if theta is None or data is None:
        raise ModelError("identify needs theta and a pf.Design or a pf.Panel.")
    question = ask(model, theta, prior, grid, tuple(freed), tuple(held))
    found = evidence(question, data, limit, seed)
    answer = answered(question, found, tolerance)
    return Identification(
        question=question,
        data=data,
        evidence=found,
        observations=answer.observations,
        everything=answer.everything,
        invisible_observations=answer.invisible_observations,
        invisible=answer.invisible,
        kernels=singular_kernels(
            model, question.primitives, data if isinstance(data, Panel) else None
        ),
        mirrors=mirrors(question, _priors_that_stay(question, found)),
        normalised=normalised(question, found, answer.everything),
        remedies=_remedies(question, data, answer, tolerance, limit, seed),
    )


def _refuse_restrictions(estimate: Estimate) -> None:
    if estimate.restrictions:
        raise ModelError(
            "the estimate has restrictions between entries "
            f"({'; '.join(estimate.restrictions[:3])}), which a rank over whole parameters does "
            "not know: use identify(model, theta, panel, fixed=[...])."
        )


class _Answer(NamedTuple):
    """Ranks, and what no data could show of what they lack."""

    observations: Rank | None
    invisible_observations: Invisible | None
    everything: Rank
    invisible: Invisible | None


def answered(question: Question, found: Evidence, tolerance: float | None) -> _Answer:
    """Of the dynamics by observations alone (None if they are all known), and of all by all."""
    space = found.likelihood.space
    leaves = [name for name in space.free_leaves if name in found.likelihood.dynamics]
    observations, unseen = None, None
    if leaves:
        scores = found.scores[:, :, 0][..., _columns(space, leaves)]
        what = "Dynamics, from observations alone"
        least = _ROUNDING if tolerance is None else tolerance
        observations = local_rank(what, scores, found.weights, space.only(leaves), least)
        unseen = _explained(question, found, observations, space.only(leaves), choices=False)
    coarse = isinstance(question.grid, Linear) and question.primitives.states > 1
    least = (_LINEAR if coarse else _SMOOTH) if tolerance is None else tolerance
    what, scores = "All parameters, from observations and choices", found.scores.sum(axis=2)
    everything = local_rank(what, scores, found.weights, space, least)
    invisible = _explained(question, found, everything, space, choices=True)
    if invisible is not None and tolerance is None:
        everything = local_rank(what, scores, found.weights, space, least, invisible.all)
    return _Answer(observations, unseen, everything, invisible)


def _columns(space: ParameterSpace, leaves: Sequence[str]) -> np.ndarray:
    """Where the free coordinates of some leaves stand among all of them."""
    owners = [n for n in space.free_leaves for _ in space.only([n]).free_names]
    return np.array([name in leaves for name in owners])


def _priors_by_first(
    question: Question, found: Evidence
) -> Mapping[int, Float[np.ndarray, "k S"]] | None:
    """The beliefs with which agents are first seen at each z; None where they follow theta."""
    prior = question.prior
    if isinstance(prior, KnownPrior):
        panel = found.likelihood.panel
        rows = np.asarray(found.likelihood.prior.data(panel.agents, question.primitives.states))
        rows = np.broadcast_to(rows, (panel.agent_count, rows.shape[1]))
        return {int(z): np.unique(rows[panel.z[:, 0] == z], axis=0) for z in found.first}
    if isinstance(prior, CommonPrior):
        belief = np.asarray(question.theta[prior.name])[None]
        return {int(z): belief for z in found.first}
    return None


def _priors_that_stay(question: Question, found: Evidence) -> Float[np.ndarray, "k S"] | None:
    """Beliefs that another naming of the states must leave as they are."""
    by_first = _priors_by_first(question, found)
    if by_first is None or isinstance(question.prior, CommonPrior):
        return None
    return np.unique(np.concatenate(list(by_first.values())), axis=0)


def _explained(
    question: Question, found: Evidence, rank: Rank, space: ParameterSpace, *, choices: bool
) -> Invisible | None:
    """What no data could tell, where something is not told or only weakly."""
    if (rank.full and not len(rank.weak)) or question.space.covariates:
        return None
    return invisible_moves(
        question.model,
        question.theta,
        space,
        [int(z) for z in found.first],
        _priors_by_first(question, found),
        prior_name=question.prior.name if isinstance(question.prior, CommonPrior) else None,
        choices=choices,
        periods=found.scores.shape[1],
    )


def _remedies(
    question: Question,
    data: Design | Panel,
    now: _Answer,
    tolerance: float | None,
    limit: int,
    seed: int,
) -> pd.DataFrame:
    """What a richer design would tell: longer panels, other first observations, other priors."""
    rows = [_row("as it is", now)]
    ranks = [rank for rank in (now.observations, now.everything) if rank is not None]
    if isinstance(data, Design) and not all(rank.full for rank in ranks):
        rising = data.periods == 1 or any(rank.rising for rank in ranks)
        for what, asked, design in _richer(question, data, rising=rising):
            found = evidence(asked, design, limit, seed)
            rows.append(_row(what, answered(asked, found, tolerance)))
    return pd.DataFrame(rows).set_index("design")


def _richer(
    question: Question, design: Design, *, rising: bool
) -> list[tuple[str, Question, Design]]:
    """Longer panels where the last period still told something new; agents of more kinds."""
    primitives, found = question.primitives, []
    S, Z, longer = primitives.states, primitives.observations, design.periods + 2
    if rising and (primitives.horizon is None or longer <= primitives.horizon):
        found.append((f"{longer} periods", question, Design(longer, design.z0)))
    everywhere = len(design.first(Z)) == Z
    spread = Design(design.periods, None) if Z <= _FEW else design
    if not everywhere and Z <= _FEW:
        found.append(("agents first seen at every z", question, spread))
    beliefs = question.beliefs() if isinstance(question.prior, KnownPrior) else None
    if beliefs is not None and np.linalg.matrix_rank(beliefs) < S:
        rows = np.concatenate([beliefs, 0.5 * beliefs[:1] + 0.5 * np.eye(S)])
        asked = dataclasses.replace(question, prior=KnownPrior(rows))
        where = "" if everywhere or Z > _FEW else ", first seen at every z"
        found.append((f"agents with {S} independent priors{where}", asked, spread))
    return found


def _row(what: str, answer: _Answer) -> dict[str, Any]:
    row: dict[str, Any] = {"design": what}
    if answer.observations is not None:
        rank = answer.observations
        row |= {"dynamics: rank": rank.rank, "dynamics: of": rank.dimension}
    return row | {"all: rank": answer.everything.rank, "all: of": answer.everything.dimension}
