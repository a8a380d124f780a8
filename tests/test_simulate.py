"""Simulation: seeds, first draws, Bayes along the path, and frequencies against policy and kernel.

Seeds are fixed, so a test that passes once passes always; five standard errors leave one wrong
refusal in a million for whoever changes a seed.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import pomdpfit as pf
import small_hidden as hidden
from pomdpfit import _solve
from reference import enumeration, tree

jax.config.update("jax_enable_x64", True)

Z, S, A = 3, 2, 3
N, T = 3000, 3
X0 = np.array([0.3, 0.7])
RNG = np.random.default_rng(7)
P = RNG.gamma(0.8, size=(Z, S, A, Z, S)) * (RNG.random((Z, S, A, Z, S)) < 0.8)
P[..., 0, 0] += 0.05
P /= P.sum(axis=(3, 4), keepdims=True)
R = RNG.normal(size=(Z, S, A))
TERMINAL = RNG.normal(size=(Z, S))
OPEN = np.array([[True, True, False], [True, True, True], [False, True, True]])
GRID = pf.Linear(2)  # rewards are linear in x: with discount 0 two nodes are exact
TINY = 1e-9  # chi-square tests refuse at this probability, about six standard errors


class Table(pf.Model):
    """The tables above; `epochs` of them, or for ever."""

    beta: float = eqx.field(static=True, default=0.0)
    epochs: int | None = eqx.field(static=True, default=None)

    def parameters(self):
        return {"discount": pf.discount_parameter(self.beta)}

    def kernel(self, theta):
        return pf.dense_kernel(P)

    def reward(self, theta):
        return jnp.asarray(R)

    def available(self):
        return OPEN

    def horizon(self):
        return self.epochs

    def terminal(self, theta):
        return jnp.asarray(TERMINAL)


def run(model=None, **options):
    """N agents over T periods of the static problem, unless told otherwise."""
    model = model or Table()
    defaults = {"agents": N, "periods": T, "seed": 3, "prior": pf.KnownPrior(X0), "hidden": True,
                "grid": GRID, "z0": np.arange(N) % Z}  # fmt: skip
    return pf.simulate(model, {"discount": model.beta}, **(defaults | options))


@pytest.fixture(scope="module")
def simulation():
    return run()


@pytest.fixture(scope="module")
def finite():
    """Horizon and policy that matter: a fine grid, three epochs, discount 0.9."""
    return run(Table(0.9, T), grid=pf.Smooth(101))


def steps(sim):
    """z, s, x, a, z', s' of every transition, one row each."""
    z, a = sim.panel.z, sim.panel.a[:, :-1]
    flat = (z[:, :-1], sim.s[:, :-1], a, z[:, 1:], sim.s[:, 1:])
    return *(part.ravel() for part in flat), sim.belief[:, :-1].reshape(-1, S)


def softmax(q, available):
    weight = np.where(available, np.exp(q - q.max()), 0.0)
    return weight / weight.sum()


# ---- seeds and shapes --------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_panel_and_another_one_another(simulation):
    again, other = run(), run(seed=4)
    np.testing.assert_array_equal(again.panel.z, simulation.panel.z)
    np.testing.assert_array_equal(again.panel.a, simulation.panel.a)
    np.testing.assert_array_equal(again.s, simulation.s)
    assert not np.array_equal(other.panel.a, simulation.panel.a)
    assert simulation.seed == 3
    assert any("3" in note for note in simulation.panel.notes)


def test_an_agents_path_does_not_depend_on_how_many_there_are(simulation):
    few = run(agents=5, z0=np.arange(5) % Z)
    np.testing.assert_array_equal(few.panel.z, simulation.panel.z[:5])
    np.testing.assert_array_equal(few.panel.a, simulation.panel.a[:5])
    np.testing.assert_array_equal(few.s, simulation.s[:5])
    # Another batch size may change the last bit of a belief, no more.
    np.testing.assert_allclose(few.belief, simulation.belief[:5], rtol=1e-14)


def test_without_hidden_only_the_panel_comes_back(simulation):
    panel = run(hidden=False)
    assert isinstance(panel, pf.Panel)
    np.testing.assert_array_equal(panel.a, simulation.panel.a)


def test_a_panel_holds_as_many_choices_as_periods_and_one_more_observation(simulation):
    panel = simulation.panel
    assert panel.z.shape == simulation.s.shape == (N, T + 1)
    assert simulation.belief.shape == (N, T + 1, S)
    assert panel.nobs == N * T
    np.testing.assert_array_equal(panel.acted.sum(axis=1), T)
    assert not panel.acted[:, -1].any()
    np.testing.assert_array_equal(panel.z[:, 0], np.arange(N) % Z)
    panel.check(Table().primitives({"discount": 0.0}))


# ---- beliefs -----------------------------------------------------------------------------------


def test_the_first_hidden_state_is_drawn_from_the_prior(simulation):
    error = np.sqrt(X0[0] * X0[1] / N)
    assert abs((simulation.s[:, 0] == 0).mean() - X0[0]) <= 5 * error


def test_each_agent_starts_from_its_own_prior():
    beliefs = np.tile([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], (N // 3, 1))
    sim = run(prior=pf.KnownPrior(beliefs))
    np.testing.assert_array_equal(sim.belief[:, 0], beliefs)
    assert np.all(sim.s[0::3, 0] == 0)
    assert np.all(sim.s[1::3, 0] == 1)
    third = sim.s[2::3, 0]
    assert abs(third.mean() - 0.5) <= 5 * 0.5 / np.sqrt(len(third))


def test_beliefs_are_bayes_rule_over_all_hidden_paths(simulation):
    for i in range(0, N, 100):
        z, a = simulation.panel.z[i], simulation.panel.a[i, :-1]
        expected = enumeration.filtered(P, X0, z, a)
        np.testing.assert_allclose(simulation.belief[i], expected, rtol=1e-13)


def test_the_agent_is_bayesian_hidden_states_follow_the_beliefs(simulation):
    """Over agents, 1{s_t = 0} - x_t(0) has mean zero at every t, the last one included."""
    for t in range(T + 1):
        x = simulation.belief[:, t, 0]
        surprise = (simulation.s[:, t] == 0) - x
        assert abs(surprise.sum()) <= 5 * np.sqrt((x * (1 - x)).sum())


# ---- frequencies -------------------------------------------------------------------------------


def assert_frequencies(drawn, laws):
    """Chi-square-like: sums of 1{draw = k} - law_k in units of their standard errors."""
    laws = np.asarray(laws)
    for k in range(laws.shape[1]):
        surprise = ((drawn == k) - laws[:, k]).sum()
        assert abs(surprise) <= 5 * np.sqrt((laws[:, k] * (1 - laws[:, k])).sum())


def test_choices_follow_the_static_logit_with_discount_zero(simulation):
    z, _, a, _, _, x = steps(simulation)
    laws = [softmax(x[i] @ R[z[i]], OPEN[z[i]]) for i in range(len(z))]
    assert_frequencies(a, laws)
    assert OPEN[z, a].all()  # never an action that is unavailable


def test_choices_follow_the_tree_recursion_epoch_by_epoch(finite):
    """Beliefs after t < 3 transitions are few, so that the brute-force Q is found once each."""

    @functools.cache
    def law(z, x, left):
        emax = tree.gumbel_emax(1.0)
        q = tree.soft_q(P, R, 0.9, left, z, np.array(x), emax, TERMINAL, OPEN)
        return softmax(np.where(OPEN[z], q, -np.inf), OPEN[z])

    for t in range(T):
        z, x = finite.panel.z[:, t], np.round(finite.belief[:, t], 12)
        laws = [law(int(z[i]), tuple(x[i]), T - t) for i in range(N)]
        assert_frequencies(finite.panel.a[:, t], laws)


def test_choices_follow_the_policy_that_solve_returns():
    model = Table(0.8)
    policy = pf.solve(model, {"discount": 0.8}, grid=pf.Smooth(21)).policy
    z, _, a, _, _, x = steps(run(model, grid=pf.Smooth(21)))
    assert_frequencies(a, policy(z, x))


def test_pairs_of_next_observation_and_state_follow_the_kernel(simulation):
    z, s, a, z1, s1, _ = steps(simulation)
    assert np.all(P[z, s, a, z1, s1] > 0)  # what cannot happen never does
    for cell in np.ndindex(Z, S, A):
        here = (z == cell[0]) & (s == cell[1]) & (a == cell[2])
        law = P[cell].ravel()
        counts = np.bincount(z1[here] * S + s1[here], minlength=Z * S)
        # Rare pairs are pooled, so that the chi-square law holds (five expected, as usual).
        rare = law * here.sum() < 5
        pooled = [np.append(v[~rare], v[rare].sum()) for v in (counts, law * here.sum())]
        keep = pooled[1] > 0
        if keep.sum() > 1:
            assert stats.chisquare(pooled[0][keep], pooled[1][keep]).pvalue > TINY


# ---- refusals ----------------------------------------------------------------------------------


def test_the_horizon_is_respected():
    with pytest.raises(pf.ModelError, match=rf"horizon of {T}\b"):
        run(Table(0.9, T), periods=T + 1)
    assert run(Table(0.9, T), periods=T - 1, agents=3, z0=0).panel.z.shape == (3, T)


@pytest.mark.parametrize("options", [
    {"agents": 0, "z0": 0}, {"periods": 0}, {"z0": Z}, {"z0": -1}, {"z0": 0.5},
    {"z0": np.zeros(N + 1, dtype=int)}, {"prior": None}, {"prior": X0},
    {"prior": pf.KnownPrior([0.5, 0.6])}, {"prior": pf.KnownPrior([1.0])},
])  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(options):
    with pytest.raises(pf.ModelError):
        run(**options)


def test_a_solution_given_is_used_and_must_be_of_the_same_theta():
    model, prior = hidden.ENGINE, hidden.PRIOR
    solution = pf.solve(model, hidden.TRUTH, grid=hidden.GRID)
    given = hidden.hidden_panel(solution=solution)
    np.testing.assert_array_equal(given.a, hidden.hidden_panel().a)
    theta = {**hidden.TRUTH, "RC": 11.0}
    with pytest.raises(pf.ModelError, match="another"):
        pf.simulate(model, theta, agents=5, periods=7, seed=3, prior=prior, solution=solution)


def test_a_panel_its_likelihood_and_a_solution_share_one_compiled_solver():
    model, theta = hidden.ENGINE, hidden.ENGINE.example()
    means = {"prior": hidden.PRIOR, "grid": hidden.GRID}
    _solve._round.forget()
    panel = pf.simulate(model, theta, agents=40, periods=22, seed=0, **means)
    assert len(_solve._round._ready) == 1
    pf.log_likelihood(model, theta, panel, **means)
    pf.solve(model, theta, grid=hidden.GRID)
    assert len(_solve._round._ready) == 1
