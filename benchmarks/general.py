"""Models without an order to exploit: |S| = 3, every successor possible.

Where relative value iteration needs more than 500 sweeps, Newton should need a tenth of its
units; elsewhere it should be no slower. Two kinds of random kernels: `mixing`, with rows drawn
from a Dirichlet law, forgets in a few periods; `sticky` moves to a random place with probability
0.01 and stays otherwise.
"""

import numpy as np

import pomdpfit as pf
from benchmarks.bus import application, solver_alone
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import side_by_side

_MANY = 500  # sweeps
_STATES, _ACTIONS = 3, 2
_KINDS = {"mixing": 1.0, "sticky": 0.01}


def rows(size: Size) -> list[Row]:
    """One row for each kind, discount and seed."""
    return [
        _case(size, kind, discount, seed)
        for kind in _KINDS
        for discount in size.discounts
        for seed in size.seeds
    ]


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


def _case(size: Size, kind: str, discount: float, seed: int) -> Row:
    Z = size.general_observations
    model, theta = random_model(Z, _STATES, _ACTIONS, _KINDS[kind], discount, seed)
    grid = pf.Linear(size.general_nodes)
    newton, plain = pf.Newton(), pf.RelativeValueIteration()
    fast = pf.solve(model, theta, grid=grid)
    slow = pf.solve(model, theta, grid=grid, solver=plain)
    seconds = side_by_side(
        {
            "unit": application(fast),
            "newton": solver_alone(fast, newton),
            "plain": solver_alone(fast, plain),
        },
        3 * size.repetitions,  # most ratios are close to one
        budget=15.0,
    )
    units = {name: value / seconds["unit"] for name, value in seconds.items()}
    return Row(
        f"{kind}, discount {discount}, seed {seed}",
        units["plain"] / units["newton"],
        "times fewer units than value iteration",
        10.0 if slow.steps > _MANY else 1.0,
        at_least=True,
        note=f"{slow.steps} sweeps, {units['plain']:.0f} units; Newton {fast.steps} steps, "
        f"{units['newton']:.0f} units",
    )
