"""Models without an order to exploit: |S| = 3, every successor possible.

Where relative value iteration needs more than 500 sweeps, Newton should need a tenth of its
units; elsewhere it should be no slower. Two kinds of random kernels: `mixing`, with rows drawn
from a Dirichlet law, forgets in a few periods; `sticky` moves to a random place with probability
0.01 and stays otherwise.

On kernels that forget, Newton's method is value iteration: the same sweeps, and no more of them.
What is timed there is one thing beside itself, so all such models are judged together, by the
geometric mean of their ratios; and value iteration is timed twice: its difference from itself says
what a single ratio close to one can mean.
"""

from typing import NamedTuple

import numpy as np

import pomdpfit as pf
from benchmarks.bus import application, solver_alone
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import side_by_side

_MANY = 500  # sweeps
_STATES, _ACTIONS = 3, 2
_UNIT = "times fewer units than value iteration"
_KINDS = {"mixing": 1.0, "sticky": 0.01}


class _Case(NamedTuple):
    """Units of work that a model takes."""

    name: str
    newton: float
    steps: int
    plain: float
    again: float  # the same once more
    sweeps: int

    @property
    def differs(self) -> float:
        """How much slower value iteration was than itself."""
        return 1.0 - min(self.plain, self.again) / max(self.plain, self.again)

    @property
    def alike(self) -> bool:
        """Whether Newton's method was value iteration."""
        return self.steps == self.sweeps

    @property
    def ratio(self) -> float:
        """How many times fewer units Newton's method takes."""
        return self.plain / self.newton

    def row(self) -> Row:
        """The same, with a target unless the model is judged with others."""
        target = 10.0 if self.sweeps > _MANY else 1.0
        return Row(
            self.name,
            self.ratio,
            _UNIT,
            None if self.alike else target,
            at_least=True,
            note=f"{self.sweeps} sweeps, {self.plain:.0f} units; Newton {self.steps} steps, "
            f"{self.newton:.0f} units",
        )


def rows(size: Size) -> list[Row]:
    """One row for each kind, discount and seed."""
    cases = [
        _case(size, kind, discount, seed)
        for kind in _KINDS
        for discount in size.discounts
        for seed in size.seeds
    ]
    return [_beside_itself(cases), *_together(cases), *(case.row() for case in cases)]


def _beside_itself(cases: list[_Case]) -> Row:
    """What a ratio close to one can mean."""
    differences = [100 * case.differs for case in cases]
    note = f"the same program timed twice: median of {len(cases)}, at most {max(differences):.0f} %"
    return Row(
        "value iteration beside itself", float(np.median(differences)), "% slower", note=note
    )


def _together(cases: list[_Case]) -> list[Row]:
    """One verdict on all models on which Newton's method is value iteration."""
    ratios = [case.ratio for case in cases if case.alike]
    if not ratios:
        return []
    mean = float(np.exp(np.mean(np.log(ratios))))
    note = f"geometric mean of {len(ratios)}, {min(ratios):.3g} to {max(ratios):.3g}"
    name = "models on which Newton's method is value iteration, together"
    return [Row(name, mean, _UNIT, 1.0, at_least=True, note=note)]


def random_model(Z: int, S: int, A: int, move: float, discount: float, seed: int):
    """A tabular model and its theta: with probability `move` all is drawn anew."""
    rng = np.random.default_rng(seed)
    model = pf.models.Tabular(Z, S, A, discount)
    drawn = rng.dirichlet(np.ones(Z * S), size=(Z, S, A)).reshape(Z, S, A, Z, S)
    stays = np.einsum("zy,st->zsyt", np.eye(Z), np.eye(S))[:, :, None]
    reward = rng.normal(size=(Z, S, A))
    reward[..., 0] = 0.0
    theta = model.theta_of(move * drawn + (1 - move) * stays, reward)
    return model, {**model.example(), **theta}


def _case(size: Size, kind: str, discount: float, seed: int) -> _Case:
    Z = size.general_observations
    model, theta = random_model(Z, _STATES, _ACTIONS, _KINDS[kind], discount, seed)
    grid = pf.Linear(size.general_nodes)
    newton, plain = pf.Newton(), pf.RelativeValueIteration()
    fast = pf.solve(model, theta, grid=grid)
    slow = pf.solve(model, theta, grid=grid, solver=plain)
    works = {
        "unit": application(fast),
        "plain": solver_alone(fast, plain),
        "newton": solver_alone(fast, newton),
        "again": solver_alone(fast, plain),
    }
    seconds = side_by_side(works, 3 * size.repetitions, budget=15.0)  # most ratios are close to one
    units = {name: value / seconds["unit"] for name, value in seconds.items()}
    name = f"{kind}, discount {discount}, seed {seed}"
    return _Case(name, units["newton"], fast.steps, units["plain"], units["again"], slow.steps)
