"""Where a piecewise linear grid bends the log-likelihood, and what to do instead.

Between the nodes of a linear grid the value is read off the cell that a belief lies in. As theta
moves the dynamics, next beliefs cross from cell to cell, and there the log-likelihood has a kink:
continuous, with another slope on either side. Where it bends downwards neither slope vanishes, so
that a climb by gradients creeps or stops short of any maximum that it could recognise. With the
dynamics held (the second of two stages) cells and weights stay, and there are no kinks.
"""

from collections.abc import Sequence

from pomdpfit._errors import Result
from pomdpfit._log_likelihood import AbstractLikelihood
from pomdpfit._schemes import Linear

_AT_KINKS = {Result.MAX_STEPS, Result.STALLED}


def on_kinks(likelihood: AbstractLikelihood, moved: Sequence[str], result: Result) -> str:
    """What to say to a climb of these leaves that has ended so; nothing where no kink can be."""
    grid = getattr(likelihood, "grid", None)
    if result not in _AT_KINKS or not isinstance(grid, Linear):
        return ""
    if not likelihood.dynamics.intersection(moved):
        return ""
    finer = f"pf.Linear({2 * grid.nodes - 1})"
    if likelihood.states == 2:
        mend = "Leave grid= out: the default for two hidden states is smooth"
    else:
        mend = f"A finer grid (grid={finer}) has smaller ones"
    return (
        f"A linear grid has kinks in {', '.join(sorted(likelihood.dynamics.intersection(moved)))}, "
        f"and a climb may creep or stop at one: theta may be good to what the grid is. {mend}; "
        "pf.TwoStage() has none, for it holds the dynamics when it climbs the choices."
    )
