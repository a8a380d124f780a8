"""How few nodes of the smooth scheme give likelihood and gradient, and what solving there costs.

Asked: a choice log-likelihood within 1e-3 and a gradient within 1e-4 of their limits, in no more
time than the linear 175 x 101 solve takes. The gradient's error is the largest over the leaves of
theta of max |difference| / max |limit|; the limits are those of a fine smooth grid.
"""

import numpy as np
import pandas as pd

import pomdpfit as pf
from benchmarks.bus import bus_model, solver_alone
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import side_by_side

_VALUE, _GRADIENT = 1e-3, 1e-4


def rows(size: Size) -> list[Row]:
    """The fewest nodes, their errors, and the time of their solve."""
    model, theta, panel, prior = _setting(size)
    limit, slope = _choice_part(model, theta, panel, prior, pf.Smooth(size.limit_nodes))
    for nodes in size.smooth_nodes:
        value, gradient = _choice_part(model, theta, panel, prior, pf.Smooth(nodes))
        off, turned = abs(value - limit), _relative(gradient, slope)
        if off <= _VALUE and turned <= _GRADIENT:
            break
    else:
        note = f"at {nodes} nodes the errors are {off:.1e} and {turned:.1e}"
        return [Row("fewest smooth nodes that are accurate enough", None, "nodes", note=note)]
    linear = pf.solve(model, theta, grid=pf.Linear(size.nodes))
    smooth = pf.solve(model, theta, grid=pf.Smooth(nodes))
    seconds = side_by_side(
        {
            "linear": solver_alone(linear, pf.Newton()),
            "smooth": solver_alone(smooth, pf.Newton()),
        },
        size.repetitions,
    )
    return [
        Row(
            "fewest smooth nodes that are accurate enough",
            nodes,
            "nodes",
            note=f"of {', '.join(map(str, size.smooth_nodes))}; limit: {size.limit_nodes} nodes",
        ),
        Row("there: error of the choice log-likelihood", off, "", _VALUE),
        Row("there: relative error of the gradient, all 11 parameters", turned, "", _GRADIENT),
        Row(
            f"there: cold solve beside the linear {size.bins} x {size.nodes} one",
            seconds["smooth"] / seconds["linear"],
            "times its time",
            1.0,
            note=f"{smooth.steps} and {linear.steps} steps",
        ),
    ]


def _setting(size: Size) -> tuple[pf.models.EngineReplacement, dict, pf.Panel, pf.KnownPrior]:
    """As in `benchmarks.refinement`: a theta moved off the truth, so that no gradient vanishes."""
    model = bus_model(size)
    truth, prior = model.example(), pf.KnownPrior([0.5, 0.5])
    agents, periods = min(size.agents, 200), min(size.periods, 60)
    z0 = np.arange(agents) % size.bins
    panel = pf.simulate(model, truth, agents=agents, periods=periods, seed=0, prior=prior, z0=z0)
    assert isinstance(panel, pf.Panel)
    theta = {**truth, "RC": truth["RC"] * 0.9, "stay": np.array([0.93, 0.97])}
    return model, theta, panel, prior


def _choice_part(model, theta, panel, prior, grid) -> tuple[float, pd.Series]:
    choices = panel.score(observation=np.zeros(panel.z.shape, dtype=bool))
    terms, gradient = pf.Likelihood(model, choices, prior=prior, grid=grid).gradient(theta)
    return float(terms.choice.sum()), gradient


def _relative(gradient: pd.Series, limit: pd.Series) -> float:
    leaf = [str(name).split("[")[0] for name in limit.index]
    off = (gradient - limit).abs().groupby(leaf).max()
    return float((off / limit.abs().groupby(leaf).max()).max())
