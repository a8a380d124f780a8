"""What a design or a panel has to say: scores of single rows and their weights.

With a design the rows are those of every sequence that can be seen, weighted by its probability:
an expectation. Where there are too many, they are simulated; with a panel, they are its own.
"""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._evaluate import Likelihood
from pomdpfit._log_likelihood import LogLikelihood, Part
from pomdpfit._model import Model, Primitives, checked_primitives
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AbstractPrior, CommonPrior, KnownPrior, labels_of, prior_or_default
from pomdpfit._schemes import AbstractScheme
from pomdpfit._simulate import simulate
from pomdpfit._solve import checked_grid
from pomdpfit._types import Float, Int, Theta
from pomdpfit.identification.rank._designs import Design, all_sequences, count_sequences


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """A model at theta, what is known of the priors, and which parameters are unknown."""

    model: Model
    theta: Theta
    space: ParameterSpace  # the model's and the prior's, with what is free and what is fixed
    prior: AbstractPrior
    grid: AbstractScheme

    @functools.cached_property
    def primitives(self) -> Primitives:
        """At theta."""
        own = self.space.only(self.model.parameters())
        return checked_primitives(self.model, {n: self.theta[n] for n in own.parameters}, own)

    @property
    def part(self) -> Part:
        """Both parts of the likelihood, but where there is nothing to choose."""
        return Part.BOTH if self.primitives.actions > 1 else Part.OBSERVATION

    def beliefs(self) -> Float[np.ndarray, "k S"]:
        """The priors of all kinds of agent of a design."""
        if isinstance(self.prior, CommonPrior):
            return np.asarray(self.theta[self.prior.name], dtype=float)[None]
        assert isinstance(self.prior, KnownPrior)
        if isinstance(self.prior.belief, Mapping):
            raise ModelError("a design has no agents by name: give the priors as rows.")
        rows = np.atleast_2d(np.asarray(self.prior.belief, dtype=float))
        return np.asarray(self.prior.data(range(len(rows)), self.primitives.states))


def ask(
    model: Model,
    theta: Theta,
    prior: AbstractPrior | None,
    grid: AbstractScheme | None,
    free: tuple[str, ...],
    fixed: tuple[str, ...],
) -> Question:
    """The question, with theta, prior and names checked."""
    own = model.space()
    primitives = checked_primitives(model, {n: theta[n] for n in own.parameters if n in theta}, own)
    prior = prior_or_default(prior, primitives.states)
    if prior.by_agent:
        raise ModelError(
            "priors of single agents grow with the data: what they leave told of the rest is not "
            "a matter of rank. Ask with pf.CommonPrior, or with pf.KnownPrior."
        )
    space = (own | prior.space(labels_of(model, primitives.states))).free(*free)
    theta = space.check(theta)
    space = space.fix({name: theta[name] for name in fixed if name in theta})
    unknown = [name for name in fixed if name not in space.parameters]
    if unknown:
        raise ModelError(f"there is no parameter named {unknown[0]!r} to hold fixed.")
    return Question(model, theta, space, prior, checked_grid(primitives, grid))


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """Scores of rows by part (observation, choice) along each free coordinate, and weights.

    `discount` has those along the discount where it is known, as if it were not.
    """

    likelihood: Likelihood
    scores: Float[np.ndarray, "n T 2 p"]
    discount: Float[np.ndarray, "n T 2"] | None
    weights: Float[np.ndarray, "n"]
    first: Int[np.ndarray, "k"]
    source: str


def evidence(question: Question, data: Design | Panel, limit: int, seed: int) -> Evidence:
    """The scores of all that a design can show, or of what a panel shows, for one agent."""
    if isinstance(data, Panel):
        likelihood = _likelihood(question, data, question.prior)
        first, source = np.unique(data.z[:, 0]), f"the {data.agent_count} agents of the panel"
        listed = False
    elif isinstance(data, Design):
        likelihood, first, source, listed = _from_design(question, data, limit, seed)
    else:
        raise ModelError(f"data must be a pf.Design or a pf.Panel, not {type(data)}.")
    terms, scores, discount = _scores(likelihood, question.theta, question.part)
    # What was listed has its probability, what was drawn or seen speaks for itself.
    weights = np.exp(terms.parts().sum(axis=1)) if listed else np.ones(len(scores))
    return Evidence(likelihood, scores, discount, weights / weights.sum(), first, source)


def _scores(
    likelihood: Likelihood, theta: Theta, part: Part
) -> tuple[LogLikelihood, np.ndarray, np.ndarray | None]:
    """Terms and scores by row; with the discount's as if it were free, at no cost of its own."""
    space = likelihood.space
    if not space.free_leaves:
        raise ModelError("every parameter is fixed: there is nothing to identify.")
    known = space.parameters.get("discount")
    also = part is Part.BOTH and known is not None and known.fixed and known.shape == ()
    also = also and float(theta["discount"]) > 0
    wider = space.free("discount") if also else space
    terms, scores = likelihood.push_rows(theta, wider.free_directions(), part=part)
    seen = np.flatnonzero(np.abs(scores).sum(axis=(0, 2, 3)))  # a last row may score nothing
    scores = scores[:, : seen[-1] + 1 if len(seen) else 1]
    if not also:
        return terms, scores, None
    own = np.array([name != "discount" for name in wider.free_names])
    return terms, scores[..., own], scores[..., ~own][..., 0]


def _likelihood(question: Question, panel: Panel, prior: AbstractPrior) -> Likelihood:
    return Likelihood(question.model, panel, prior=prior, grid=question.grid, space=question.space)


def _from_design(
    question: Question, design: Design, limit: int, seed: int
) -> tuple[Likelihood, np.ndarray, str, bool]:
    """The likelihood of all sequences, or of simulated ones; and whether they were listed."""
    primitives = question.primitives
    if primitives.horizon is not None and design.periods > primitives.horizon:
        raise ModelError(f"periods must not exceed the horizon of {primitives.horizon} epochs.")
    if question.prior.needs_policy:
        raise ModelError(
            "a stationary prior goes with a panel: ask about one (pf.simulate draws it), or give "
            "its beliefs to pf.KnownPrior."
        )
    if question.space.covariates:
        raise ModelError(
            f"the model reads the covariate {question.space.covariates[0]!r}, which comes with a "
            "panel: ask about a panel instead of a design."
        )
    first = design.first(primitives.observations)
    beliefs = question.beliefs()
    count = len(beliefs) * count_sequences(primitives, first, design.periods)
    if count <= limit:
        listed = all_sequences(primitives, beliefs, first, design.periods)
        prior = KnownPrior(listed.x0) if isinstance(question.prior, KnownPrior) else question.prior
        source = f"all {len(listed.kind):,} sequences that can be seen"
        return _likelihood(question, listed.panel(), prior), first, source, True
    kinds = len(first) * len(beliefs)
    agents = max(limit // (design.periods + 1), 20 * kinds)
    z0, x0 = np.repeat(first, len(beliefs)), np.tile(beliefs, (len(first), 1))
    picked = np.arange(agents) % kinds
    own = {name: question.theta[name] for name in question.model.parameters()}
    drawn = simulate(
        question.model,
        own,
        agents=agents,
        periods=design.periods,
        seed=seed,
        prior=KnownPrior(x0[picked]),
        z0=z0[picked],
        grid=question.grid,
    )
    assert isinstance(drawn, Panel)
    prior = KnownPrior(x0[picked]) if isinstance(question.prior, KnownPrior) else question.prior
    source = f"{agents:,} simulated agents (all {count:,} sequences are too many to list)"
    return _likelihood(question, drawn, prior), first, source, False
