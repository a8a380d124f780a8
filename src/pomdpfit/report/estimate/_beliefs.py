"""What agents believed, and what they did."""

from collections.abc import Hashable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from pomdpfit._estimate import Estimate
from pomdpfit._panel import Panel
from pomdpfit._types import Float
from pomdpfit.plots._belief_paths import draw_paths, draw_shares, usual_action
from pomdpfit.plots._palette import plain
from pomdpfit.plots._subject import labels, model_of
from pomdpfit.report._blocks import Figure, Section
from pomdpfit.report.estimate._piece import Piece

_FEW = 6


def beliefs_piece(estimate: Estimate, agents: Sequence[Hashable] | None) -> Piece | None:
    """Paths of some agents, those who did something unusual first; None if nothing is hidden."""
    model = model_of(estimate)
    likelihood = estimate.setting.likelihood(estimate.space)
    if likelihood.states == 1:
        return None
    panel = estimate.panel
    names = labels(model, "state", likelihood.states)
    actions = labels(model, "action", int(panel.a.max()) + 1)
    belief = likelihood.terms(estimate.theta).belief
    chosen = telling_agents(panel) if agents is None else list(agents)
    usual = actions[usual_action(panel)]
    drawing = _draw(panel, belief, chosen, names, actions)
    two = len(names) == 2
    what = f"Belief in {names[-1]}" if two else "Belief in each state, stacked,"
    figure = Figure(
        "beliefs",
        drawing,
        f"{what} by period, one panel an agent; marks are actions other than {usual}. "
        + ("The agents who did most that was unusual." if agents is None else ""),
        f"Small panels, one an agent: {'a line' if two else 'areas'} between 0 and 1, the belief "
        f"in {names[-1] if two else 'each state'}.",
    )
    lead = "What the agents believed at the estimate, given all that each had seen."
    return Piece(Section("Beliefs", lead, (figure,)))


def telling_agents(panel: Panel) -> list[Hashable]:
    """Those with the most actions that are not the usual one, in the panel's order."""
    counts = (panel.acted & (panel.a != usual_action(panel))).sum(axis=1)
    best = np.argsort(-counts, kind="stable")[:_FEW]
    return [panel.agents[i] for i in np.sort(best)]


def _draw(
    panel: Panel,
    belief: Float[np.ndarray, "N T S"],
    agents: Sequence[Hashable],
    states: Sequence[str],
    actions: Sequence[str],
) -> Drawing:
    columns = 2 if len(agents) > 1 else 1
    rows = -(-len(agents) // columns)
    drawing = Drawing(figsize=(5.4, 0.9 + 1.45 * rows), layout="constrained")
    grid = drawing.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax in grid.flat[len(agents) :]:
        ax.set_axis_off()
    for ax, agent in zip(grid.flat, agents, strict=False):
        if len(states) == 2:
            draw_paths(ax, panel, belief[..., -1], [agent], states[-1], actions)
        else:
            draw_shares(ax, panel, belief, agent, states, actions)
        ax.set_title(plain(f"agent {agent}"), fontsize=9)
        ax.set_ylabel("")
        ax.label_outer()
        if ax.get_legend() is not None:
            ax.get_legend().remove()  # one for all of them is enough
    what = f"belief x({states[-1]})" if len(states) == 2 else "belief"
    drawing.supylabel(plain(what), fontsize=10)
    marks = {name: mark for ax in grid.flat for mark, name in zip(*_legend(ax), strict=True)}
    if marks:
        many = {"ncols": 3} if len(marks) > 2 else {}
        drawing.legend(marks.values(), marks.keys(), loc="outside upper right", fontsize=8, **many)
    return drawing


def _legend(ax: Axes) -> tuple[list, list]:
    return ax.get_legend_handles_labels()
