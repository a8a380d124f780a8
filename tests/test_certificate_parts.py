"""The pieces of the certificate's proof, each against brute force."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from pomdpfit._bellman import bellman_operator
from pomdpfit._precision import require_float64
from pomdpfit.certificate import _cells, _regeneration
from test_certificate import BINS, engine, everywhere


def solved() -> pf.Solution:
    return pf.solve(engine(), engine().example(), grid=pf.Linear(16))


convex_pieces = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=6)


@settings(max_examples=50, deadline=None)
@given(pieces=convex_pieces, width=st.floats(0.01, 2))
def test_tangents_bound_a_convex_function_from_below(pieces, width):
    """f = max of lines; its values and subgradients at both ends bound it in between."""
    require_float64()
    level, slope = np.array(pieces).T
    s = np.linspace(0, width, 200)
    lines = level + np.outer(s, slope)
    f = lines.max(axis=1)
    ends = [(f[k], slope[lines[k].argmax()]) for k in (0, -1)]
    (f0, g0), (f1, g1) = ends
    low = float(_cells._lowest(*map(jnp.asarray, (f0, g0, f1, g1)), width))
    assert low <= f.min() + 1e-12 * (1 + np.abs(f).max())


def test_gap_bounds_dominate_dense_samples():
    """delta = V_U - T V_U at 60 points of every cell never exceeds the bound for the cell."""
    solution, cells = solved(), 15
    value = _cells.convexified(solution.coefficients[..., 0], cells)
    rho = jnp.asarray(solution.residual + 1e-11)  # the solver's, and what convexity took away
    bounds = eqx.filter_jit(_cells.cell_bounds)(solution.primitives, solution.grid, value, rho)
    y = jnp.asarray((np.arange(cells)[:, None] + np.linspace(0, 1, 60)).ravel() / cells)
    q, _ = eqx.filter_jit(_cells._lines)(solution.primitives, cells, value, y)
    best = np.asarray(solution.primitives.shock.emax(jnp.moveaxis(q, 1, -1)))
    nodes = np.linspace(0, 1, cells + 1)
    chord = np.array([np.interp(y, nodes, row) for row in np.asarray(value)])
    sampled = (chord - best).reshape(BINS, cells, 60)
    assert np.all(sampled >= -rho)
    assert np.all(sampled <= np.asarray(bounds.gap)[..., None])
    q = np.asarray(q).reshape(BINS, 2, cells, 60)
    assert np.all(q <= np.asarray(bounds.q_high)[..., None])
    assert np.all(q >= np.asarray(bounds.q_low)[..., None])
    # Nor is the bound loose: within a factor of three of what is there.
    assert np.asarray(bounds.gap).max() < 3 * sampled.max() + 1e-9


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_bend_bounds_the_excess_over_the_chord(seed):
    """sigma f(lambda) for random piecewise linear f and random substochastic P."""
    require_float64()
    rng = np.random.default_rng(seed)
    M = 8
    f = rng.normal(size=M + 1)
    P = rng.dirichlet(np.ones(4) * rng.choice([0.2, 1.0]), size=2).reshape(2, 2, 2)[:, 0]
    kernel = eqx.tree_at(lambda k: k.probability, _one_kernel(), jnp.asarray(P)[None, None, None])
    bend = np.asarray(_regeneration._bend(kernel, M))[0, 0, 0]
    kappa = max(0.0, float(np.max(2 * f[1:-1] - f[2:] - f[:-2])))
    for cell in range(M):
        t = np.linspace(0, 1, 101)
        y = (cell + t) / M
        mass = np.stack([1 - y, y], axis=1) @ P
        sigma = mass.sum(axis=1)
        next_y = np.divide(mass[:, 1], sigma, out=np.zeros_like(sigma), where=sigma > 0)
        h = sigma * np.interp(next_y, np.linspace(0, 1, M + 1), f)
        excess = h - ((1 - t) * h[0] + t * h[-1])
        assert excess.max() <= kappa * bend[cell] + 1e-12


def _one_kernel() -> pf.Kernel:
    return pf.Kernel(np.zeros((1, 1, 1), dtype=int), jnp.zeros((1, 1, 1, 2, 2)), observations=1)


def test_supersolution_bounds_the_expected_time_to_a_reset():
    """With one a period for delta, S is the expected discounted time: simulate that."""
    model, solution, beta = engine(), solved(), 0.99
    primitives, grid = solution.primitives, solution.grid
    value = _cells.convexified(solution.coefficients[..., 0], grid.resolution)

    @eqx.filter_jit
    def bound(primitives, value):
        cells = _cells.cell_bounds(primitives, grid, value, jnp.asarray(0.0))
        choice = _regeneration.highest_choice(primitives, cells, 0.0)
        stencil = bellman_operator(primitives, grid).stencil.plain()
        each = jnp.ones((BINS, grid.resolution))
        recursion = _regeneration.recursion(primitives, stencil, each, choice, reset=1)
        return _regeneration.supersolution(recursion)

    f, found = bound(primitives, value)
    assert bool(found)
    P, rng = primitives.kernel.to_dense(), np.random.default_rng(0)
    replace = np.asarray(solution.policy(*everywhere(model, 2001)))[..., 1]
    times = _times_to_reset(rng, P, replace, beta, 3, np.array([0.63, 0.37]), 900)
    most = np.interp(0.37, np.linspace(0, 1, grid.nodes), np.asarray(f)[3])
    standard_error = np.std(times) / 30
    assert np.mean(times) - 5 * standard_error <= most
    # One per cent is the margin, the rest comes from cells: loose bounds would be useless ones.
    assert most <= 1.1 * (np.mean(times) + 5 * standard_error)


def _times_to_reset(rng, P, replace, beta, z, x, paths) -> np.ndarray:
    """The discounted number of periods until the replacement, of many paths from one belief."""
    z, x = np.full(paths, z), np.tile(x, (paths, 1))
    total, weight, running = np.zeros(paths), 1.0, np.ones(paths, dtype=bool)
    while weight > 1e-6 and running.any():
        total[running] += weight
        weight *= beta
        running &= rng.uniform(size=paths) >= replace[z, np.round(x[:, 1] * 2000).astype(int)]
        mass = np.einsum("ns,nszt->nzt", x, P[z, :, 0])
        passed = rng.uniform(size=(paths, 1)) > mass.sum(axis=2).cumsum(axis=1)
        z = np.minimum(passed.sum(axis=1), len(P) - 1)
        x = mass[np.arange(paths), z]
        x /= x.sum(axis=1, keepdims=True)
    return total
