"""Numbers at the edge of what can be asked are answered or refused by name, never crashed on.

References: closed forms, a fully observed MDP in plain numpy (a model whose observations tell the
state is one, and its Q is linear in the belief), and exact rational arithmetic over hidden paths.
"""

import itertools
import math
import re
import warnings
from fractions import Fraction

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_paths, random_reward, revealing_kernel
from pomdpfit._identical_states import identical_states
from reference import nfxp

EPS = np.finfo(float).eps
SMALL = pf.Smooth(5)
some = settings(max_examples=25, deadline=None)


class Stretched(pf.Model):
    """Table's kernel with the reward stretch * r: what a change of `stretch` does is known."""

    P: np.ndarray
    r: np.ndarray

    def parameters(self):
        return {"stretch": pf.Parameter(1.0), "discount": pf.discount_parameter(0.9)}

    def kernel(self, theta):
        return pf.dense_kernel(self.P)

    def reward(self, theta):
        return theta["stretch"] * jnp.asarray(self.r)


# ---- the discount ------------------------------------------------------------------------------


def test_with_discount_zero_the_likelihood_is_a_logit_in_the_beliefs_with_its_score():
    """log pi = log softmax(x' r) and d log pi / d stretch = x' r_a - sum_b pi_b x' r_b."""
    rng = np.random.default_rng(0)
    P, r, x0 = random_kernel(rng, 3, 2, 3), random_reward(rng, 3, 2, 3), np.array([0.3, 0.7])
    panel = random_paths(P, x0, (8, 6, 8), rng)
    theta = {"stretch": 1.7, "discount": 0.0}
    prior = pf.KnownPrior(x0)
    likelihood = pf.Likelihood(Stretched(P, r), panel, prior=prior, grid=SMALL)
    terms, gradient = likelihood.gradient(theta)
    expected, slope = 0.0, 0.0
    for i, t in np.argwhere(panel.acted):
        u = terms.belief[i, t] @ r[panel.z[i, t]]
        weight = np.exp(1.7 * u)
        expected += 1.7 * u[panel.a[i, t]] - np.log(weight.sum())
        slope += u[panel.a[i, t]] - weight @ u / weight.sum()
    assert terms.choice.sum() == pytest.approx(expected, rel=1e-12)
    assert gradient["stretch"] == pytest.approx(slope, rel=1e-11)


@pytest.mark.parametrize("beta", [0.9999, 0.99999])
def test_a_discount_close_to_one_is_solved(beta):
    """Levels to residual / (1 - beta), policies far better: errors of a constant drop out."""
    rng = np.random.default_rng(1)
    P, r = revealing_kernel(rng, 4, 2, 2), random_reward(rng, 4, 2, 2)
    V, Q, _ = nfxp.solve_mdp(P.reshape(8, 2, 8), r.reshape(8, 2), beta)
    sol = pf.solve(Table(P, r), at(beta), grid=SMALL)
    for s, x in enumerate(np.eye(2)):
        level = sol.residual / (1 - beta) + 1e3 * EPS * np.abs(V).max() / (1 - beta)
        np.testing.assert_allclose(sol.value(range(4), x), V.reshape(4, 2)[:, s], atol=level)
        difference = Q.reshape(4, 2, 2)[:, s] @ [1, -1]
        odds = np.log(sol.policy(range(4), x)) @ [1, -1]
        np.testing.assert_allclose(odds, difference, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "solver"),
    [
        (pf.models.Tiger(0.99999), pf.Newton()),
        (pf.models.Tiger(0.99999), pf.Newton(max_steps=1)),
        (pf.models.EngineReplacement(bins=8, increments=3, discount=0.99999), pf.Newton()),
    ],
)
def test_a_discount_of_0_99999_is_solved_or_refused_with_the_residual(model, solver):
    """Whether it converges is for the solver to say; what may not happen is a silent failure."""
    sol = pf.solve(model, model.example(), grid=SMALL, solver=solver, throw=False)
    largest = np.abs(sol.coefficients).max()
    assert sol.converged == (sol.residual <= max(1e-10, 8 * EPS * largest))
    assert sol.converged == (solver.max_steps > 1)
    if not sol.converged:
        residual = re.escape(f"residual {sol.residual:.3g} after")
        with pytest.raises(pf.SolveError, match=residual):
            pf.solve(model, model.example(), grid=SMALL, solver=solver)


WRONG = [1.0, 1.0 + EPS, 2.5, -0.25, -1e-300, np.nan, np.inf]


@pytest.fixture(scope="module")
def tiger():
    model = pf.models.Tiger()
    prior = pf.KnownPrior([0.5, 0.5])
    return model, prior, pf.Panel.from_arrays([[0, 1, 1]] * 4, [[0, 0]] * 4)


@pytest.mark.parametrize("beta", WRONG)
def test_other_discounts_are_refused_by_value_wherever_theta_goes_in(tiger, beta):
    model, prior, panel = tiger
    theta = model.example() | {"discount": beta}
    means = {
        "solve": lambda: pf.solve(model, theta),
        "certify": lambda: pf.certify(model, theta),
        "simulate": lambda: pf.simulate(model, theta, agents=1, periods=1, seed=0, prior=prior),
        "log_likelihood": lambda: pf.log_likelihood(model, theta, panel, prior=prior),
        "score": lambda: pf.score(model, theta, panel, prior=prior),
        "filter": lambda: pf.filter_beliefs(model, theta, panel, prior=prior),
        "fixed": lambda: pf.fit(model, panel, prior=prior, fixed={"discount": beta}),
        "start": lambda: pf.fit(model, panel, prior=prior, start=theta, free=["discount"]),
    }
    for run in means.values():
        with pytest.raises(pf.ModelError, match=rf"discount.*\[0, 1\).* {beta:.6g}\."):
            run()


@pytest.mark.parametrize("beta", [1.0, -0.5, np.nan])
@pytest.mark.parametrize(
    "make",
    [
        pf.models.Tiger,
        pf.models.EquipmentInspection,
        lambda beta: pf.models.EngineReplacement(bins=6, discount=beta),
        lambda beta: pf.models.Tabular(discount=beta),
    ],
)
def test_a_ready_model_with_such_a_discount_is_refused_when_it_is_used(make, beta):
    model = make(beta)
    with pytest.raises(pf.ModelError, match=rf"discount.* {beta:.6g}\."):
        pf.solve(model, model.example())


@pytest.mark.parametrize("beta", [1.0, -0.5, np.nan])
def test_so_is_a_fully_observed_one(beta):
    model = pf.baselines.BusEngine(bins=6, increments=3, discount=beta)
    panel = pf.Panel.from_arrays([[0, 1, 2]], [[0, 0]])
    with pytest.raises(pf.ModelError, match=rf"discount.* {beta:.6g}\."):
        pf.fit(model, panel)


# ---- priors ------------------------------------------------------------------------------------

OFF = {
    "sum below": ([0.5, 0.4], r"sum to 1.*0\.9"),
    "sum above": ([0.5, 0.5 + 1e-6], r"sum to 1"),
    "negative": ([1.25, -0.25], r"x0.*probability.*-0\.25"),
    "nan": ([np.nan, 1.0], r"x0.*probability.*nan"),
    "infinite": ([np.inf, 0.0], r"x0.*probability.*inf"),
    "too long": ([0.5, 0.25, 0.25], r"shape.*\(\w*1?,? ?3,?\)|shape.*3"),
    "too short": ([1.0], r"shape"),
    "words": (["good", "bad"], r"prior|x0"),
}


@pytest.mark.parametrize(("x0", "message"), OFF.values(), ids=OFF)
def test_a_known_prior_off_the_simplex_is_refused_wherever_it_goes_in(tiger, x0, message):
    model, _, panel = tiger
    prior, theta = pf.KnownPrior(x0), model.example()
    for run in (
        lambda: pf.log_likelihood(model, theta, panel, prior=prior),
        lambda: pf.simulate(model, theta, agents=4, periods=1, seed=0, prior=prior),
        lambda: pf.filter_beliefs(model, theta, panel, prior=prior),
        lambda: pf.fit(model, panel, prior=prior),
    ):
        with pytest.raises(pf.ModelError, match=message):
            run()


@pytest.mark.parametrize(("x0", "message"), OFF.values(), ids=OFF)
def test_a_common_prior_off_the_simplex_is_refused_in_theta_start_and_fixed(tiger, x0, message):
    model, _, panel = tiger
    prior, theta = pf.CommonPrior(), model.example() | {"x0": x0}
    for run in (
        lambda: pf.log_likelihood(model, theta, panel, prior=prior),
        lambda: pf.simulate(model, theta, agents=1, periods=1, seed=0, prior=prior),
        lambda: pf.fit(model, panel, prior=prior, start={"x0": x0}),
        lambda: pf.fit(model, panel, prior=prior, fixed={"x0": x0}),
    ):
        with pytest.raises(pf.ModelError, match=message):
            run()


@pytest.mark.parametrize(
    ("belief", "message"),
    [
        ([[0.5, 0.5]] * 3, r"\(4, 2\).*\(3, 2\)"),
        ([[0.5, 0.5]] * 3 + [[0.5, 0.4]], r"agent 3.*0\.9"),
        ([[0.5, 0.5]] * 3 + [[1.0]], r"same length"),
        (np.full((4, 2, 2), 0.5), r"\(4, 2, 2\)"),
        ({0: [0.5, 0.5], 1: [0.5, 0.5], 2: [0.5, 0.5]}, r"no belief for agent 3"),
        ({0: [0.5, 0.5], 1: [0.5, 0.5], 2: [0.5, 0.5], 3: [-1.0, 2.0]}, r"agent 3.*-1"),
        ({0: [0.5, 0.5], 1: [0.5, 0.5], 2: [0.5, 0.5], 3: [1.0]}, r"same length"),
        (0.5, r"shape"),
    ],
)
def test_priors_by_agent_off_the_simplex_name_the_agent(tiger, belief, message):
    model, _, panel = tiger
    with pytest.raises(pf.ModelError, match=message):
        pf.log_likelihood(model, model.example(), panel, prior=pf.KnownPrior(belief))


@given(weights=st.lists(st.floats(0, 1), min_size=2, max_size=4).filter(lambda w: sum(w) > 1e-3))
@some
def test_a_prior_is_taken_as_it_is_or_refused_and_never_renormalised(weights):
    prior, total = pf.KnownPrior(weights), math.fsum(weights)
    if abs(total - 1) <= 1e-10:
        np.testing.assert_array_equal(prior.data([0], len(weights)), [weights])
    elif abs(total - 1) > 1e-8:
        with pytest.raises(pf.ModelError, match="sum to 1"):
            prior.data([0], len(weights))
    scaled = np.array(weights) / total
    np.testing.assert_array_equal(pf.KnownPrior(scaled).data([0], len(weights))[0], scaled)


@pytest.mark.parametrize(
    ("x", "message"),
    [([0.5, 0.4], r"\(0\.5, 0\.4\).*0\.9"), ([-0.5, 1.5], r"-0\.5"), ([np.nan, 1.0], r"nan")],
)
def test_a_policy_is_not_asked_at_what_is_no_belief(tiger, x, message):
    model, _, _ = tiger
    sol = pf.solve(model, model.example(), grid=SMALL)
    with pytest.raises(pf.ModelError, match=message):
        sol.policy([0, 1], [[0.5, 0.5], x])


# ---- large rewards -----------------------------------------------------------------------------


def mdp_slope(P, r, beta, choice):
    """dQ where r moves along itself: dQ = r + beta P dV, dV = sum_a pi_a dQ_a."""
    Z = len(r)
    moved = np.einsum("za,zab->zb", choice, P)
    dV = np.linalg.solve(np.eye(Z) - beta * moved, (choice * r).sum(axis=1))
    return r + beta * P @ dV


@pytest.mark.parametrize("size", [1e4, 1e8, 1e12])
@pytest.mark.parametrize("beta", [0.0, 0.9, 0.999])
def test_rewards_of_any_size_neither_overflow_nor_lose_the_likelihood(size, beta):
    """z' tells s': Q(z, x) = sum_s x(s) Q(z, s) exactly, and Q(z, s) is an MDP's.

    Q is of size r / (1 - beta) and known to some eps of it, so log pi, whose own size is that of
    r where an action is a blunder, is too.
    """
    rng = np.random.default_rng(2)
    Z, S, A, x0 = 4, 2, 2, np.array([0.3, 0.7])
    P, r = revealing_kernel(rng, Z, S, A), random_reward(rng, Z, S, A)
    panel = random_paths(P, x0, (7, 7, 5), rng)
    both, large = P.reshape(Z * S, A, Z * S), size * r.reshape(Z * S, A)
    _, Q, choice = nfxp.solve_mdp(both, large, beta)
    Q, slope = (
        table.reshape(Z, S, A) for table in (Q, mdp_slope(both, large / size, beta, choice))
    )
    rounding = 1e3 * EPS * size / (1 - beta)
    model, theta = Stretched(P, r), {"stretch": size, "discount": beta}
    sol = pf.solve(model, theta, grid=SMALL)
    np.testing.assert_allclose(sol.q(range(Z), x0), np.einsum("s,zsa->za", x0, Q), atol=rounding)
    assert np.isfinite(sol.value(range(Z), x0)).all()
    policy = np.asarray(sol.policy(range(Z), x0))
    np.testing.assert_allclose(policy.sum(axis=1), 1, atol=8 * EPS)
    likelihood = pf.Likelihood(model, panel, prior=pf.KnownPrior(x0), grid=SMALL)
    terms, gradient = likelihood.gradient(theta)
    total, score = 0.0, 0.0
    for i, t in np.argwhere(panel.acted):
        x, z, a = terms.belief[i, t], panel.z[i, t], panel.a[i, t]
        q, dq = x @ Q[z], x @ slope[z]
        weight = np.exp(q - q.max())
        total += q[a] - q.max() - np.log(weight.sum())
        score += dq[a] - weight @ dq / weight.sum()
    rows = panel.acted.sum()
    assert terms.choice.sum() == pytest.approx(total, abs=rows * rounding, rel=1e-9)
    assert gradient["stretch"] == pytest.approx(score, rel=1e-7)


@pytest.mark.full
def test_simulated_agents_take_the_better_action_where_rewards_are_huge():
    rng = np.random.default_rng(3)
    P, r = revealing_kernel(rng, 4, 2, 3), random_reward(rng, 4, 2, 3)
    theta = {"stretch": 1e8, "discount": 0.9}
    prior = pf.KnownPrior([0.5, 0.5])
    model = Stretched(P, r)
    panel = pf.simulate(model, theta, agents=20, periods=15, seed=0, prior=prior, grid=SMALL)
    _, Q, _ = nfxp.solve_mdp(P.reshape(8, 3, 8), 1e8 * r.reshape(8, 3), 0.9)
    belief = pf.filter_beliefs(model, theta, panel, prior=prior).x
    for i, t in np.argwhere(panel.acted):
        q = belief[i, t] @ Q.reshape(4, 2, 3)[panel.z[i, t]]
        assert panel.a[i, t] == np.argmax(q)
    terms = pf.log_likelihood(model, theta, panel, prior=prior, grid=SMALL)
    np.testing.assert_allclose(terms.choice, 0.0, atol=1e-12)


def test_an_engine_that_costs_a_million_to_replace():
    """One condition: the MDP of the reference; a replacement costs about RC in log-likelihood."""
    model = pf.models.EngineReplacement(bins=8, increments=3, discount=0.95, conditions=1)
    theta = model.example() | {"RC": 1e6, "cost": np.array([500.0])}
    rows = np.asarray(theta["increment"])[0]
    P = np.zeros((8, 2, 8))
    for z in range(8):
        for step, p in enumerate(rows):
            P[z, 0, min(z + step, 7)] += p
        P[z, 1, 0] = 1.0
    r = np.array([[-0.5 * z, -1e6] for z in range(8)])
    z, a = [0, 2, 3, 0, 1], [0, 0, 1, 0]
    panel = pf.Panel.from_arrays([z], [a])
    expected = nfxp.mdp_log_likelihood(P, r, 0.95, z, a)
    terms, gradient = pf.Likelihood(model, panel).gradient(theta)
    np.testing.assert_allclose(terms.choice[0, :4], expected[1], rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(terms.observation[0, :4], expected[0], rtol=1e-12)
    # Replacing once more costs RC and saves what is ahead; with RC so high nobody else replaces,
    # so d log pi(replace) / d RC = -1 and the rest does not move.
    assert gradient["RC"] == pytest.approx(-1.0, abs=1e-9)
    assert np.isfinite(gradient).all()


HIDDEN = pf.models.EngineReplacement(bins=8, increments=3, discount=0.95)


@pytest.mark.full
def test_so_does_one_whose_condition_is_hidden():
    theta = HIDDEN.example() | {"RC": 1e6, "cost": np.array([100.0, 500.0])}
    prior = pf.KnownPrior([0.25, 0.75])
    kept = pf.simulate(HIDDEN, theta, agents=5, periods=10, seed=0, prior=prior, grid=SMALL)
    assert not kept.a[kept.acted].any()
    panel = pf.Panel.from_arrays([[0, 2, 3, 0, 1, 2, 2, 4]], [[0, 0, 1, 0, 0, 0, 0]])
    likelihood = pf.Likelihood(HIDDEN, panel, prior=prior, grid=SMALL)
    terms, gradient = likelihood.gradient(theta)
    assert np.isfinite(terms.total)
    assert gradient["RC"] == pytest.approx(-1.0, abs=1e-9)
    assert np.isfinite(gradient).all()
    more = likelihood(theta | {"RC": 1e6 + 10}).choice
    expected = np.where(panel.a == 1, -10.0, 0.0)
    np.testing.assert_allclose(more - terms.choice, expected, atol=1e-6)  # 1e6 eps, many times


# ---- small probabilities -----------------------------------------------------------------------


def exact_log_likelihood(P, x0, z, a) -> float:
    """log P(z_1..z_T | a) over all hidden paths, in rational numbers: nothing underflows."""
    total = Fraction(0)
    for s in itertools.product(range(len(x0)), repeat=len(z)):
        weight = Fraction(float(x0[s[0]]))
        for t in range(len(a)):
            weight *= Fraction(float(P[z[t], s[t], a[t], z[t + 1], s[t + 1]]))
        total += weight
    return math.log(total.numerator) - math.log(total.denominator)


@pytest.mark.parametrize("tiny", [1e-30, 1e-200, 1e-300])
def test_tiny_probabilities_multiply_to_less_than_any_float_and_are_scored(tiny):
    rows = np.array([[tiny, 0.4, 0.6], [2 * tiny, 0.7, 0.3]])
    theta = HIDDEN.example() | {"increment": rows}
    prior, x0 = pf.KnownPrior([0.25, 0.75]), [0.25, 0.75]
    z, a = [0, 0, 0, 2, 3, 3, 4, 4], [0] * 7
    panel = pf.Panel.from_arrays([z], [a])
    likelihood = pf.Likelihood(HIDDEN, panel, prior=prior, grid=SMALL)
    terms, gradient = likelihood.gradient(theta)
    expected = exact_log_likelihood(HIDDEN.kernel(theta).to_dense(), x0, z, a)
    assert terms.observation.sum() == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(gradient).all()
    # Euler: doubling both tiny entries adds log 2 for each of the four increments of zero.
    tangent = gradient["increment[good, 0]"] * tiny + gradient["increment[bad, 0]"] * 2 * tiny
    assert tangent == pytest.approx(4.0, rel=1e-9)


def test_a_state_that_is_all_but_impossible_comes_back():
    """The prior gives s = 1 only 1e-300; what is seen then speaks for it more than that."""
    P = np.zeros((2, 2, 1, 2, 2))
    P[:, 0, 0, :, 0] = [1 - 1e-30, 1e-30]
    P[:, 1, 0, :, 1] = [0.5, 0.5]
    model, x0 = Table(P, np.zeros((2, 2, 1))), [1.0, 1e-300]
    z, a = [0] + [1] * 12, [0] * 12
    panel = pf.Panel.from_arrays([z], [a])
    terms = pf.log_likelihood(model, at(0.5), panel, prior=pf.KnownPrior(x0), grid=SMALL)
    expected = exact_log_likelihood(P, x0, z, a)
    assert terms.observation.sum() == pytest.approx(expected, rel=1e-12)
    assert terms.belief[0, -1, 1] == pytest.approx(1.0, abs=1e-10)
    assert terms.belief[0, 1, 1] < 1e-200


@pytest.mark.full
@pytest.mark.parametrize("accuracy", [0.0, 1e-300, 0.5, 1 - EPS, 1.0])
def test_a_tiger_that_is_heard_at_any_accuracy(accuracy):
    model = pf.models.Tiger()
    theta = model.example() | {"accuracy": accuracy}
    grid = pf.Smooth(21)
    sol = pf.solve(model, theta, grid=grid)
    policy = np.asarray(sol.policy(0, [[1.0, 0.0], [0.5, 0.5], [1e-300, 1.0]]))
    assert np.isfinite(policy).all()
    np.testing.assert_allclose(policy.sum(axis=1), 1, atol=8 * EPS)
    prior = pf.KnownPrior([0.5, 0.5])
    panel = pf.simulate(model, theta, agents=5, periods=6, seed=0, prior=prior, grid=grid)
    terms, gradient = pf.Likelihood(model, panel, prior=prior, grid=grid).gradient(theta)
    assert np.isfinite(terms.total)
    assert np.isfinite(gradient).all()


# ---- the smallest models -----------------------------------------------------------------------


@pytest.mark.full
def test_with_one_action_there_is_nothing_to_choose():
    """V = (I - beta P)^-1 r on (z, s), linear in x; choices have log-probability zero."""
    rng, beta = np.random.default_rng(4), 0.9
    P, r, x0 = random_kernel(rng, 3, 2, 1), random_reward(rng, 3, 2, 1), np.array([0.6, 0.4])
    model, theta = Stretched(P, r), {"stretch": 1.0, "discount": beta}
    both = P.reshape(6, 6)
    V = np.linalg.solve(np.eye(6) - beta * both, r.reshape(6)).reshape(3, 2)
    sol = pf.solve(model, theta, grid=SMALL)
    np.testing.assert_allclose(sol.value(range(3), x0), V @ x0, atol=1e-8)
    np.testing.assert_array_equal(sol.policy(range(3), x0), np.ones((3, 1)))
    prior = pf.KnownPrior(x0)
    panel = pf.simulate(model, theta, agents=6, periods=5, seed=0, prior=prior, grid=SMALL)
    terms, gradient = pf.Likelihood(model, panel, prior=prior, grid=SMALL).gradient(theta)
    np.testing.assert_array_equal(terms.choice, 0.0)
    assert gradient["stretch"] == 0.0
    expected = sum(exact_log_likelihood(P, x0, z, a[:-1]) for z, a in zip(panel.z, panel.a))  # noqa: B905
    assert terms.observation.sum() == pytest.approx(expected, rel=1e-12)


@pytest.mark.full
def test_with_one_observation_the_belief_moves_by_the_transition_alone():
    rng, beta = np.random.default_rng(5), 0.0
    P, r, x0 = random_kernel(rng, 1, 3, 2), random_reward(rng, 1, 3, 2), np.array([0.2, 0.3, 0.5])
    prior, grid = pf.KnownPrior(x0), pf.Linear(5)
    panel = pf.simulate(Table(P, r), at(beta), agents=4, periods=6, seed=0, prior=prior, grid=grid)
    assert (panel.z == 0).all()
    terms = pf.log_likelihood(Table(P, r), at(beta), panel, prior=prior, grid=grid)
    np.testing.assert_allclose(terms.observation, 0.0, atol=8 * EPS)
    for i in range(4):
        x = x0
        for t in range(6):
            np.testing.assert_allclose(terms.belief[i, t], x, atol=1e-14)
            u = x @ r[0]
            expected = u[panel.a[i, t]] - np.log(np.exp(u).sum())
            assert terms.choice[i, t] == pytest.approx(expected, abs=1e-12)
            x = x @ P[0, :, panel.a[i, t], 0]


def test_one_of_each_is_a_geometric_sum():
    P, r = np.ones((1, 1, 1, 1, 1)), np.full((1, 1, 1), -3.0)
    model, theta = Stretched(P, r), {"stretch": 2.0, "discount": 0.75}
    sol = pf.solve(model, theta)
    assert sol.value(0, [1.0]) == pytest.approx(-6.0 / 0.25, abs=4e-10)
    panel = pf.simulate(model, theta, agents=2, periods=3, seed=0)
    terms, gradient = pf.Likelihood(model, panel).gradient(theta)
    assert terms.total == 0.0
    assert gradient["stretch"] == 0.0


@pytest.mark.full
def test_one_hidden_state_simulates_as_the_plain_agent_does():
    """Frequencies of actions by observation, within five standard errors of the MDP's policy."""
    rng = np.random.default_rng(6)
    P, r = random_kernel(rng, 3, 1, 2), random_reward(rng, 3, 1, 2)
    panel = pf.simulate(Table(P, r), at(0.9), agents=300, periods=20, seed=0)
    choice = nfxp.solve_mdp(P[:, 0, :, :, 0], r[:, 0], 0.9)[2]
    for z in range(3):
        acts = panel.a[panel.acted & (panel.z == z)]
        error = 5 * np.sqrt(choice[z, 1] * choice[z, 0] / len(acts))
        assert acts.mean() == pytest.approx(choice[z, 1], abs=error)


# ---- hidden states that are the same -----------------------------------------------------------


class Twins(pf.Model):
    """Three hidden states; 1 and 2 have the same law and, unless `tell`, the same pay."""

    tell: bool = False

    def parameters(self):
        return {"pay": pf.Parameter([0.0, 1.0, 1.0]), "discount": pf.discount_parameter(0.5)}

    def kernel(self, theta):
        move = jnp.array([[0.8, 0.1, 0.1], [0.2, 0.4, 0.4], [0.2, 0.4, 0.4]])
        see = jnp.array([[0.7, 0.3], [0.4, 0.6], [0.4, 0.6]])
        both = jnp.einsum("st,sz->szt", move, see)  # z' by the current s, as in the engine
        return pf.dense_kernel(jnp.broadcast_to(both[None, :, None], (2, 3, 2, 2, 3)))

    def reward(self, theta):
        pay = jnp.asarray(theta["pay"])
        pay = pay if self.tell else jnp.stack([pay[0], pay[1], pay[1]])
        return jnp.broadcast_to(jnp.stack([jnp.zeros(3), pay], axis=-1), (2, 3, 2))

    def state_labels(self):
        return ("idle", "left", "right")


def twin_panel():
    """Any panel will do; actions 0, 1 and observations 0, 1."""
    rng = np.random.default_rng(9)
    z, a = rng.integers(2, size=(2, 6, 5))
    return pf.Panel.from_arrays(z, a[:, :-1]), pf.KnownPrior([0.4, 0.3, 0.3])


class Enough(Exception):
    """A fit has begun to climb: what it had to say before that has been said."""


def stop(*news):
    raise Enough


def twin_warnings(model, **options):
    panel, prior = twin_panel()
    options = {"prior": prior, "grid": pf.Linear(5), "starts": 1, "progress": stop} | options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(Enough):
            pf.fit(model, panel, **options)
    return [w for w in caught if w.category is pf.IdentificationWarning]


def test_states_that_are_always_the_same_are_named_with_advice():
    (warning,) = twin_warnings(Twins())
    text = str(warning.message)
    assert "'left' and 'right'" in text
    assert "whatever theta is" in text
    assert "one hidden state less" in text
    assert warning.filename == __file__


def test_states_that_are_the_same_at_the_start_alone_are_told_so():
    (warning,) = twin_warnings(Twins(tell=True))
    assert "'left' and 'right'" in str(warning.message)
    assert "at the start" in str(warning.message)
    assert not twin_warnings(Twins(tell=True), start={"pay": [0.0, 1.0, 1.5]})


@pytest.mark.parametrize("parted_by", ["reward", "kernel", "terminal", "nothing"])
def test_one_table_that_differs_parts_two_states(parted_by):
    rng = np.random.default_rng(7)
    P, r, end = random_kernel(rng, 2, 3, 2), random_reward(rng, 2, 3, 2), rng.normal(size=(2, 3))
    P[:, 2], r[:, 2], end[:, 2] = P[:, 0], r[:, 0], end[:, 0]
    if parted_by == "reward":
        r[1, 2, 1] += 1e-6
    elif parted_by == "kernel":
        P[1, 2, 0, 0] += [1e-6, -1e-6, 0.0]
    elif parted_by == "terminal":
        end[0, 2] += 1e-6
    model = Table(P, r, end=end, epochs=3)
    expected = [(0, 2)] if parted_by == "nothing" else []
    assert identical_states(model.primitives(at(0.9))) == expected


def test_what_is_written_at_actions_that_cannot_be_taken_parts_nothing():
    rng = np.random.default_rng(8)
    P, r = random_kernel(rng, 2, 2, 2), random_reward(rng, 2, 2, 2)
    P[:, 1, 0], r[:, 1, 0] = P[:, 0, 0], r[:, 0, 0]
    closed = np.array([[True, False], [True, False]])
    assert identical_states(Table(P, r, mask=closed).primitives(at(0.9))) == [(0, 1)]
    assert identical_states(Table(P, r).primitives(at(0.9))) == []


@pytest.mark.full
@given(
    bins=st.integers(6, 12),
    increments=st.integers(2, 6),
    conditions=st.integers(1, 4),
    reset=st.sampled_from(["at_zero", "increment"]),
    new=st.sampled_from(["good", "free"]),
)
@some
def test_the_papers_engines_have_no_such_states(bins, increments, conditions, reset, new):
    options = {"conditions": conditions, "reset": reset, "new": new}
    model = pf.models.EngineReplacement(bins=bins, increments=increments, **options)
    assert identical_states(model.primitives(model.example())) == []


@pytest.mark.parametrize("model", [pf.models.Tiger(), pf.models.EquipmentInspection()])
def test_nor_have_the_other_ready_models(model):
    assert identical_states(model.primitives(model.example())) == []


@pytest.mark.full
def test_a_fit_of_the_papers_engine_warns_of_nothing_of_the_kind():
    panel = pf.Panel.from_arrays([[0, 2, 3, 0, 1]], [[0, 0, 1, 0]])
    options = {"prior": pf.KnownPrior([1.0, 0.0]), "grid": SMALL, "starts": 1, "progress": stop}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Enough):
            pf.fit(HIDDEN, panel, **options)


def test_the_likelihood_is_flat_between_twins():
    """What the warning says: the merged model has the same likelihood, however x0 is split."""
    panel, _ = twin_panel()
    model, grid = Twins(), pf.Linear(9)
    split = [
        pf.log_likelihood(
            model, model.example(), panel, prior=pf.KnownPrior([0.4, left, 0.6 - left]), grid=grid
        ).total
        for left in (0.0, 0.15, 0.6)
    ]
    np.testing.assert_allclose(split, split[0], rtol=1e-12)
