"""The two fits that are timed."""

import dataclasses
from typing import Any

import numpy as np

import pomdpfit as pf
from benchmarks.bus import bus_model, bus_panel
from benchmarks.size import FULL, Size
from pomdpfit.replication._synthetic_tables import START


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A model and a panel, an estimator, and where to start."""

    name: str
    model: Any
    panel: pf.Panel
    estimator: Any
    prior: pf.KnownPrior | None
    start: dict[str, np.ndarray] | None
    grid: Any

    def fit(self) -> pf.Estimate:
        """With standard errors, from one start."""
        return pf.fit(
            self.model,
            self.panel,
            self.estimator,
            prior=self.prior,
            start=self.start,
            starts=1,
            grid=self.grid,
        )


def group_4(size: Size) -> Case:
    """Rust's group 4, two stages; simulated buses in small, or where his data are missing."""
    estimator, prior, grid = pf.TwoStage(), pf.KnownPrior([1.0, 0.0]), pf.Linear(size.nodes)
    if size == FULL:
        try:
            data = pf.datasets.rust1987(4, size.bins)
        except pf.DatasetError:
            pass
        else:
            model = pf.models.EngineReplacement(size.bins, data.increments, reset=data.reset)
            name = f"Rust's group 4, {size.bins} bins x {size.nodes} beliefs"
            return Case(name, model, data.panel, estimator, prior, None, grid)
    small = dataclasses.replace(size, agents=min(size.agents, 37), periods=min(size.periods, 116))
    panel, prior = bus_panel(small)
    name = f"{small.agents} simulated buses, {size.bins} bins x {size.nodes} beliefs"
    return Case(name, bus_model(size), panel, estimator, prior, None, grid)


def table_1(size: Size) -> Case:
    """Table I's panel, jointly, from a start that is not the truth."""
    panel, prior = bus_panel(size)
    name = f"Table I's panel, {size.agents} x {size.periods}"
    return Case(name, bus_model(size), panel, pf.Joint(), prior, START, pf.Linear(size.nodes))


def observed(size: Size) -> Case:
    """The fully observed model on the panel of `group_4`: our own NFXP."""
    hidden = group_4(size)
    model = hidden.model
    mdp = pf.baselines.BusEngine(model.bins, model.increments, size.discount, model.reset)
    name = f"our NFXP, {size.bins} bins"
    return Case(name, mdp, hidden.panel, pf.TwoStage(), None, None, None)
