"""What is done at each observation and belief: a picture to move, and maps to print."""

import itertools
from collections.abc import Mapping

import numpy as np

from pomdpfit import plots
from pomdpfit._estimate import Estimate
from pomdpfit._labels import observation_names
from pomdpfit._panel import Panel
from pomdpfit._solve import Solution
from pomdpfit.baselines import MDP
from pomdpfit.plots._over_beliefs import along_edge, edge_label
from pomdpfit.plots._palette import colour
from pomdpfit.plots._subject import (
    context_in_words,
    contexts_of,
    labels,
    model_of,
    solution_at,
    subject_of,
)
from pomdpfit.report._blocks import Block, Figure, Section, Text
from pomdpfit.report._explorer import Explorer, Slice
from pomdpfit.report.estimate._piece import Piece, axes

_SHARES = 21  # beliefs along an edge
_PLACES = 200  # observations on the slider
_MOST = 6  # actions with a map
_SLICES = 24  # contexts, epochs and pairs of states that can be chosen
_EPOCHS = 3  # at least, whatever else there is to choose


def policy_piece(estimate: Estimate) -> Piece:
    """The probability of each action over beliefs, for every observation; and the value."""
    model = model_of(estimate)
    blocks: list[Block] = []
    source: Solution | Estimate = estimate
    if not isinstance(model, MDP):
        source = solution_at(estimate, contexts_of(estimate)[0])
        blocks += _explorer(estimate, source)
    actions = subject_of(source, model=model, panel=estimate.panel).actions
    where = _first_of_several(estimate)
    for a, name in list(enumerate(actions))[1 if len(actions) == 2 else 0 :][:_MOST]:
        drawing, ax = axes()
        plots.policy(source, a, model=model, panel=estimate.panel, ax=ax)
        caption = f"The probability of {name}{where}."
        alt = f"A map of the probability of {name}."
        blocks.append(Figure(f"policy-{a}", drawing, caption, alt))
    drawing, ax = axes()
    plots.value(source, model=model, panel=estimate.panel, ax=ax)
    caption = f"The value of going on from there{where}."
    blocks.append(Figure("value", drawing, caption, "A map of the value."))
    return Piece(Section("Policy and value", "What is done, and what it is worth.", tuple(blocks)))


def _first_of_several(estimate: Estimate) -> str:
    contexts = contexts_of(estimate)
    if len(contexts) < 2:
        return ""
    return f", with {context_in_words(estimate.model, contexts[0])} (the first of {len(contexts)})"


def _explorer(estimate: Estimate, first: Solution) -> list[Block]:
    """Every observation on a slider; `first` is the solution in the first context."""
    model, panel = model_of(estimate), estimate.panel
    contexts, primitives = contexts_of(estimate), first.primitives
    if primitives.states == 1:
        return []
    Z = primitives.observations
    z = np.unique(np.linspace(0, Z - 1, min(Z, _PLACES)).astype(int))
    names = labels(model, "state", primitives.states)
    wanted = _wanted(contexts, primitives.horizon, primitives.states)
    share = np.linspace(0.0, 1.0, _SHARES)
    solutions: dict[int, Solution] = {0: first}
    slices = []
    for c, t, edge in itertools.islice(wanted, _SLICES):
        if c not in solutions:
            solutions[c] = solution_at(estimate, contexts[c])
        epoch = None if t is None else np.asarray(t)
        x = along_edge(share, primitives.states, *edge)
        chosen = np.asarray(solutions[c].policy(z[:, None], x[None], epoch))
        words = _slice_in_words(model, contexts[c], t, edge, names)
        across = edge_label(names, *edge)
        slices.append(Slice(words, across, np.clip(np.moveaxis(chosen, -1, 1), 0.0, 1.0)))
    seen = np.bincount(panel.z[panel.present], minlength=Z)[z]
    lines = labels(model, "action", primitives.actions, panel)
    readings = observation_names(model, Z, panel)
    explorer = Explorer(
        name="explorer",
        slices=tuple(slices),
        slider="observation",
        places=tuple(f"z = {readings[k]} (in {n:,} rows)" for k, n in zip(z, seen, strict=True)),
        start=int(np.argmin(np.abs(z - telling_observation(panel)))),
        lines=lines,
        colours=tuple(colour(k) for k in range(len(lines))),
        points=tuple(share),
        up="probability of each action",
        caption="The probability of each action against the belief: move the slider to see "
        "another observation.",
        alt=f"Lines, one an action, over the belief: {edge_label(names, *wanted[0][2])}.",
    )
    notes = []
    if len(wanted) > _SLICES:
        notes.append(
            f"The first {_SLICES} of {len(wanted)} contexts, epochs and edges can be chosen."
        )
    if len(z) < Z:
        notes.append(f"The slider has {len(z)} of {Z} observations.")
    return [explorer, *([Text(tuple(notes))] if notes else [])]


def telling_observation(panel: Panel) -> int:
    """Where to begin: in the middle of the rows in which the usual action was not taken.

    At an observation at which all do the same there is nothing to see.
    """
    taken = panel.a[panel.acted]
    if not len(taken):
        return int(np.median(panel.z[panel.present]))
    unusual = panel.acted & (panel.a != np.bincount(taken).argmax())
    return int(np.median(panel.z[unusual if unusual.any() else panel.acted]))


def _wanted(
    contexts: list[dict[str, float]], horizon: int | None, states: int
) -> list[tuple[int, int | None, tuple[int, int]]]:
    """(context, epoch, edge): all contexts and pairs of states; epochs as far as there is room."""
    edges = list(itertools.combinations(range(states), 2))
    epochs: list[int | None] = [None]
    if horizon is not None:
        room = max(_EPOCHS, _SLICES // (len(contexts) * len(edges)))
        epochs = list(np.unique(np.linspace(0, horizon - 1, min(horizon, room)).astype(int)))
    return list(itertools.product(range(len(contexts)), epochs, edges))


def _slice_in_words(
    model: object,
    context: Mapping[str, float],
    t: int | None,
    edge: tuple[int, int],
    states: tuple[str, ...],
) -> str:
    words = [context_in_words(model, context)] if context else []  # type: ignore[arg-type]
    words += [] if t is None else [f"epoch {t}"]
    if len(states) > 2 or not words:  # two states have but one edge
        words.append(f"beliefs between {states[edge[0]]} and {states[edge[1]]}")
    return ", ".join(words)
