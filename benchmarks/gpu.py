"""Many at once, on whatever device JAX has: a thousand solves, a million points, replicates.

python -m benchmarks.gpu --panel results/group4.npz      on the machine with the device
python -m benchmarks.gpu --write results/group4.npz      where Rust's data are
python -m benchmarks.gpu --thetas 8 --replicates 32      on a CPU

Without a panel one of the size of group 4 (37 buses, 117 months) is simulated. With `--out FILE`
the figures are kept as JSON; `python -m benchmarks --page --device FILE` puts them on the page.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import pomdpfit as pf
from benchmarks.machine import facts
from benchmarks.row import Row
from pomdpfit._bellman import bellman_operator
from pomdpfit._fixed_point import cold_start, solve_infinite
from pomdpfit._precision import in_float64
from pomdpfit.solvers import make_plan

ARRAYS = (
    "z",
    "a",
    "present",
    "acted",
    "score_observation",
    "score_choice",
    "informs",
    "entry",
)


def write(path: Path) -> None:
    """Group 4 with 175 bins as plain arrays."""
    data = pf.datasets.rust1987(4, 175)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: getattr(data.panel, name) for name in ARRAYS}
    np.savez_compressed(path, **arrays, increments=data.increments, reset=data.reset)


def read(path: Path | None) -> tuple[pf.models.EngineReplacement, pf.Panel]:
    """The model and the panel; simulated at the example where there is none."""
    if path is None:
        model = pf.models.EngineReplacement(175, 4)
        prior, z0 = pf.KnownPrior([1.0, 0.0]), np.zeros(37, dtype=int)
        made = pf.simulate(
            model, model.example(), agents=37, periods=117, seed=0, prior=prior, z0=z0
        )
        assert isinstance(made, pf.Panel)
        return model, made
    with np.load(path) as found:
        model = pf.models.EngineReplacement(
            175, int(found["increments"]), reset=str(found["reset"])
        )
        arrays = {name: found[name] for name in ARRAYS}
    agents, periods = arrays["z"].shape
    times = np.broadcast_to(np.arange(periods), (agents, periods))
    names = tuple(f"bus {i}" for i in range(agents))
    return model, pf.Panel(**arrays, times=times, agents=names)


def timed(what: str, work: Callable[[], object], times: int = 3) -> tuple[object, float]:
    """What the work gives, and the seconds of its fastest run."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        result = jax.block_until_ready(work())
        seconds.append(time.perf_counter() - began)
    later = f", then {min(seconds[1:]):.2f} s" if seconds[1:] else ""
    print(f"{what}: {seconds[0]:.2f} s with compilation{later}", flush=True)
    return result, min(seconds)


@in_float64
def many_solves(count: int, nodes: int) -> list[Row]:
    """So many thetas of the bus model, linear interpolation, discount 0.9999, cold, one call."""
    model, scheme, solver = pf.models.EngineReplacement(175, 4), pf.Linear(nodes), pf.Newton()
    example = model.example()
    rng = np.random.default_rng(0)
    share = lambda name: rng.uniform(0.8, 1.2, size=(count, *example[name].shape)) * example[name]
    increment = share("increment")
    thetas = {
        "RC": share("RC"),
        "cost": share("cost"),
        "stay": 1 - rng.uniform(0.5, 1.5, size=(count, 2)) * (1 - example["stay"]),
        "increment": increment / increment.sum(axis=-1, keepdims=True),
        "discount": jnp.full(count, example["discount"]),
    }
    plan = make_plan(model.primitives(example).kernel)
    start = cold_start(model.primitives(example), scheme)

    @jax.jit
    @jax.vmap
    def solve(theta: dict) -> tuple:
        state = solve_infinite(model.primitives(theta), scheme, solver, plan, start)
        return state.residual, state.steps

    what = f"{count} solves, 175 bins x {nodes} beliefs"
    (residual, steps), seconds = timed(what, lambda: solve(thetas))  # type: ignore[misc]
    note = f"{np.min(steps)} to {np.max(steps)} steps, residuals up to {np.max(residual):.1e}"
    print(f"  {note}")
    return [Row(f"{what}, discount 0.9999, cold, in one call", seconds, "s", note=note)]


@in_float64
def million_points(bins: int, nodes: int, peak: float | None) -> list[Row]:
    """Four hidden conditions at discount 0.99: one large grid, and T's share of the bandwidth."""
    model, scheme = pf.models.EngineReplacement(bins, 4, 0.99, conditions=4), pf.Linear(nodes)
    theta = model.example()
    points = bins * scheme.size(4)
    what = f"|S| = 4, {points:,} points, discount 0.99: one solve"
    solution, took = timed(what, lambda: _coefficients(model, theta, scheme))
    operator = eqx.filter_jit(bellman_operator)(model.primitives(theta), scheme)
    many = 50
    repeat = eqx.filter_jit(
        lambda operator, v: jax.lax.fori_loop(0, many, lambda _, v: operator(v), v)
    )
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        jax.block_until_ready(repeat(operator, solution))
        seconds.append((time.perf_counter() - began) / many)
    arrays = jax.tree.leaves((operator.stencil, operator.reward, solution, solution))
    traffic = sum(leaf.nbytes for leaf in arrays)  # everything once: less cannot be moved
    reached = traffic / min(seconds) / 1e9
    note = f"{1e3 * min(seconds):.3f} ms, at least {reached:.0f} GB/s"
    print(f"  T: {note}")
    share = None if peak is None else 100 * reached / peak
    name = "there: share of the memory's bandwidth that the Bellman operator reaches"
    return [Row(what, took, "s"), Row(name, share, "%", note=f"{note}; peak {peak} GB/s")]


def _coefficients(model: pf.Model, theta: dict, scheme: pf.Linear) -> jax.Array:
    found = pf.solve(model, theta, grid=scheme)
    print(f"  {found.steps} steps, residual {found.residual:.1e}")
    return found.coefficients


def many_replicates(
    path: Path | None, replicates: int, grid: object, width: int | None, repeats: int
) -> list[Row]:
    """Bootstrap of the two-stage fit, in batches."""
    model, panel = read(path)
    estimate = pf.fit(
        model, panel, pf.TwoStage(), prior=pf.KnownPrior([1.0, 0.0]), grid=grid, starts=1
    )
    print(f"two-stage fit on {grid}: llf {estimate.llf:.4f}, {estimate.seconds:.1f} s")
    times = []
    for seed in range(repeats):
        began = time.perf_counter()
        found = pf.bootstrap(estimate, replicates, seed=seed, batch=width)
        seconds = time.perf_counter() - began
        times.append(seconds)
        print(
            f"{replicates} replicates: {seconds:.2f} s"
            f"{' with compilation' if seed == 0 else ''}, {len(found.failed)} failed, steps "
            f"{found.info['steps'].min()} to {found.info['steps'].max()}",
            flush=True,
        )
    print(found.to_frame().to_string())
    later = ", ".join(f"{seconds:.1f}" for seconds in times[1:])
    note = f"{times[0]:.1f} s with compilation, then {later} s"
    what = "simulated buses" if path is None else "Rust's group 4"
    name = f"{replicates} bootstrap replicates of the two-stage fit, {what}, {grid}"
    return [Row(name, min(times), "s", 20.0, note=note)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--panel", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--thetas", type=int, default=1000)
    parser.add_argument("--bins", type=int, default=82, help="of the grid with four conditions")
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=101)
    parser.add_argument("--smooth", action="store_true", help="pf.Smooth instead of pf.Linear")
    parser.add_argument("--width", type=int, help="members of a batch; chosen if not given")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--peak", type=float, help="bandwidth of the device's memory, GB/s")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.write:
        write(given.write)
        return
    print(f"{jax.devices()[0].device_kind} ({jax.devices()[0].platform})")
    rows = []
    if given.thetas:
        rows += many_solves(given.thetas, given.nodes)
    if given.bins:
        rows += million_points(given.bins, 41, given.peak)
    if given.replicates:
        grid = (pf.Smooth if given.smooth else pf.Linear)(given.nodes)
        rows += many_replicates(given.panel, given.replicates, grid, given.width, given.repeats)
    if given.out:
        kept = {"facts": facts(), "rows": [row.as_json() for row in rows]}
        given.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
