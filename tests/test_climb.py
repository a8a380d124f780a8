"""The climb: toy likelihoods whose maximum is known, and some that have none."""

import itertools

import numpy as np
import pytest
import scipy.optimize
from scipy.special import expit

import pomdpfit as pf
from pomdpfit._entries import Entries, free_entries, project
from pomdpfit._errors import ImpossibleObservationError, Result
from pomdpfit._log_likelihood import AbstractLikelihood, LogLikelihood, Part
from pomdpfit._params import ParameterSpace
from pomdpfit._restrictions import parse_restrictions
from pomdpfit.estimators import _verdict
from pomdpfit.estimators._climb import climb
from pomdpfit.estimators._kinks import on_kinks
from pomdpfit.estimators._objective import Objective
from pomdpfit.estimators._walk import Climb, attend
from pomdpfit.inference._information import information_at

# A promised gain of 1e-14 is a distance of sqrt(2e-14) = 1.4e-7 standard errors. Standard errors
# of the scores' and those of the curvature differ in samples of this size by less than ten times.
TIGHT, DISTANCE = 1e-14, 1.5e-6


class Toy(AbstractLikelihood):
    """Any smooth function: theta -> parts (N, 2) and a tree of their slopes (N, 2, *shape)."""

    model = None

    def __init__(self, parameters, function, agents, dynamics=()):
        self.space, self.function = ParameterSpace(parameters), function
        zeros = np.zeros((agents, 1), dtype=int)
        self.panel, self._dynamics = pf.Panel.from_arrays(zeros, zeros), frozenset(dynamics)
        self.evaluations = 0

    @property
    def dynamics(self):
        return self._dynamics

    @property
    def states(self):
        return 1

    def _at(self, theta, part, counts):
        self.evaluations += 1
        with np.errstate(all="ignore"):
            parts, slopes = self.function({n: np.asarray(leaf) for n, leaf in theta.items()})
        wanted = np.array([Part.OBSERVATION in part, Part.CHOICE in part])
        parts = np.where(wanted, parts, 0.0)
        if (np.isneginf(parts).any(axis=1) & counts).any():
            raise ImpossibleObservationError("an agent has likelihood zero.")
        alive = wanted & ~np.isneginf(parts)
        for n, slope in slopes.items():
            slopes[n] = np.where(alive.reshape(*alive.shape, *(1,) * (slope.ndim - 2)), slope, 0.0)
        belief = np.ones((len(parts), 1, 1))
        return LogLikelihood(parts[:, :1], parts[:, 1:], belief, self.panel, 0.0, 0, None), slopes

    def terms(self, theta, *, part=Part.BOTH, start=None):
        return self._at(theta, part, np.ones(self.panel.agent_count, dtype=bool))[0]

    def pull(self, theta, weights, names, *, part=Part.BOTH, start=None):
        terms, slopes = self._at(theta, part, np.abs(weights).sum(axis=1) > 0)
        return terms, {n: np.tensordot(weights, slopes[n], axes=2) for n in names}

    def push(self, theta, directions, *, part=Part.BOTH, start=None, among=None):
        among = np.ones(self.panel.agent_count, dtype=bool) if among is None else among
        terms, slopes = self._at(theta, part, among)
        total = 0.0
        for n, d in directions.items():
            size = int(np.prod(np.shape(theta[n])))
            total = total + slopes[n].reshape(-1, 2, size) @ np.reshape(d, (-1, size)).T
        return terms, np.where(among[:, None, None], total, 0.0)

    def choice_probabilities(self, theta, *, start=None):
        raise NotImplementedError

    def simulate(self, theta, seed):
        raise NotImplementedError


def as_choice(value, **slopes):
    """Terms of the choice part alone."""
    both = lambda array: np.stack([np.zeros_like(array), array], axis=1)
    return both(value), {name: both(slope) for name, slope in slopes.items()}


def multinomial(counts, start) -> Toy:
    """sum_k c_ik log p_k: the maximum is at the share of each category."""
    counts = np.asarray(counts, dtype=float)

    def function(theta):
        p = theta["p"]
        seen = counts > 0
        value = np.where(seen, counts * np.log(p), 0.0).sum(axis=1)
        return as_choice(value, p=np.where(seen, counts / p, 0.0))

    return Toy({"p": pf.Parameter(start, pf.Simplex())}, function, len(counts))


def normal(targets, precision, parameter) -> Toy:
    """-(t_i - b) A (t_i - b) / 2: a concave quadratic."""
    targets, A = np.asarray(targets, dtype=float), np.asarray(precision, dtype=float)

    def function(theta):
        gap = targets - theta["b"].ravel()
        slope = gap @ A
        return as_choice(-0.5 * (gap * slope).sum(axis=1), b=slope.reshape(-1, *parameter.shape))

    return Toy({"b": parameter}, function, len(targets))


def run(toy, *, texts=(), theta=None, weights=None, **options) -> tuple[Climb, Entries]:
    theta = {n: np.asarray(v) for n, v in (theta or toy.space.example()).items()}
    restrictions = parse_restrictions(texts, toy.space.names) if texts else None
    leaves = [name for name, p in toy.space.parameters.items() if not p.fixed]
    entries = free_entries(toy.space, leaves, theta, restrictions)
    objective = Objective(toy, entries, Part.BOTH, theta, weights)
    phi = project(entries, entries.flatten(theta))
    agents = np.count_nonzero(objective.agent_weights)
    walk = climb(entries, phi, agents, **{"tolerance": TIGHT, **options})
    return attend(objective, walk), entries


def shares(counts) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of the multinomial, and the standard errors of its entries."""
    total = np.sum(counts)
    share = np.sum(counts, axis=0) / total
    return share, np.sqrt(share * (1 - share) / total)


def quadratic_maximum(targets, A, entries: Entries) -> np.ndarray:
    """By brute force: the maximum on every face's plane, and the highest that is inside.

    Simplex entries, whose upper bounds follow from the lower ones.
    """
    n, mean, best = len(A), np.mean(targets, axis=0), None
    height = lambda x: -0.5 * (mean - x) @ A @ (mean - x)
    for face in itertools.product([False, True], repeat=n):
        rows = np.vstack([entries.equations, np.eye(n)[np.array(face)]])
        level = np.append(entries.level, np.zeros(sum(face)))
        system = np.block([[A, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
        x = np.linalg.lstsq(system, np.append(A @ mean, level), rcond=None)[0][:n]
        if (x < -1e-11).any() or np.abs(rows @ x - level).max() > 1e-10:
            continue
        if best is None or height(x) > height(best):
            best = x
    return best


# ---- (a) shares --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_maximum_of_a_multinomial_is_the_share(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    counts = rng.multinomial(3, rng.dirichlet(2 * np.ones(k)), size=40 * k)
    done, entries = run(multinomial(counts, rng.dirichlet(np.ones(k))))
    share, se = shares(counts)
    assert done.converged
    assert done.gain <= TIGHT
    np.testing.assert_allclose(done.phi, share, atol=DISTANCE * se.max())
    np.testing.assert_array_equal(entries.at_bound(done.phi), share == 0)
    np.testing.assert_allclose(done.phi.sum(), 1, atol=1e-12)
    seen = counts.sum(axis=0) > 0
    np.testing.assert_allclose(done.value, counts.sum(axis=0)[seen] @ np.log(share[seen]))
    assert (np.diff(done.trace) >= -1e-12 * abs(done.value)).all()


@pytest.mark.parametrize("seed", range(12))
def test_what_is_never_seen_has_probability_zero_exactly(seed):
    rng = np.random.default_rng(seed)
    k, unseen = int(rng.integers(3, 7)), int(rng.integers(1, 3))
    p = np.append(rng.dirichlet(3 * np.ones(k - unseen)), np.zeros(unseen))[rng.permutation(k)]
    counts = rng.multinomial(4, p, size=50 * k)
    done, entries = run(multinomial(counts, rng.dirichlet(np.ones(k))))
    share, se = shares(counts)
    assert done.converged
    np.testing.assert_array_equal(done.phi[share == 0], 0.0)
    np.testing.assert_array_equal(entries.at_bound(done.phi), share == 0)
    np.testing.assert_allclose(done.phi, share, atol=DISTANCE * se.max())


def test_a_single_category_takes_all():
    done, entries = run(multinomial([[0, 3, 0]] * 5, [0.3, 0.4, 0.3]))
    assert done.converged
    np.testing.assert_array_equal(done.phi, [0, 1, 0])
    assert done.value == 0
    assert entries.at_bound(done.phi).all()


def test_a_category_seen_by_nobody_who_counts_is_not_seen():
    rng = np.random.default_rng(0)
    counts = np.vstack([rng.multinomial(3, [0.5, 0.3, 0.2, 0.0], size=60), [[0, 0, 0, 2]]])
    weights = np.append(np.ones(60), 0.0)
    done, _ = run(multinomial(counts, [0.25] * 4), weights=weights)
    share, se = shares(counts[:-1])
    assert done.converged
    assert done.phi[3] == 0.0
    np.testing.assert_allclose(done.phi, share, atol=DISTANCE * se.max())


def test_a_restricted_multinomial():
    """p0 = p1: the two share what falls to either."""
    counts = np.random.default_rng(1).multinomial(3, [0.1, 0.3, 0.4, 0.2], size=80)
    done, _ = run(multinomial(counts, [0.4, 0.2, 0.2, 0.2]), texts=["p[0] = p[1]"])
    share, se = shares(counts)
    expected = [share[:2].mean()] * 2 + list(share[2:])
    assert done.converged
    np.testing.assert_allclose(done.phi, expected, atol=DISTANCE * se.max())
    assert done.phi[0] == pytest.approx(done.phi[1], abs=1e-13)


# ---- (b) another optimiser ---------------------------------------------------------------------


def logit(seed=0, N=120, scale=(1.0, 1.0, 1.0)) -> tuple[Toy, np.ndarray, np.ndarray]:
    """Choices between two; coefficients in units of `scale`."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 2))])
    y = (rng.random(N) < expit(X @ [0.3, -1.0, 0.7])).astype(float)

    def function(theta):
        index = (X / scale) @ theta["b"]
        value = y * index - np.logaddexp(0, index)
        return as_choice(value, b=(y - expit(index))[:, None] * X / scale)

    return Toy({"b": pf.Parameter(np.zeros(3))}, function, N), X, y


def test_a_logit_has_the_maximum_that_newton_finds():
    toy, X, y = logit()
    b = np.zeros(3)
    for _ in range(30):  # Newton's method on a concave function, to rounding
        p = expit(X @ b)
        b = b + np.linalg.solve(X.T @ (X * (p * (1 - p))[:, None]), X.T @ (y - p))
    done, _ = run(toy, tolerance=1e-18)
    assert done.converged
    # sqrt(2e-18) = 1.4e-9 standard errors, which are below one.
    np.testing.assert_allclose(done.phi, b, atol=1e-8)


# ---- (c) quadratics under bounds and equations -------------------------------------------------


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_quadratics_between_bounds_and_on_equations(seed, restricted):
    """Two rows of probabilities; most maxima lie on faces and many on vertices."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 6))
    A = A @ A.T + 0.3 * np.eye(6)
    noise = np.linalg.solve(np.linalg.cholesky(A).T, rng.normal(size=(6, 50))).T
    targets = 1 / 3 + 0.6 * rng.normal(size=6) + noise
    start = rng.dirichlet(np.ones(3), size=2)
    toy = normal(targets, A, pf.Parameter(start, pf.Simplex()))
    texts = ["b[0, 0] = b[1, 1]"] if restricted else []
    done, entries = run(toy, texts=texts)
    best = quadratic_maximum(targets, A, entries)
    assert done.converged
    # Standard errors are of the order of one over the root of 50 eigenvalues of at least 0.3.
    np.testing.assert_allclose(done.phi, best, atol=DISTANCE)
    np.testing.assert_array_equal(entries.at_bound(done.phi)[best < 1e-9], True)
    np.testing.assert_allclose(entries.equations @ done.phi, entries.level, atol=1e-12)


VERTICES = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]


@pytest.mark.parametrize("start", [*VERTICES, [1e-13, 1 - 1e-13, 0]])
@pytest.mark.parametrize("mean", [[-0.5, 0.4, 0.6], [0.6, -0.5, 0.4], [0.3, 0.3, 0.4], [2, 0, 0.0]])
def test_a_vertex_is_left_where_it_is_not_the_maximum(start, mean):
    rng = np.random.default_rng(1)
    targets = np.array(mean) + rng.normal(size=(40, 3))
    done, entries = run(normal(targets, np.eye(3), pf.Parameter(start, pf.Simplex())))
    assert done.converged
    best = quadratic_maximum(targets, np.eye(3), entries)
    np.testing.assert_allclose(done.phi, best, atol=DISTANCE)


def test_entries_tied_to_one_another_leave_their_bounds_together():
    """c = a + b with all three on zero: one can only rise if another does."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    targets = np.array([-1.0, 2.0, 2.0]) + rng.normal(size=(30, 3))

    def function(theta):
        gap = targets - np.array([theta[n] for n in names])
        return as_choice(-0.5 * (gap**2).sum(axis=1), **dict(zip(names, gap.T, strict=True)))

    toy = Toy({n: pf.Parameter(0.0, pf.Positive()) for n in names}, function, 30)
    done, _ = run(toy, texts=["c = a + b"])
    # With a = 0 the best b = c is the mean of both targets.
    best = targets[:, 1:].mean()
    assert done.converged
    np.testing.assert_allclose(done.phi, [0, best, best], atol=DISTANCE)
    assert done.phi[0] == 0.0


# ---- (d) where there is no maximum to be had ---------------------------------------------------

K = np.linspace(-1, 3, 9)  # targets of mean 1


def bump(theta):
    gap = K - theta["x"]
    return as_choice(-0.5 * gap**2, x=gap)


def x_at(value, constraint=None, **more):
    return {"x": pf.Parameter(value, constraint or pf.Real()), **more}


def spoiled(what, beyond):
    """The bump, with value or slope replaced beyond a point."""

    def function(theta):
        value, slope = bump(theta)
        if theta["x"] > beyond:
            value = value + what[0]
            slope = {"x": slope["x"] + what[1]}
        return value, slope

    return function


SPOILS = {"impossible": (-np.inf, 0.0), "nan": (np.nan, 0.0), "nan slope": (0.0, np.nan)}


@pytest.mark.parametrize("what", SPOILS)
def test_an_edge_is_not_a_maximum(what):
    done, _ = run(Toy(x_at(-2.0), spoiled(SPOILS[what], 0.5), len(K)))
    assert not done.converged
    assert done.result in {Result.STALLED, Result.MAX_STEPS}
    assert done.phi[0] <= 0.5
    assert np.isfinite(done.value)
    assert np.isfinite(done.gradient).all()


@pytest.mark.parametrize("what", SPOILS)
def test_a_start_without_a_likelihood_is_told(what):
    done, _ = run(Toy(x_at(2.0), spoiled(SPOILS[what], 0.5), len(K)))
    assert done.result is Result.NOT_FINITE
    assert not done.converged
    np.testing.assert_array_equal(done.phi, [2.0])


@pytest.mark.parametrize("what", SPOILS)
def test_a_step_into_nowhere_is_shortened(what):
    """The maximum is short of the edge, the first steps (scores are small far away) are not."""
    done, _ = run(Toy(x_at(-40.0), spoiled(SPOILS[what], 1.01), len(K)))
    assert done.converged
    np.testing.assert_allclose(done.phi, [1.0], atol=DISTANCE)


def saddle(theta):
    """Along x a maximum at 0; along y a minimum at 0 between two maxima."""
    k = np.linspace(-1, 1, 8)
    x, y = theta["x"], theta["y"]
    value = -0.5 * (x - k) ** 2 + 0.5 * (y - k) ** 2 - (y - k) ** 4 / 40
    return as_choice(value, x=-(x - k), y=(y - k) - (y - k) ** 3 / 10)


def ridge(theta):
    """x + y alone matters."""
    gap = K - theta["x"] - theta["y"]
    return as_choice(-0.5 * gap**2, x=gap, y=gap)


def idle(theta):
    """y does not matter."""
    value, slope = bump(theta)
    return value, {**slope, "y": np.zeros_like(value)}


def verdict(toy, done, entries) -> Result:
    """What fit() makes of a climb."""
    theta = entries.insert(done.phi, toy.space.example())
    held = entries.at_bound(done.phi)
    chart = entries.chart(done.phi, held, np.arange(len(done.phi), dtype=float))
    information = information_at(toy, entries, theta, chart, None)
    return _verdict.verdict((done,), information)[0]


def test_a_saddle_is_left_from_nearby():
    toy = Toy(x_at(1.0, y=pf.Parameter(1e-3)), saddle, 8)
    done, entries = run(toy)
    assert done.converged
    assert abs(done.phi[1]) > 1
    # d/dy sum = 8 y - sum (y - k)^3 / 10 = 0 with sum k = sum k^3 = 0: y^2 = 10 - 3 mean k^2.
    k = np.linspace(-1, 1, 8)
    np.testing.assert_allclose(done.phi[1] ** 2, 10 - 3 * np.mean(k**2), rtol=1e-5)
    np.testing.assert_allclose(done.phi[0], 0, atol=1e-5)
    assert verdict(toy, done, entries) is Result.CONVERGED


@pytest.mark.parametrize(
    ("function", "agents", "expected"),
    [(saddle, 8, Result.NOT_A_MAXIMUM), (ridge, 9, Result.FLAT), (idle, 9, Result.FLAT)],
)
def test_what_is_stationary_but_no_maximum_is_never_called_converged(function, agents, expected):
    """The climb sees gradients alone; fit() looks at the Hessian before it speaks."""
    toy = Toy(x_at(0.0, y=pf.Parameter(0.0)), function, agents)
    done, entries = run(toy)
    assert verdict(toy, done, entries) is expected


@pytest.mark.parametrize("function", [ridge, idle])
def test_flat_directions_do_not_hurt_the_others(function):
    toy = Toy(x_at(-5.0, y=pf.Parameter(2.0)), function, len(K))
    done, _ = run(toy)
    np.testing.assert_allclose(done.value, bump({"x": np.array(1.0)})[0].sum(), rtol=1e-12)
    assert done.steps < 50


def barely(tiny):
    """The bump in x, and a slope in y that is the same for all agents and next to nothing."""

    def function(theta):
        value, slope = bump(theta)
        return as_choice(
            value[:, 1] + tiny * theta["y"], x=slope["x"][:, 1], y=np.full(len(K), tiny)
        )

    return function


@pytest.mark.parametrize("tiny", [1e-40, -1e-40, 1e-150])
@pytest.mark.parametrize("constraint", [pf.Real(), pf.Interval(0.0, 10.0)])
def test_what_cannot_matter_is_left_where_it_was(tiny, constraint):
    """In units of its scores the way to go in y is long, but it leads nowhere worth going."""
    alone, _ = run(Toy(x_at(-5.0), bump, len(K)))
    toy = Toy(x_at(-5.0, y=pf.Parameter(2.0, constraint)), barely(tiny), len(K))
    done, entries = run(toy)
    assert alone.converged
    assert done.phi[1] == 2.0
    assert done.steps == alone.steps
    np.testing.assert_allclose(done.phi[0], 1.0, atol=DISTANCE)
    # Between bounds nothing is promised of y; without them the climb itself knows of it.
    assert done.converged == (constraint != pf.Real())
    assert verdict(toy, done, entries) is Result.FLAT


@pytest.mark.parametrize("unit", [1e12, 1e30])
def test_a_small_slope_in_a_large_parameter_does_matter(unit):
    """Scores are next to nothing in both: what counts is how far their parameter can be moved."""

    def function(theta):
        gap = K - theta["x"] / unit
        return as_choice(-0.5 * gap**2, x=gap / unit)

    done, _ = run(Toy(x_at(-5.0 * unit), function, len(K)))
    assert done.converged
    np.testing.assert_allclose(done.phi / unit, [1.0], atol=DISTANCE)


@pytest.mark.parametrize("agents", [1, 4])
def test_no_maximum_at_all(agents):
    """A separable logit rises for ever: the promised gain vanishes, the next step does not."""
    x = np.linspace(1, 2, agents)

    def function(theta):
        index = x * theta["x"]
        return as_choice(-np.logaddexp(0, -index), x=x * expit(-index))

    done, _ = run(Toy(x_at(0.0), function, agents), max_steps=30, tolerance=1e-8)
    assert not done.converged


# ---- (e) few agents ----------------------------------------------------------------------------


@pytest.mark.parametrize("agents", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_fewer_agents_than_parameters(agents, seed):
    """The outer product of their scores is singular, and in its units nothing is ever near."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(40, rng.dirichlet(4 * np.ones(5)), size=agents)
    done, _ = run(multinomial(counts, rng.dirichlet(4 * np.ones(5))), tolerance=1e-8)
    share, se = shares(counts)
    assert done.converged
    # 1.4e-4 standard errors; ten times that, for curvature is known only roughly here.
    np.testing.assert_allclose(done.phi, share, atol=1.4e-3 * se.max())


def test_the_likelihood_of_one_agent():
    def function(theta):
        gap = np.array([3.0]) - theta["x"]
        return as_choice(-0.5 * gap**2, x=gap)

    done, _ = run(Toy(x_at(0.0), function, 1))
    assert done.converged
    np.testing.assert_allclose(done.phi, [3.0], atol=1e-5)


# ---- (f) units ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [(1e6, 1e-6, 1.0), (1e-6, 1e-6, 1e-6), (1e6, 1e6, 1e6)])
def test_units_change_nothing(scale):
    plain, _ = run(logit()[0])
    scaled, _ = run(logit(scale=scale)[0])
    assert scaled.converged
    assert scaled.steps == plain.steps
    np.testing.assert_allclose(scaled.phi / scale, plain.phi, rtol=1e-8)
    np.testing.assert_allclose(scaled.trace, plain.trace, rtol=1e-9)


def test_units_change_nothing_where_there_are_bounds():
    """Exponential waiting times of two kinds: rates of 1e-6 and 1e6, the maximum is 1 / mean."""
    rng = np.random.default_rng(0)
    waits = rng.exponential(size=(60, 2)) * [1e6, 1e-6]
    names = ["a", "b"]

    def function(theta):
        rate = np.array([theta[n] for n in names])
        slope = (1 / rate - waits).T
        value = (np.log(rate) - rate * waits).sum(axis=1)
        return as_choice(value, **dict(zip(names, slope, strict=True)))

    parameters = {"a": pf.Parameter(3e-6, pf.Positive()), "b": pf.Parameter(4e5, pf.Positive())}
    done, _ = run(Toy(parameters, function, 60))
    best = 1 / waits.mean(axis=0)
    assert done.converged
    np.testing.assert_allclose(done.phi, best, rtol=DISTANCE)  # their standard error is best / 8


# ---- (g) bounds --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "constraint", "best"),
    [
        (0.0, pf.Interval(0.0, 4.0), 1.0),
        (4.0, pf.Interval(0.0, 4.0), 1.0),
        (0.0, pf.Positive(), 1.0),
        (0.4, pf.Interval(0.1, 0.7), 0.7),
        (0.1, pf.Interval(0.1, 0.7), 0.7),
        (0.7, pf.Interval(0.1, 0.7), 0.7),
        (2.3, pf.Interval(1.7, 3.1), 1.7),
        (3.1, pf.Interval(1.7, 3.1), 1.7),
        (0.3, pf.Interval(0.0, 1 - 1e-9, open_above=True), None),
        (0.6, pf.Interval(1 / 3, 1.0, open_above=True), None),
    ],
)
def test_bounds_are_left_and_reached(start, constraint, best):
    done, entries = run(Toy(x_at(start, constraint), bump, len(K)))
    low, high = constraint.bounds()
    best = high if best is None else best
    assert done.converged
    if best in (low, high):
        assert done.phi[0] == best  # to the last bit, so that it can be told
        assert entries.at_bound(done.phi).all()
    else:
        np.testing.assert_allclose(done.phi, [best], atol=DISTANCE)
        assert not entries.at_bound(done.phi).any()


def test_a_bound_that_holds_one_entry_does_not_hold_the_rest():
    """A box around part of a quadratic: against scipy's own bounded least squares."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(5, 5))
    A = A @ A.T + 0.2 * np.eye(5)
    noise = np.linalg.solve(np.linalg.cholesky(A).T, rng.normal(size=(5, 60))).T
    targets = rng.normal(0.5, 0.3, size=5) + noise
    toy = normal(targets, A, pf.Parameter(np.full(5, 0.5), pf.Interval(0, 1)))
    root = np.linalg.cholesky(A).T
    best = scipy.optimize.lsq_linear(
        root, root @ targets.mean(axis=0), (0, 1), method="bvls", tol=1e-14
    ).x
    done, entries = run(toy)
    assert done.converged
    assert 0 < entries.at_bound(done.phi).sum() < 5  # the case is what it says
    np.testing.assert_allclose(done.phi, best, atol=DISTANCE)


def test_fixed_leaves_do_not_move():
    toy = Toy({**x_at(0.0), "y": pf.Parameter(7.0, fixed=True)}, idle, len(K))
    done, entries = run(toy)
    assert entries.names == ("x",)
    assert done.converged
    np.testing.assert_allclose(done.phi, [1.0], atol=DISTANCE)


def test_nothing_to_move():
    toy = Toy(x_at(0.0), bump, len(K))
    done, _ = run(toy, texts=["x = 2"])
    assert done.converged
    assert done.steps == 0
    np.testing.assert_array_equal(done.phi, [2.0])
    np.testing.assert_allclose(done.value, bump({"x": np.array(2.0)})[0].sum())


# ---- (h) weights -------------------------------------------------------------------------------


def test_a_weight_of_two_is_an_agent_listed_twice():
    rng = np.random.default_rng(4)
    counts = rng.multinomial(3, [0.5, 0.2, 0.2, 0.1], size=40)
    weights = rng.integers(0, 4, size=40)
    start = [0.25] * 4
    weighted, _ = run(multinomial(counts, start), weights=weights.astype(float))
    listed, _ = run(multinomial(np.repeat(counts, weights, axis=0), start))
    assert weighted.steps == listed.steps
    np.testing.assert_allclose(weighted.trace, listed.trace, rtol=1e-12)
    np.testing.assert_allclose(weighted.phi, listed.phi, atol=1e-10)
    share, se = shares(counts * weights[:, None])
    np.testing.assert_allclose(weighted.phi, share, atol=DISTANCE * se.max())


# ---- what a climb says of itself ---------------------------------------------------------------


def test_too_few_steps_are_not_convergence():
    toy, _, _ = logit()
    full, _ = run(toy)
    assert full.steps > 2
    done, _ = run(toy, max_steps=2)
    assert done.result is Result.MAX_STEPS
    assert done.steps == 2
    np.testing.assert_allclose(done.trace, full.trace[:3], rtol=1e-14)


def test_every_step_is_told():
    told = []
    done, _ = run(logit()[0], tell=lambda *what: told.append(what))
    assert [step for step, _, _ in told] == list(range(1, done.steps + 1))
    np.testing.assert_array_equal([value for _, value, _ in told], done.trace[1:])
    assert (np.diff(done.trace) > 0).sum() >= done.steps - 1


# ---- a real likelihood -------------------------------------------------------------------------


def bus(increment, agents=40, periods=15):
    """A small bus engine and a panel drawn from it."""
    model = pf.baselines.BusEngine(bins=12, increments=len(increment), discount=0.9)
    theta = {**model.example(), "RC": 3.0, "cost": 400.0, "increment": np.array(increment)}
    empty = np.zeros((agents, periods), dtype=int)
    likelihood = pf.baselines.NFXPLikelihood(model, pf.Panel.from_arrays(empty, empty))
    return model, likelihood.simulate(theta, seed=1)


def test_the_bus_engine_has_the_maximum_that_lbfgs_finds():
    model, panel = bus([0.5, 0.3, 0.2])
    likelihood = pf.baselines.NFXPLikelihood(model, panel)
    theta = {n: np.asarray(v) for n, v in model.example().items()}
    leaves, ones = ("RC", "cost", "increment"), np.ones((panel.agent_count, 2))
    unit = np.array([1.0, 100.0, 1.0, 1.0])  # costs are some hundreds

    def fall(y):
        a, b, p, q = unit * y
        at = {**theta, "RC": a, "cost": b, "increment": np.array([p, q, 1 - p - q])}
        terms, tree = likelihood.pull(at, ones, leaves)
        inc = tree["increment"]
        gradient = np.array([tree["RC"], tree["cost"], inc[0] - inc[2], inc[1] - inc[2]])
        return -terms.total, -unit * gradient

    found = scipy.optimize.minimize(
        fall,
        [3.0, 3.0, 0.4, 0.3],
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * 2 + [(0.2, 0.6), (0.1, 0.39)],
        options={"ftol": 1e-15, "gtol": 1e-8, "maxiter": 500},
    )
    entries = free_entries(likelihood.space, leaves, theta)
    objective = Objective(likelihood, entries, Part.BOTH, theta)
    phi = entries.flatten(theta)
    done = attend(objective, climb(entries, phi, panel.agent_count, tolerance=1e-12))
    assert done.converged
    # Both stop where rounding of a value of some hundreds, 1e-13, hides the rest: that is
    # sqrt(2e-13) standard errors; theirs are below 1, 100 and 0.05.
    np.testing.assert_allclose(done.value, -found.fun, rtol=1e-11)
    np.testing.assert_allclose(done.phi[:4] / unit, found.x, atol=2e-5)


def test_an_increment_that_never_happens_is_estimated_as_zero():
    model, panel = bus([0.5, 0.3, 0.2, 0.0])
    with pytest.warns(pf.ConvergenceWarning, match="boundary"):
        estimate = pf.fit(model, panel)
    assert estimate.converged
    assert estimate.params["increment[3]"] == 0.0
    assert estimate.boundary == ("increment[3]",)
    assert np.isnan(estimate.bse["increment[3]"])
    assert (estimate.bse.drop("increment[3]") > 0).all()


# ---- kinks of a linear grid ----------------------------------------------------------------------


def a_likelihood(model, belief, grid):
    panel = pf.Panel.from_arrays([[0, 1, 0]], [[0, 0]])
    return pf.Likelihood(model, panel, prior=pf.KnownPrior(belief), grid=grid)


def test_a_climb_that_ends_on_a_linear_grid_is_told_of_kinks():
    three = a_likelihood(pf.models.EquipmentInspection(), [1.0, 0.0, 0.0], pf.Linear(9))
    told = on_kinks(three, ["decay", "wear"], Result.MAX_STEPS)
    assert "kinks in decay, and" in told
    assert "pf.Linear(17)" in told
    assert "pf.TwoStage()" in told
    assert on_kinks(three, ["decay", "wear"], Result.STALLED) == told
    assert on_kinks(three, ["decay", "wear"], Result.CONVERGED) == ""
    assert on_kinks(three, ["wear"], Result.STALLED) == ""  # weights of the grid do not move
    even = [0.5, 0.5]
    two = a_likelihood(pf.models.Tiger(), even, pf.Linear(5))
    assert "smooth" in on_kinks(two, ["accuracy"], Result.STALLED)
    smooth = a_likelihood(pf.models.Tiger(), even, pf.Smooth(5))
    assert on_kinks(smooth, ["accuracy"], Result.STALLED) == ""


@pytest.mark.full
def test_the_slope_jumps_on_a_linear_grid_and_not_on_a_smooth_one():
    """Over a step of 1e-9 a slope moves by next to nothing, unless a belief changes cells in it.

    From an even belief one growl leads to the belief `accuracy`: 3/4 is a node of five.
    """
    model, theta = pf.models.Tiger(0.9), {"listen": -0.3, "gold": 1.0, "mauled": -2.0}
    panel = pf.Panel.from_arrays([[0, 1, 1, 0]] * 3, [[0, 0, 1]] * 3)
    jumps = {}
    for grid in (pf.Linear(5), pf.Smooth(5)):
        at = lambda accuracy, grid=grid: pf.score(
            model, {**model.example(), **theta, "accuracy": accuracy}, panel,
            prior=pf.KnownPrior([0.5, 0.5]), grid=grid,
        )["accuracy"]  # fmt: skip
        jumps[type(grid)] = abs(at(0.75 + 5e-10) - at(0.75 - 5e-10))
    assert jumps[pf.Smooth] < 1e-5
    assert jumps[pf.Linear] > 1e-2
