"""The bus model, its panels, and the unit: one application of the soft Bellman operator.

The only module here that reaches below the public names.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import numpy as np

import pomdpfit as pf
from benchmarks.size import Size
from benchmarks.timing import Repeated, Work
from pomdpfit._bellman import bellman_operator
from pomdpfit._solve import make_operator, solved_state
from pomdpfit.solvers import make_plan

_TIMES = 20


@eqx.filter_jit
def _apply(operator, coefficients):
    return jax.lax.fori_loop(0, _TIMES, lambda _, value: operator(value), coefficients)


def application(solution: pf.Solution) -> Work:
    """One application of the operator to the value solved for: the unit, in its fastest form.

    Timed as a loop inside one compiled program, so that calling it from Python costs nothing.
    """
    operator = bellman_operator(solution.primitives, solution.grid)
    return Repeated(lambda: _apply(operator, solution.coefficients), _TIMES)


@eqx.filter_jit
def _apply_plainly(operator, coefficients):
    image = lambda value: jax.nn.logsumexp(operator._split(value)[0], axis=-1)[..., None]
    return jax.lax.fori_loop(0, _TIMES, lambda _, value: image(value), coefficients)


def plain_application(solution: pf.Solution) -> Work:
    """The same in its plain form: V looked up row by row, log-sum-exp over an axis.

    The form in which ruspy's time was taken down: it tells how fast a machine is, whatever becomes
    of the unit. For Gumbel shocks of scale one and linear interpolation.
    """
    primitives = solution.primitives
    patterns = tuple(
        dataclasses.replace(pattern, shifts=None) for pattern in primitives.kernel.sharing()
    )
    looked_up = eqx.tree_at(
        lambda p: p.kernel, primitives, dataclasses.replace(primitives.kernel, patterns=patterns)
    )
    operator = bellman_operator(looked_up, solution.grid)
    return Repeated(lambda: _apply_plainly(operator, solution.coefficients), _TIMES)


def solver_alone(solution: pf.Solution, solver: object, start: object | None = None) -> Work:
    """The compiled solver on primitives that are at hand, without the checks of pf.solve."""
    primitives, grid = solution.primitives, solution.grid
    plan = make_plan(primitives.kernel)
    return lambda: solved_state(make_operator(primitives, grid), solver, plan, start)


def bus_model(size: Size) -> pf.models.EngineReplacement:
    """The paper's model."""
    return pf.models.EngineReplacement(bins=size.bins, increments=4, discount=size.discount)


def moved(theta: dict) -> dict:
    """theta after a move of 2 %: costs up, and what leaves a hidden state likewise."""
    return {
        **theta,
        "RC": np.asarray(theta["RC"]) * 1.02,
        "cost": np.asarray(theta["cost"]) * 1.02,
        "stay": 1.0 - 1.02 * (1.0 - np.asarray(theta["stay"])),
    }


@functools.cache
def bus_unit(size: Size) -> Work:
    """The unit at the size of the targets, with linear interpolation."""
    model = bus_model(size)
    return application(pf.solve(model, model.example(), grid=pf.Linear(size.nodes)))


@functools.cache
def bus_plain_unit(size: Size) -> Work:
    """The same in its plain form, which fits are told in."""
    model = bus_model(size)
    return plain_application(pf.solve(model, model.example(), grid=pf.Linear(size.nodes)))


@functools.cache
def bus_panel(size: Size) -> tuple[pf.Panel, pf.KnownPrior]:
    """Table I's design: first mileage and belief uniform, the belief known."""
    model, rng = bus_model(size), np.random.default_rng(0)
    good = rng.uniform(size=size.agents)
    prior = pf.KnownPrior(np.stack([good, 1 - good], axis=1))
    z0 = rng.integers(0, size.bins, size=size.agents)
    panel = pf.simulate(
        model,
        model.example(),
        agents=size.agents,
        periods=size.periods,
        seed=0,
        prior=prior,
        z0=z0,
    )
    assert isinstance(panel, pf.Panel)
    return panel, prior
