"""How cost grows with each size, as an exponent: theory says 1 for all of them.

The exponent is the slope of log seconds over log size between the two largest sizes. For the
number of hidden states the size is what the theory counts: nodes of the grid times observations
times successors times the vertices that a belief is interpolated from.
"""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

import pomdpfit as pf
from benchmarks.bus import application, bus_model, bus_panel, solver_alone
from benchmarks.general import random_model
from benchmarks.likelihood import anew
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import Work, side_by_side

_EDGE = 15  # nodes on each edge of the simplex while |S| grows


def rows(size: Size) -> list[Row]:
    """One row a size, with the points of its curve."""
    model = bus_model(size)
    return [
        _row("solve: bins", _bins(size), size),
        _row("solve: belief nodes", _nodes(size), size),
        _row("one application: successors", _successors(size), size),
        _row("one application: grid of |S| hidden states", _states(size), size),
        _row("likelihood and gradient: agents", _agents(model, size), size),
        _row("likelihood and gradient: periods", _periods(model, size), size),
    ]


def _row(name: str, works: Iterable[tuple[float, Work]], size: Size) -> Row:
    works = dict(works)
    seconds = side_by_side(
        {str(at): work for at, work in works.items()}, size.repetitions, budget=30.0
    )
    points = tuple((float(at), seconds[str(at)]) for at in works)
    (x0, y0), (x1, y1) = points[-2:]
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    note = ", ".join(f"{x:g}: {1e3 * y:.3g} ms" for x, y in points)
    return Row(name, slope, "exponent", note=note, points=points)


def _bins(size: Size) -> Iterable[tuple[float, Work]]:
    for bins in size.growth_bins:
        model = pf.models.EngineReplacement(bins, 4, discount=size.discount)
        solution = pf.solve(model, model.example(), grid=pf.Linear(size.nodes))
        yield bins, solver_alone(solution, pf.Newton())


def _nodes(size: Size) -> Iterable[tuple[float, Work]]:
    model = bus_model(size)
    for nodes in size.growth_nodes:
        solution = pf.solve(model, model.example(), grid=pf.Linear(nodes))
        yield nodes, solver_alone(solution, pf.Newton())


def _successors(size: Size) -> Iterable[tuple[float, Work]]:
    for increments in size.growth_increments:
        model = pf.models.EngineReplacement(
            max(size.bins, increments + 1), increments, discount=size.discount
        )
        theta = {**model.example(), "increment": np.full((2, increments), 1.0 / increments)}
        yield increments, application(pf.solve(model, theta, grid=pf.Linear(size.nodes)))


def _states(size: Size) -> Iterable[tuple[float, Work]]:
    Z = size.general_observations
    edge = min(_EDGE, size.nodes)
    for S in size.growth_states:
        model, theta = random_model(Z, S, 2, 1.0, 0.9, 0)
        grid = pf.Linear(edge)
        solution = pf.solve(model, theta, grid=grid, solver=pf.RelativeValueIteration())
        yield grid.size(S) * Z * Z * S, application(solution)


def _agents(model: pf.Model, size: Size) -> Iterable[tuple[float, Work]]:
    for agents in size.growth_agents:
        yield agents, _gradient(model, dataclasses.replace(size, agents=agents))


def _periods(model: pf.Model, size: Size) -> Iterable[tuple[float, Work]]:
    for periods in size.growth_periods:
        yield periods, _gradient(model, dataclasses.replace(size, periods=periods))


def _gradient(model: pf.Model, size: Size) -> Work:
    """On a coarse grid, so that the panel is what costs."""
    panel, prior = bus_panel(size)
    likelihood = pf.Likelihood(model, panel, prior=prior, grid=pf.Smooth(min(size.nodes, 13)))
    theta = model.example()
    start = likelihood(theta).start
    return anew(likelihood, lambda: likelihood.gradient(theta, start=start)[1].to_numpy())
