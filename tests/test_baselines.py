"""The fully observed baseline: against plain numpy, differences, one hidden state, and Rust."""

import os

import jax
import numpy as np
import pytest
import scipy.optimize

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_paths, random_reward
from pomdpfit._log_likelihood import Part
from pomdpfit.baselines import MDP, BusEngine, NFXPLikelihood, _nfxp
from reference import nfxp

# Two solutions to rounding differ by eps times the values, which are some tens, times the few
# steps of arithmetic that follow.
ATOL = 1e-10


class Free(MDP):
    """theta holds P and r themselves, so that derivatives in every entry can be tested."""

    P: np.ndarray
    r: np.ndarray

    def parameters(self):
        return {
            "P": pf.Parameter(self.P, pf.Simplex()),
            "r": pf.Parameter(self.r),
            "discount": pf.discount_parameter(0.9, fixed=False),
        }

    def transition(self, theta):
        return theta["P"]

    def reward(self, theta):
        return theta["r"]


class Given(MDP):
    """P and r as given: no constraint looks at them before the tables' own checks do."""

    P: np.ndarray
    r: np.ndarray
    mask: np.ndarray | None = None

    def parameters(self):
        return {"discount": pf.Parameter(0.9)}

    def transition(self, theta):
        return self.P

    def reward(self, theta):
        return self.r

    def available(self):
        return self.mask


def blind_panel(rng, P, mask, lengths=(40, 7, 23)) -> pf.Panel:
    """Agents that choose evenly among what is available; the second has no last action."""
    z, a = [], []
    for length in lengths:
        zs, acts = [int(rng.integers(len(P)))], []
        for _ in range(length):
            acts.append(int(rng.choice(np.flatnonzero(mask[zs[-1]]))))
            zs.append(int(rng.choice(len(P), p=P[zs[-1], acts[-1]])))
        z.append(zs[:-1])
        a.append(acts)
    a[1] = a[1][:-1]
    return pf.Panel.from_arrays(z, a)


def random_mdp(seed, Z=5, A=3, floor=0.05):
    """P[z, a, z'] of at least `floor`, r[z, a], and a panel."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(Z), size=(Z, A)) * (1 - Z * floor) + floor
    return P, rng.normal(size=(Z, A)), blind_panel(rng, P, np.ones((Z, A), dtype=bool))


def free_likelihood(seed):
    P, r, panel = random_mdp(seed)
    likelihood = NFXPLikelihood(Free(P, r), panel)
    return likelihood, likelihood.space.example()


# ---- terms -----------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.95, 0.999])
def test_terms_equal_those_of_plain_numpy(beta):
    P, r, panel = random_mdp(1)
    got = NFXPLikelihood(Given(P, r), panel).terms(at(beta))
    for i, n in enumerate(panel.present.sum(axis=1)):
        z, a = panel.z[i, :n], panel.a[i, : n - 1]
        observation, choice = nfxp.mdp_log_likelihood(P, r, beta, z, a)
        np.testing.assert_allclose(got.observation[i, : n - 1], observation, atol=1e-14)
        np.testing.assert_allclose(got.choice[i, : n - 1], choice, atol=ATOL)
        assert (got.observation[i, n - 1 :] == 0).all()
    assert ((got.choice != 0) == panel.acted).all()
    assert got.belief.shape == (*panel.z.shape, 1)
    assert (got.belief == 1).all()
    assert got.total == pytest.approx(got.parts().sum(), rel=1e-14)


def test_choices_are_among_the_available_actions():
    P, r, _ = random_mdp(2)
    mask = np.ones(r.shape, dtype=bool)
    mask[0, 1] = mask[3, 0] = mask[3, 2] = False
    panel = blind_panel(np.random.default_rng(3), P, mask)
    _, _, choice = nfxp.solve_mdp(P, r, 0.9, available=mask)
    P[0, 1] = 0.5  # what follows an action that cannot be taken does not matter
    got = NFXPLikelihood(Given(P, r, mask), panel).terms(at(0.9))
    expected = np.log(choice[panel.z, panel.a][panel.acted])
    np.testing.assert_allclose(got.choice[panel.acted], expected, atol=ATOL)


def test_only_what_is_scored_counts():
    P, r, panel = random_mdp(4)
    rng = np.random.default_rng(5)
    choice, observation = rng.random((2, *panel.z.shape)) < 0.5
    every = NFXPLikelihood(Given(P, r), panel).terms(at(0.9))
    some = NFXPLikelihood(Given(P, r), panel.score(choice=choice, observation=observation))
    got = some.terms(at(0.9))
    np.testing.assert_array_equal(got.choice, np.where(choice, every.choice, 0))
    np.testing.assert_array_equal(got.observation, np.where(observation, every.observation, 0))


def test_it_is_the_pomdp_with_one_hidden_state():
    rng = np.random.default_rng(6)
    P, r = random_kernel(rng, 4, 1, 2, zeros=True), random_reward(rng, 4, 1, 2)
    panel = random_paths(P, np.ones(1), (30, 12), rng)
    expected = pf.log_likelihood(Table(P, r), at(0.95), panel)
    got = NFXPLikelihood(Given(P[:, 0, :, :, 0], r[:, 0]), panel).terms(at(0.95))
    # The other path stops at a residual of its own, 1e-10 or less of the values.
    np.testing.assert_allclose(got.observation, expected.observation, atol=1e-13)
    np.testing.assert_allclose(got.choice, expected.choice, atol=1e-9)


def test_choices_keep_their_digits_as_the_discount_nears_one():
    P, r, panel = random_mdp(7)
    likelihood = NFXPLikelihood(Given(P, r), panel)
    terms = [likelihood.terms(at(1 - gap)).choice for gap in (1e-8, 1e-12)]
    # Differences of V are smooth in the discount up to one, with a slope of a few rewards; the
    # level of V, at 1e12 rewards, would leave no more than four digits of them.
    np.testing.assert_allclose(*terms, atol=1e-6)
    assert np.abs(terms[0] - terms[1]).max() > 0


# ---- parts and starts ------------------------------------------------------------------------


def test_observations_alone_need_no_solution(monkeypatch):
    likelihood, theta = free_likelihood(8)
    weights, names = np.ones((3, 2)), likelihood.space.parameters
    both, pulled = likelihood.pull(theta, weights, tuple(names))
    chosen, pulled_choice = likelihood.pull(theta, weights, tuple(names), part=Part.CHOICE)
    monkeypatch.setattr(_nfxp, "solve", None)
    seen, pulled_seen = likelihood.pull(theta, weights, tuple(names), part=Part.OBSERVATION)
    _, pushed = likelihood.push(theta, likelihood.space.directions(), part=Part.OBSERVATION)
    assert (seen.choice == 0).all()
    assert (chosen.observation == 0).all()
    assert (pushed[:, 1] == 0).all()
    np.testing.assert_array_equal(seen.observation, both.observation)
    np.testing.assert_array_equal(chosen.choice, both.choice)
    for name in names:
        parts = pulled_seen[name] + pulled_choice[name]
        np.testing.assert_allclose(parts, pulled[name], rtol=1e-13)
    kept = likelihood.terms(theta, part=Part.OBSERVATION, start=both.start)
    assert kept.start is both.start


def test_dynamics_are_what_the_transition_reads():
    likelihood, _ = free_likelihood(9)
    assert likelihood.dynamics == {"P"}
    assert likelihood.states == 1
    P, r, panel = random_mdp(9)
    assert NFXPLikelihood(Given(P, r), panel).dynamics == frozenset()


def test_a_start_saves_steps_and_changes_nothing():
    likelihood, theta = free_likelihood(10)
    cold = likelihood.terms(theta)
    warm = likelihood.terms(theta, start=cold.start)
    assert warm.steps < cold.steps
    np.testing.assert_allclose(warm.choice, cold.choice, atol=1e-13)
    far = likelihood.terms(theta, start=np.linspace(-1e3, 1e3, 5))
    np.testing.assert_allclose(far.choice, cold.choice, atol=1e-13)


# ---- derivatives -----------------------------------------------------------------------------


def test_push_equals_central_differences():
    likelihood, theta = free_likelihood(11)
    space = likelihood.space
    middle = np.asarray(space.to_vector(theta))
    _, slopes = likelihood.push(theta, space.directions())
    # The error is step^2 / (3 p^2) of a term's slope with p >= 0.05, that is 1e-8 of it, and
    # rounding of sums of some tens by 1e-14 / step, that is 1e-8 of slopes of that size.
    step = 1e-5
    expected = [
        likelihood.terms(space.from_vector(middle + move, theta)).parts()
        - likelihood.terms(space.from_vector(middle - move, theta)).parts()
        for move in step * np.eye(len(middle))
    ]
    expected = np.stack(expected, axis=-1) / (2 * step)
    assert slopes.shape == (3, 2, len(space.free_names))
    np.testing.assert_allclose(slopes, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_pull_is_the_weighted_sum_of_push():
    likelihood, theta = free_likelihood(12)
    weights = np.random.default_rng(12).normal(size=(3, 2))
    terms, gradient = likelihood.pull(theta, weights, ("r", "P", "discount"))
    for name, slope in gradient.items():
        units = np.eye(slope.size).reshape(-1, *slope.shape)
        pushed, slopes = likelihood.push(theta, {name: units})
        expected = np.einsum("ij,ijp->p", weights, slopes).reshape(slope.shape)
        # One solves a system, the other its transpose: eps times its condition, about 100.
        np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-10)
        assert pushed.total == terms.total
    assert likelihood.pull(theta, weights, ())[1] == {}
    assert likelihood.push(theta, {})[1].shape == (3, 2, 0)


def test_increments_that_never_occur_may_have_probability_zero():
    bus = BusEngine(bins=12, increments=4, discount=0.95, reset="increment")
    panel = pf.Panel.from_arrays([[0, 1, 3, 11, 11, 1]], [[0, 0, 0, 0, 1]]).score(
        observation=np.array([[True, True, False, True, True, True]])
    )
    likelihood = NFXPLikelihood(bus, panel)
    theta = bus.example() | {"increment": np.array([0.2, 0.5, 0.3, 0.0])}
    names = ("RC", "cost", "increment")
    terms, gradient = likelihood.pull(theta, np.ones((1, 2)), names)
    _, slopes = likelihood.push(theta, likelihood.space.directions())
    assert np.isfinite(terms.total)
    # From the last bin every increment leads to it: that transition is certain.
    np.testing.assert_allclose(terms.observation[0], np.log([0.5, 0.3, 1, 1, 0.5, 1]), atol=1e-15)
    vector = likelihood.space.gradient_vector(gradient)
    np.testing.assert_allclose(vector, slopes.sum(axis=(0, 1)), rtol=1e-10)
    assert np.isfinite(vector).all()


# ---- the bus ---------------------------------------------------------------------------------


def test_bus_engine_is_rusts_model():
    theta = BusEngine(bins=5, increments=3).example()
    p = np.asarray(theta["increment"])
    for reset, new in (("at_zero", [1, 0, 0, 0, 0]), ("increment", [*p, 0, 0])):
        bus = BusEngine(bins=5, increments=3, reset=reset)
        P = np.asarray(bus.transition(theta))
        keep = [[*p, 0, 0], [0, *p, 0], [0, 0, *p], [0, 0, 0, p[0], p[1] + p[2]], [0, 0, 0, 0, 1]]
        np.testing.assert_allclose(P[:, 0], keep, atol=1e-15)
        np.testing.assert_allclose(P[:, 1], np.tile(new, (5, 1)), atol=1e-15)
    r = np.stack([-0.001 * 1.2 * np.arange(5), np.full(5, -10.0)], axis=1)
    np.testing.assert_allclose(bus.reward(theta), r, rtol=1e-15)
    assert bus.action_labels() == ("keep", "replace")
    assert bus.space().free_names == ["RC", "cost", "increment[0]", "increment[1]"]
    for increments in (2, 3, 4, 6):
        example = BusEngine(increments=increments).example()["increment"]
        assert example.shape == (increments,)
        assert float(example.sum()) == pytest.approx(1, abs=1e-15)


# ---- refusals --------------------------------------------------------------------------------


def broken(part, where, value):
    P, r, panel = random_mdp(13)
    arrays = {"P": P, "r": r, "mask": np.ones(r.shape, dtype=bool)}
    arrays[part][where] = value
    return arrays, panel


@pytest.mark.parametrize(
    ("part", "where", "value", "message"),
    [
        ("P", (2, 1, 0), -0.1, r"P\(z'=0 \| z=2, a=1\) is -0.1"),
        ("P", (2, 1, 0), np.nan, r"P\(z'=0 \| z=2, a=1\) is nan"),
        ("P", (4, 2), 0.25, r"at \(z=4, a=2\) it sums to 1.25"),
        ("r", (3, 0), -np.inf, r"at \(z=3, a=0\) it is -inf. To rule an action out"),
        ("mask", 1, False, "at z=1 there is none"),
    ],
)
def test_bad_tables_are_refused(part, where, value, message):
    arrays, panel = broken(part, where, value)
    with pytest.raises(pf.ModelError, match=message):
        NFXPLikelihood(Given(**arrays), panel)


def test_shapes_and_types_are_refused():
    P, r, panel = random_mdp(14)
    with pytest.raises(pf.ModelError, match=r"\(5, 3, 5\) and \(5, 2\)"):
        NFXPLikelihood(Given(P, r[:, :2]), panel)
    with pytest.raises(pf.ModelError, match=r"available must have shape \(5, 3\)"):
        NFXPLikelihood(Given(P, r, np.ones((5, 2), dtype=bool)), panel)
    with pytest.raises(pf.ModelError, match="the reward is float32"):
        NFXPLikelihood(Given(P, r.astype(np.float32)), panel)
    with pytest.raises(pf.ModelError, match="reset must be one of"):
        BusEngine(reset="never")
    with pytest.raises(pf.ModelError, match="at least 2 increments"):
        BusEngine(bins=3, increments=4)


@pytest.mark.parametrize("beta", [-0.1, 1.0])
def test_the_discount_is_below_one(beta):
    P, r, panel = random_mdp(15)
    with pytest.raises(pf.ModelError, match=r"discount must lie in \[0, 1\)"):
        NFXPLikelihood(Given(P, r), panel).terms(at(beta))


def test_a_model_without_a_discount_is_refused():
    class Forgetful(Given):
        def parameters(self):
            return {"r": pf.Parameter(1.0)}

    P, r, panel = random_mdp(16)
    with pytest.raises(pf.ModelError, match="must hold 'discount'"):
        NFXPLikelihood(Forgetful(P, r), panel)


def test_impossible_transitions_are_named():
    panel = pf.Panel.from_arrays([[0, 1, 2], [0, 2, 0, 3]], [[0, 0], [0, 1, 0]], agents=("b", "c"))
    likelihood = NFXPLikelihood(BusEngine(bins=6, increments=3), panel)
    theta = likelihood.space.example()
    with pytest.raises(pf.ImpossibleObservationError, match=r"'c', time 2: .*z'=3 after z=0, a=0"):
        likelihood.terms(theta)
    assert np.isfinite(likelihood.terms(theta, part=Part.CHOICE).total)
    there = np.zeros(panel.z.shape, dtype=bool)
    there[1, 2] = True
    left = NFXPLikelihood(likelihood.model, panel.exclude_transitions(there))
    assert np.isfinite(left.terms(theta).total)


def test_agents_that_do_not_count_may_do_the_impossible():
    panel = pf.Panel.from_arrays([[0, 1, 2], [0, 2, 0, 3]], [[0, 0], [0, 1, 0]])
    alone = pf.Panel.from_arrays([[0, 1, 2]], [[0, 0]])
    bus = BusEngine(bins=6, increments=3)
    both, one = NFXPLikelihood(bus, panel), NFXPLikelihood(bus, alone)
    theta, names = bus.example(), ("RC", "cost", "increment")
    terms, gradient = both.pull(theta, np.array([[1.0, 1.0], [0.0, 0.0]]), names)
    expected_terms, expected = one.pull(theta, np.ones((1, 2)), names)
    assert terms.parts()[1, 0] == -np.inf
    assert terms.parts()[0] == pytest.approx(expected_terms.parts()[0], rel=1e-14)
    for name in names:
        np.testing.assert_allclose(gradient[name], expected[name], rtol=1e-12, atol=1e-14)
    directions = bus.space().directions()
    _, slopes = both.push(theta, directions, among=np.array([True, False]))
    np.testing.assert_allclose(slopes[:1], one.push(theta, directions)[1], rtol=1e-12, atol=1e-14)
    assert (slopes[1] == 0).all()
    with pytest.raises(pf.ImpossibleObservationError):
        both.push(theta, directions)


def test_a_panel_that_does_not_fit_is_refused():
    P, r, _ = random_mdp(17)
    mask = np.ones(r.shape, dtype=bool)
    mask[1, 2] = False
    for z, a, message in (
        ([0, 5], [0], "observation 5"),
        ([0, 1], [3], "action 3"),
        ([0, 1], [0, 2], "not available"),
    ):
        with pytest.raises(pf.PanelError, match=message):
            NFXPLikelihood(Given(P, r, mask), pf.Panel.from_arrays([z], [a]))


def test_arguments_that_do_not_fit_are_refused():
    likelihood, theta = free_likelihood(18)
    with pytest.raises(pf.ModelError, match="start must hold 5 finite values"):
        likelihood.terms(theta, start=np.zeros(4))
    with pytest.raises(pf.ModelError, match="no parameter named 'R'"):
        likelihood.push(theta, {"R": np.zeros((1, 5, 3))})
    with pytest.raises(pf.ModelError, match="no parameter named 'R'"):
        likelihood.pull(theta, np.ones((3, 2)), ("R",))
    with pytest.raises(pf.ModelError, match=r"directions\['r'\] must have shape"):
        likelihood.push(theta, {"r": np.zeros((5, 3))})
    with pytest.raises(pf.ModelError, match="the same p for every name"):
        likelihood.push(theta, {"r": np.zeros((2, 5, 3)), "discount": np.zeros(3)})


def test_values_that_overflow_are_an_error():
    P, r, panel = random_mdp(19)
    r = np.where(np.arange(5)[:, None] == 0, -1.7e308, 1.7e308) * np.ones(r.shape)
    likelihood = NFXPLikelihood(Given(P, r), panel)
    with pytest.raises(pf.SolveError, match="infinite or NaN"):
        likelihood.terms(at(0.9))


# ---- Rust (1987), group 4 --------------------------------------------------------------------

# Tables IX (90 bins) and X (175 bins). Table X prints RC as 10.896, which is 10.0896 without its
# first zero: only that gives the log-likelihood printed beside it.
PUBLISHED = {
    90: {"RC": 10.0750, "cost": 2.2930, "increment": [0.3919, 0.5953], "total": -3304.155},
    175: {
        "RC": 10.0896,
        "cost": 1.1732,
        "increment": [0.1191, 0.5762, 0.2868, 0.0158],
        "total": -4495.135,
        "observation": -4331.417,
    },
}
HALF_UNIT = {"theta": 0.5e-4, "log-likelihood": 0.5e-3}  # four and three decimals are printed


@pytest.fixture(scope="module", params=[175, pytest.param(90, marks=pytest.mark.full)])
def rust(request):
    """Published figures, the likelihood, and theta as published.

    With 175 bins increments of 4 and 5 occur, 6 and 3 times; their probabilities are not printed,
    and share what the others leave in those proportions.
    """
    bins, published = request.param, PUBLISHED[request.param]
    increments = {90: 3, 175: 6}[bins]
    bus = BusEngine(bins, increments, reset="increment")
    if not os.environ.get("POMDPFIT_RUST1987"):
        pytest.skip("POMDPFIT_RUST1987 does not name a folder with Rust's raw .asc files")
    likelihood = NFXPLikelihood(bus, pf.datasets.rust1987(4, bins).panel)
    printed = np.array(published["increment"])
    rest = (1 - printed.sum()) * {90: np.ones(1), 175: np.array([2 / 3, 1 / 3])}[bins]
    theta = {
        "RC": published["RC"],
        "cost": published["cost"],
        "increment": np.concatenate([printed, rest]),
    }
    return published, likelihood, bus.example() | theta


def test_rust_panel_has_the_published_counts(rust):
    _, likelihood, _ = rust
    panel = likelihood.panel
    assert len({bus for bus, _ in panel.agents}) == 37
    assert int(panel.a.sum()) == 33
    assert panel.nobs == int(panel.score_observation.sum()) == 4292


def test_rust_log_likelihood_at_the_published_parameters(rust):
    published, likelihood, theta = rust
    terms, panel = likelihood.terms(theta), likelihood.panel
    # Published theta is the maximum, rounded. Rounding moves the increments' p away from the
    # shares q in which they occur, at a price of n sum q log(q / p). RC and cost move by half a
    # unit, which costs H (5e-5)^2 / 2, nothing to speak of with an H of some tens.
    scored = panel.score_observation[:, :-1]
    start = np.where(panel.a == 1, 0, panel.z)[:, :-1]
    counts = np.bincount((panel.z[:, 1:] - start)[scored])
    shares = counts / counts.sum()
    price = float(counts @ np.log(shares / theta["increment"]))
    assert 0 <= price < 0.01
    total = terms.total + price
    assert total == pytest.approx(published["total"], abs=HALF_UNIT["log-likelihood"])
    if "observation" in published:
        observed = terms.observation.sum() + price
        assert observed == pytest.approx(published["observation"], abs=HALF_UNIT["log-likelihood"])


def test_rust_maximum_is_the_published_one(rust):
    published, likelihood, _ = rust
    space, base = likelihood.space, likelihood.model.example()
    weights, names = np.ones((likelihood.panel.agent_count, 2)), ("RC", "cost", "increment")

    def loss(free):
        theta, back = jax.vjp(lambda u: space.from_unconstrained(u, base), free)
        terms, gradient = likelihood.pull(theta, weights, names)
        (slope,) = back({name: gradient.get(name, np.zeros(())) for name in theta})
        return -terms.total, -np.asarray(slope)

    # RC is the loosest parameter, with a variance of 2.5: a gradient of 1e-5 leaves it 2.5e-5 off.
    free = np.asarray(space.to_unconstrained(base))
    found = scipy.optimize.minimize(loss, free, jac=True, method="BFGS", options={"gtol": 1e-5})
    assert found.success
    theta = space.from_unconstrained(found.x, base)
    assert -found.fun == pytest.approx(published["total"], abs=HALF_UNIT["log-likelihood"])
    # Half a unit for the printing, as much for where two searches stop.
    for name in ("RC", "cost"):
        assert float(theta[name]) == pytest.approx(published[name], abs=2 * HALF_UNIT["theta"])
    printed = np.array(published["increment"])
    np.testing.assert_allclose(
        theta["increment"][: len(printed)], printed, rtol=0, atol=2 * HALF_UNIT["theta"]
    )
    if "observation" in published:
        observed = likelihood.terms(theta, part=Part.OBSERVATION).total
        assert observed == pytest.approx(published["observation"], abs=HALF_UNIT["log-likelihood"])
