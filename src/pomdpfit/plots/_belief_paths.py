"""What agents of a panel believed, period by period, and what they did."""

from collections.abc import Hashable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pomdpfit._errors import ModelError
from pomdpfit._estimate import Estimate
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._simulate import Simulation
from pomdpfit._types import Float
from pomdpfit.plots._palette import GREY, INK, RED, colour, dash, marker, plain
from pomdpfit.plots._subject import labels, model_of, number_of


def beliefs(
    source: Estimate | Simulation,
    agents: Sequence[Hashable] | None = None,
    *,
    state: str | int | None = None,
    model: Model | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Beliefs of some agents, a line each; marks are actions that are not usual.

    Of one agent and three or more states: the shares of belief in all of them, one on the other.

    source  an estimate, or what `pf.simulate(..., hidden=True)` gives: then the periods in which
            the state was truly there are shaded, if it is one agent that is drawn
    agents  as the panel names them; the first if not given
    state   the belief in which state is drawn; the last if not given, or all (see above)
    model   gives a simulation its labels; an estimate has its own

    The most frequent action of the panel is the usual one, and is not marked.
    """
    if isinstance(agents, str):
        raise ModelError(f"agents is one string, {agents!r}: give a list of agents.")
    panel, belief, model = _paths_of(source, model)
    count = belief.shape[-1]
    if count == 1:
        raise ModelError("nothing is hidden in this model, so there are no beliefs to draw.")
    names = labels(model, "state", count)
    s = count - 1 if state is None else number_of("state", state, names)
    shown = panel.agents[:1] if agents is None else agents
    ax = plt.gca() if ax is None else ax
    actions = labels(model, "action", int(panel.a.max()) + 1)
    if state is None and count > 2 and len(shown) == 1:
        draw_shares(ax, panel, belief, shown[0], names, actions)
        ax.legend(fontsize=8)
        return ax
    if isinstance(source, Simulation) and len(shown) == 1:
        true = source.s[_row_of(panel, shown[0])] == s
        place = np.arange(len(true))
        name = plain(f"truly {names[s]}")
        ax.fill_between(place, 0, 1, where=true, step="mid", alpha=0.15, color=RED, label=name)
    draw_paths(ax, panel, belief[..., s], shown, names[s], actions)
    return ax


def _paths_of(source: Estimate | Simulation, model: Model | None) -> tuple[Panel, np.ndarray, Any]:
    """The panel, the beliefs of its agents (N, T, S), and the model that has the labels."""
    if isinstance(source, Simulation):
        return source.panel, source.belief, model
    if not isinstance(source, Estimate):
        raise ModelError(
            "give an estimate, or what pf.simulate(..., hidden=True) gives, not "
            f"{type(source).__name__}."
        )
    model = model_of(source)
    return source.panel, source.setting.likelihood(source.space).terms(source.theta).belief, model


def draw_paths(
    ax: Axes,
    panel: Panel,
    belief: Float[np.ndarray, "N T"],
    agents: Sequence[Hashable],
    state: str,
    actions: Sequence[str],
) -> None:
    """A line for each agent, and a mark for each of its unusual actions."""
    usual = usual_action(panel)
    named: set[int] = set()
    for k, agent in enumerate(agents):
        i = _row_of(panel, agent)
        periods = np.flatnonzero(panel.present[i])
        label = plain(f"agent {agent}") if len(agents) > 1 else None
        path = belief[i, periods]
        ax.plot(periods, path, color=colour(k), linestyle=dash(k), linewidth=1.2, label=label)
        for a in np.unique(panel.a[i, panel.acted[i]]):
            if a == usual:
                continue
            when = np.flatnonzero(panel.acted[i] & (panel.a[i] == a))
            name = None if int(a) in named else plain(actions[int(a)])
            named.add(int(a))
            shape = marker(int(a))
            ax.plot(when, belief[i, when], shape, color=colour(k), mec=INK, ms=6, label=name)
    ax.set_ylim(-0.04, 1.04)
    ax.set_xlabel("period")
    ax.set_ylabel(plain(f"belief x({state})"))
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=8)


def draw_shares(
    ax: Axes,
    panel: Panel,
    belief: Float[np.ndarray, "N T S"],
    agent: Hashable,
    states: Sequence[str],
    actions: Sequence[str],
) -> None:
    """The belief of one agent in each state, stacked to 1; above, a mark for an unusual action."""
    i = _row_of(panel, agent)
    periods = np.flatnonzero(panel.present[i])
    inks = [colour(k) for k in range(len(states))]
    names = [plain(f"x({state})") for state in states]
    ax.stackplot(periods, belief[i, periods].T, colors=inks, labels=names, alpha=0.75, lw=0)
    for a in np.unique(panel.a[i, panel.acted[i]]):
        when = np.flatnonzero(panel.acted[i] & (panel.a[i] == a))
        if a != usual_action(panel):
            height = np.full(len(when), 1.08)
            name = plain(actions[int(a)])
            ax.plot(when, height, marker(int(a)), color=GREY, mec=INK, ms=5, label=name)
    ax.set_ylim(0, 1.16)
    ax.set_xlabel("period")
    ax.set_ylabel("belief")


def usual_action(panel: Panel) -> int:
    """The action that is taken most often."""
    return int(np.bincount(panel.a[panel.acted]).argmax())


def _row_of(panel: Panel, agent: Hashable) -> int:
    if agent not in panel.agents:
        few = ", ".join(repr(a) for a in panel.agents[:5])
        more = " ..." if len(panel.agents) > 5 else ""
        raise ModelError(f"the panel has no agent {agent!r}: it has {few}{more}.")
    return panel.agents.index(agent)
