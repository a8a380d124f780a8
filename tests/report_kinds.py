"""One estimate for each kind of model that a report must tell of, as small as it can be."""

import dataclasses

import numpy as np
import pandas as pd

import pomdpfit as pf
from pomdpfit._setting import Setting
from pomdpfit.inference._information import Information
from small_hidden import DYNAMICS, ENGINE, GRID, PRIOR, TRUTH, hidden_panel

QUOTED = "\"quoted\" 'and' <script>alert(1)</script> & </script>"


class Short(pf.models.EngineReplacement):
    """The engine over six epochs."""

    def horizon(self):
        return 6


class Priced(pf.models.EngineReplacement):
    """The engine whose replacement costs RC times a price that everybody sees."""

    def parameters(self):
        return {**super().parameters(), "price": pf.Covariate(1.0)}

    def reward(self, theta):
        return super().reward({**theta, "RC": theta["RC"] * theta["price"]})


class Quoted(pf.models.EngineReplacement):
    """The engine with labels that would be code, were they not text."""

    def state_labels(self):
        return ("good", QUOTED)

    def action_labels(self):
        return ('a"b', QUOTED)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A model with data simulated from it at theta; `known` is not estimated."""

    model: pf.Model
    panel: pf.Panel
    theta: dict
    prior: object = PRIOR
    grid: object = GRID
    known: tuple[str, ...] = tuple(DYNAMICS)

    def fitted(self):
        fixed = {name: self.theta[name] for name in self.known}
        options = {"prior": self.prior, "grid": self.grid, "fixed": fixed, "start": self.theta}
        return pf.fit(self.model, self.panel, **options, starts=1)

    def written_down(self):
        """An estimate at theta itself, without a search: its likelihood and policy are real."""
        space = Setting(self.model, self.panel, self.prior, self.grid).likelihood().space
        space = space.fix({name: self.theta[name] for name in self.known})
        names = tuple(
            n for n, o in zip(space.names, space.owners, strict=True) if o in space.free_leaves
        )
        eye, agents = np.eye(len(names)), self.panel.agent_count
        return pf.Estimate(
            setting=Setting(self.model, self.panel, self.prior, self.grid),
            theta=dict(space.check({**self.model.example(), **self.theta})),
            space=space,
            restrictions=(),
            terms=np.zeros((agents, 2)),
            information=Information(names, names, eye, np.zeros((agents, 2, len(names))), -eye),
            boundary=(),
            derived=(),
            result=pf.Result.CONVERGED,
            reason="",
            steps=0,
            gain=0.0,
            dimension=len(names),
            incidental=0,
            modes=pd.DataFrame(),
            starts=pd.DataFrame(),
        )


def three_states() -> Kind:
    model, prior = pf.models.EquipmentInspection(discount=0.8), pf.KnownPrior([1.0, 0.0, 0.0])
    theta, grid = model.example(), pf.Linear(5)
    panel = pf.simulate(model, theta, agents=40, periods=22, seed=0, prior=prior, grid=grid)
    known = ("decay", "reading", "inspection_reading", "overhaul")  # which fixes the level
    return Kind(model, panel, theta, prior, grid, known)


def finite_horizon() -> Kind:
    model = Short(bins=6, increments=3, discount=0.9)
    draw = {"agents": 150, "periods": 6, "seed": 0, "prior": PRIOR, "grid": GRID}
    return Kind(model, pf.simulate(model, TRUTH, z0=2, **draw), TRUTH)


def groups() -> Kind:
    model = pf.models.Grouped(ENGINE, ["north", "south"], own=["RC"])
    panel = hidden_panel().with_groups(["south"] * 20 + ["north"] * 20, groups=["north", "south"])
    return Kind(model, panel, {**TRUTH, "RC": np.array([2.0, 2.5])})


def covariates() -> Kind:
    model = Priced(bins=6, increments=3, discount=0.9)
    panel = hidden_panel()
    price = np.repeat([0.8, 1.0, 1.3], [8, 7, panel.z.shape[1] - 15])
    price = np.broadcast_to(price, panel.z.shape)
    return Kind(model, panel.with_covariates(price=price), TRUTH)


def agent_priors() -> Kind:
    return Kind(ENGINE, hidden_panel(), TRUTH, pf.AgentPriors())


def quoted_labels() -> Kind:
    return Kind(Quoted(bins=6, increments=3, discount=0.9), hidden_panel(), TRUTH)


def many_observations() -> Kind:
    model = pf.models.EngineReplacement(bins=175, increments=3, discount=0.9)
    theta = {**TRUTH, "cost": np.array([5.0, 20.0])}
    z0 = np.linspace(0, 170, 30).astype(int)
    panel = pf.simulate(model, theta, agents=30, periods=20, seed=0, prior=PRIOR, grid=GRID, z0=z0)
    return Kind(model, panel, theta)


KINDS = {
    "three states": three_states,
    "finite horizon": finite_horizon,
    "groups": groups,
    "covariates": covariates,
    "agent priors": agent_priors,
    "quoted labels": quoted_labels,
    "many observations": many_observations,
}
CHOICES = {
    "three states": [
        "beliefs between good and worn",
        "beliefs between good and failing",
        "beliefs between worn and failing",
    ],
    "finite horizon": [f"epoch {t}" for t in range(6)],
    "groups": ["group south", "group north"],  # the panel's first row comes first
    "covariates": ["price = 0.8", "price = 1", "price = 1.3"],
}
