"""Ratios on the bus model: what derivatives cost beside the likelihood, solvers beside each other.

Everything is timed in one run, compiled, the least of several repetitions; only ratios are meant
to travel from one machine to another.
"""

import functools
import time
from collections.abc import Callable

import jax
import numpy as np

import pomdpfit as pf
from pomdpfit._bellman import bellman_operator


def least(work: Callable[[], object], repetitions: int = 5) -> float:
    """Seconds of the fastest of several runs, after one that compiles."""
    jax.block_until_ready(jax.tree.leaves(work()))
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        jax.block_until_ready(jax.tree.leaves(work()))
        times.append(time.perf_counter() - start)
    return min(times)


@jax.jit
def _apply(operator: object, value: jax.Array) -> jax.Array:
    return operator(value)


def main() -> None:
    model = pf.models.EngineReplacement(bins=175, increments=4, discount=0.9999)
    theta = model.example()
    rng = np.random.default_rng(0)
    good = rng.uniform(size=3000)
    prior = pf.KnownPrior(np.stack([good, 1 - good], axis=1))
    z0 = rng.integers(0, 175, size=3000)
    solution = pf.solve(model, theta)
    simulate = functools.partial(
        pf.simulate, model, theta, agents=3000, periods=100, prior=prior, z0=z0, solution=solution
    )
    panel = simulate(seed=0)
    seconds = least(lambda: simulate(seed=1).z)
    print(f"simulate 3000 agents x 100 periods, solution given: {seconds:.2f} s")

    likelihood = pf.Likelihood(model, panel, prior=prior)
    start = likelihood(theta).start
    moved = {**theta, "RC": theta["RC"] * 1.02, "cost": theta["cost"] * 1.02}
    value = least(lambda: likelihood(moved, start=start).choice)
    gradient = least(lambda: likelihood.gradient(moved, start=start)[1].to_numpy())
    scores = least(lambda: likelihood.scores(moved, start=start)[1].to_numpy(), 3)
    print(f"log-likelihood, warm start after a 2 % move: {value:.3f} s = 1")
    print(f"  with its full gradient (11 parameters):    {gradient / value:.2f}")
    print(f"  with all 3000 agents' scores:              {scores / value:.2f}")

    for grid in (pf.Linear(101), pf.Smooth(101)):
        solution = pf.solve(model, theta, grid=grid)
        operator = bellman_operator(solution.primitives, grid)
        unit = least(lambda op=operator, v=solution.coefficients: _apply(op, v), 50)
        print(f"{grid}: one application of the operator = {1e3 * unit:.2f} ms = 1")
        for solver in (pf.Newton(), pf.RelativeValueIteration()):
            name = type(solver).__name__
            cold = least(lambda s=solver, g=grid: pf.solve(model, theta, grid=g, solver=s), 3)
            steps = pf.solve(model, theta, grid=grid, solver=solver).steps
            print(f"  {name}, cold start: {cold / unit:.0f} ({steps} steps)")
        warm = least(lambda g=grid, s=solution: pf.solve(model, moved, grid=g, start=s), 3)
        print(f"  Newton, warm start after a 2 % move: {warm / unit:.0f}")


if __name__ == "__main__":
    main()
