"""Models as Gymnasium environments, and panels from any policy in any of them."""

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_reward
from reference import enumeration

gymnasium = pytest.importorskip("gymnasium", reason="the extra gymnasium is not installed")

TIGER = pf.models.Tiger()
# Shocks of the size of the rewards, so that every action is taken often.
THETA = TIGER.example() | {"gold": 1.0, "mauled": -2.0, "listen": -0.2, "accuracy": 0.8}
GRID = pf.Smooth(21)
PRIOR = pf.KnownPrior([0.4, 0.6])


@pytest.fixture(scope="module")
def solution():
    return pf.solve(TIGER, THETA, grid=GRID)


@pytest.fixture(scope="module")
def acted(solution):
    options = {"agents": 400, "periods": 8, "seed": 1, "theta": THETA, "prior": PRIOR}
    return pf.rollout(TIGER, solution, **options)


def env_of(**options):
    return pf.to_gymnasium(TIGER, THETA, **({"prior": PRIOR, "periods": 10} | options))


# ---- the environment ---------------------------------------------------------------------------


def finite():
    rng = np.random.default_rng(0)
    P, r = random_kernel(rng, 3, 2, 2), random_reward(rng, 3, 2, 2)
    return Table(P, r, end=rng.normal(size=(3, 2)), epochs=4)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(lambda: env_of(), id="tiger"),
        pytest.param(lambda: env_of(shocks=True), id="shocks"),
        pytest.param(lambda: pf.to_gymnasium(finite(), at(0.9), prior=PRIOR), id="horizon"),
        pytest.param(
            lambda: pf.to_gymnasium(
                pf.models.EngineReplacement(bins=6, conditions=1),
                pf.models.EngineReplacement(bins=6, conditions=1).example(),
            ),
            id="engine",
        ),
    ],
)
def test_gymnasiums_own_checker_passes(env):
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*spec.*")  # it is not registered by a name
        check_env(env(), skip_render_check=True)


def test_spaces_are_those_of_the_model_and_info_tells_what_is_hidden():
    env = env_of()
    assert env.observation_space == gymnasium.spaces.Discrete(2)
    assert env.action_space == gymnasium.spaces.Discrete(3)
    z, info = env.reset(seed=0)
    assert z == 0
    assert info["state_label"] == ("left", "right")[info["state"]]
    assert info["epoch"] == 0
    assert env.action_labels == ("listen", "open left", "open right")
    np.testing.assert_array_equal(info["action_mask"], [1, 1, 1])


def test_the_reward_is_that_of_the_state_that_was_acted_in():
    env = env_of()
    r = np.asarray(TIGER.reward(THETA))
    z, info = env.reset(seed=3)
    for a in (0, 1, 2, 0, 2, 1):
        s = info["state"]
        z_next, reward, terminated, truncated, info = env.step(a)
        assert reward == r[z, s, a]
        assert (terminated, truncated) == (False, False)
        z = z_next


def test_an_episode_is_truncated_by_periods_and_terminated_by_the_horizon():
    env = env_of(periods=3)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    model = finite()
    env = pf.to_gymnasium(model, at(0.9), prior=PRIOR)
    env.reset(seed=0)
    steps = [env.step(1) for _ in range(4)]
    assert [step[2:4] for step in steps] == [(False, False)] * 3 + [(True, False)]
    z, _, _, _, info = steps[-1]
    assert info["terminal"] == model.end[z, info["state"]]
    assert "terminal" not in steps[0][4]
    with pytest.raises(pf.ModelError, match="reset"):
        env.step(0)


def test_options_of_reset_set_the_prior_and_the_first_observation_for_one_episode():
    env = env_of()
    for s in (0, 1):
        sure = np.eye(2)[s]
        states = [env.reset(seed=k, options={"prior": sure, "z0": 1}) for k in range(20)]
        assert all(z == 1 and info["state"] == s for z, info in states)
    drawn = [env.reset(seed=k)[1]["state"] for k in range(2000)]
    assert env.reset(seed=0)[0] == 0
    error = 5 * np.sqrt(0.4 * 0.6 / 2000)
    assert np.mean(drawn) == pytest.approx(0.6, abs=error)


def test_the_same_seed_gives_the_same_episode():
    def episode(seed):
        env = env_of(shocks=True)
        z, _ = env.reset(seed=seed)
        steps = [env.step(k % 3) for k in range(8)]
        return [z, *(step[0] for step in steps)], [step[1] for step in steps]

    assert episode(5) == episode(5)
    assert episode(5) != episode(6)


def test_who_sees_the_shocks_and_takes_the_best_chooses_with_the_policys_probabilities(solution):
    """max_a q_a + eps_a is what the soft policy is the law of; rewards hold the shock taken."""
    env = env_of(shocks=True, periods=None)
    x, r = np.array([0.4, 0.6]), np.asarray(TIGER.reward(THETA))
    q, policy = np.asarray(solution.q(0, x)), np.asarray(solution.policy(0, x))
    taken, paid = np.zeros(3), []
    for k in range(4000):
        _, info = env.reset(seed=k)
        shock = info["shock"]
        a = int(np.argmax(q + shock))
        taken[a] += 1
        reward = env.step(a)[1]
        paid.append(reward - shock[a] - r[0, info["state"], a])
    np.testing.assert_allclose(paid, 0.0, atol=1e-12)
    error = 5 * np.sqrt(policy * (1 - policy) / 4000)
    assert (np.abs(taken / 4000 - policy) <= error).all()


# ---- panels ------------------------------------------------------------------------------------


def counts(panel, Z=2, A=3):
    """How often each agent went through (z, a, z')."""
    table = np.zeros((panel.agent_count, Z, A, Z))
    for i, t in np.argwhere(panel.continues & panel.acted):
        table[i, panel.z[i, t], panel.a[i, t], panel.z[i, t + 1]] += 1
    return table


def test_frequencies_are_those_of_simulate_within_monte_carlo_error(acted):
    simulated = pf.simulate(TIGER, THETA, agents=1600, periods=8, seed=2, prior=PRIOR, grid=GRID)
    ours, theirs = counts(acted), counts(simulated)
    # Agents are independent; five standard errors of the difference of two means.
    error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= 5 * error).all()
    assert ours.mean(axis=0).min() > 0.05  # every cell is met


def test_the_panel_of_a_solution_has_the_likelihood_that_log_likelihood_gives(acted, solution):
    """Beliefs by listing hidden paths, choices by the solution's own policy."""
    few = pf.Panel.from_arrays(acted.z[:15], acted.a[:15, :-1])
    terms = pf.log_likelihood(TIGER, THETA, few, prior=PRIOR, grid=GRID)
    P = TIGER.kernel(THETA).to_dense()
    for i in range(15):
        z, a = few.z[i], few.a[i][few.acted[i]]
        x = enumeration.filtered(P, np.array([0.4, 0.6]), z, a)
        sigma = enumeration.sequence_probabilities(P, np.array([0.4, 0.6]), z, a)
        np.testing.assert_allclose(terms.observation[i, :-1], np.log(sigma), atol=1e-11)
        policy = np.asarray(solution.policy(z[:-1], x[:-1]))
        chosen = np.log(policy[np.arange(len(a)), a])
        np.testing.assert_allclose(terms.choice[i, :-1], chosen, atol=1e-10)


def test_its_choices_have_the_entropy_of_the_policy(acted, solution):
    """E[log pi(a | z, x) + H(pi(. | z, x))] = 0 for who follows pi, within five errors."""
    terms = pf.log_likelihood(TIGER, THETA, acted, prior=PRIOR, grid=GRID)
    policy = np.asarray(solution.policy(acted.z, terms.belief))
    entropy = -(policy * np.log(policy)).sum(axis=-1)
    surplus = np.where(acted.acted, terms.choice + entropy, 0.0).sum(axis=1)
    assert abs(surplus.mean()) <= 5 * surplus.std() / np.sqrt(len(surplus))


def test_a_rollout_depends_on_the_seed_and_the_agent_alone(acted, solution):
    options = {"theta": THETA, "prior": PRIOR, "periods": 8}
    fewer = pf.rollout(TIGER, solution, agents=5, seed=1, **options)
    np.testing.assert_array_equal(fewer.z, acted.z[:5])
    np.testing.assert_array_equal(fewer.a, acted.a[:5])
    other = pf.rollout(TIGER, solution, agents=5, seed=2, **options)
    assert (other.a != fewer.a).any()


def test_an_environment_and_its_model_give_the_same_panel(acted, solution):
    env = env_of(periods=None)
    env.reset(seed=0, options={"prior": [1.0, 0.0], "z0": 1})  # forgotten by the next reset
    panel = pf.rollout(env, solution, agents=6, periods=8, seed=1)
    np.testing.assert_array_equal(panel.z, acted.z[:6])
    np.testing.assert_array_equal(panel.a, acted.a[:6])


def test_each_agent_acts_on_a_prior_of_its_own(solution):
    """Who starts sure of the tiger's place opens the other door more often than not."""
    own = pf.KnownPrior(np.array([[1.0, 0.0], [0.0, 1.0]])[np.arange(400) % 2])
    options = {"agents": 400, "periods": 1, "seed": 0, "theta": THETA, "prior": own}
    panel = pf.rollout(TIGER, solution, **options)
    for s in (0, 1):
        policy = np.asarray(solution.policy(0, np.eye(2)[s]))
        share = np.bincount(panel.a[s::2, 0], minlength=3) / 200
        assert (np.abs(share - policy) <= 5 * np.sqrt(policy * (1 - policy) / 200)).all()


def test_a_function_of_the_history_acts_as_it_says():
    """Listen until the same side was heard twice running, then open the other door."""

    def twice(z, a):
        assert len(z) == len(a) + 1
        return 2 - z[-1] if len(z) > 2 and z[-1] == z[-2] and a[-1] == 0 else 0

    options = {"agents": 50, "periods": 12, "seed": 0, "theta": THETA, "prior": PRIOR}
    panel = pf.rollout(TIGER, twice, **options)
    for i in range(50):
        for t in range(12):
            z, a = tuple(panel.z[i, : t + 1]), tuple(panel.a[i, :t])
            assert panel.a[i, t] == twice(z, a)
    assert (panel.a > 0).any()


def test_probabilities_of_a_function_are_followed():
    law = np.array([0.2, 0.5, 0.3])
    options = {"agents": 300, "periods": 10, "seed": 0, "theta": THETA, "prior": PRIOR}
    panel = pf.rollout(TIGER, lambda z, a: law, **options)
    share = np.bincount(panel.a[panel.acted], minlength=3) / 3000
    assert (np.abs(share - law) <= 5 * np.sqrt(law * (1 - law) / 3000)).all()


def test_a_finite_horizon_ends_the_panel_and_is_acted_on_by_epoch():
    model = finite()
    sol = pf.solve(model, at(0.9), grid=GRID)
    options = {"agents": 800, "periods": 9, "seed": 0, "theta": at(0.9), "prior": PRIOR}
    panel = pf.rollout(model, sol, **options)
    assert panel.z.shape == (800, 5)
    terms = pf.log_likelihood(model, at(0.9), panel, prior=PRIOR, grid=GRID)
    for t in range(4):
        policy = np.asarray(sol.policy(panel.z[:, t], terms.belief[:, t], t))
        gap = (panel.a[:, t] == 1) - policy[:, 1]
        assert abs(gap.mean()) <= 5 * gap.std() / np.sqrt(800)


def test_actions_that_are_not_available_are_not_taken_and_not_accepted():
    model = pf.models.EngineReplacement(bins=6, increments=3, discount=0.9, top="replace")
    theta, prior = model.example(), pf.KnownPrior([1.0, 0.0])
    sol = pf.solve(model, theta, grid=pf.Smooth(5))
    panel = pf.rollout(model, sol, agents=20, periods=15, seed=0, theta=theta, prior=prior)
    panel.check(sol.primitives)
    with pytest.raises(pf.ModelError, match=r"action 0 \(keep\) is not available at z=\d"):
        pf.rollout(model, lambda z, a: 0, agents=1, periods=20, seed=0, theta=theta, prior=prior)


def test_an_agent_may_act_on_a_solution_of_another_theta():
    wrong = pf.solve(TIGER, THETA | {"gold": 5.0}, grid=GRID)
    options = {"agents": 300, "periods": 5, "seed": 0, "theta": THETA, "prior": PRIOR}
    eager = pf.rollout(TIGER, wrong, **options)
    believed = THETA | {"gold": 5.0}
    as_it_thinks = pf.log_likelihood(TIGER, believed, eager, prior=PRIOR, grid=GRID)
    as_it_is = pf.log_likelihood(TIGER, THETA, eager, prior=PRIOR, grid=GRID)
    assert as_it_thinks.choice.sum() > as_it_is.choice.sum()


def test_what_the_solution_calls_impossible_is_an_error_that_says_so():
    deaf = pf.solve(TIGER, THETA | {"accuracy": 1.0}, grid=GRID)
    with pytest.raises(pf.ImpossibleObservationError, match=r"probability zero to z'=\d.*agent"):
        pf.rollout(TIGER, deaf, agents=50, periods=20, seed=0, theta=THETA, prior=PRIOR)


# ---- refusals ----------------------------------------------------------------------------------

RUN = {"agents": 1, "periods": 2, "seed": 0}
WITH = RUN | {"theta": THETA, "prior": PRIOR}


def stepped(action):
    env = env_of()
    env.reset(seed=0)
    return env.step(action)


def test_whole_numbers_of_numpy_are_actions():
    """As an action space draws them, and as policies of other packages return them."""
    outcomes = [stepped(action) for action in (1, np.int64(1), np.array(1), np.uint8(1))]
    assert len({outcome[:4] for outcome in outcomes}) == 1


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: pf.rollout(TIGER, lambda z, a: 0, **RUN), "theta"),
        (lambda: pf.rollout(TIGER, lambda z, a: 0, **(WITH | {"agents": 0})), "agents"),
        (lambda: pf.rollout(TIGER, lambda z, a: 0, **(WITH | {"seed": -1})), "seed"),
        (lambda: pf.rollout(TIGER, lambda z, a: 0, **(WITH | {"z0": 2})), r"0\.\.1.* 2"),
        (lambda: pf.rollout(TIGER, "listen", **WITH), "policy must be"),
        (lambda: pf.rollout(TIGER, lambda z, a: 3, **WITH), r"action 3.*0\.\.2.*agent 0"),
        (lambda: pf.rollout(TIGER, lambda z, a: 1.0, **WITH), r"gave 1\.0"),
        (lambda: pf.rollout(TIGER, lambda z, a: [0.5, 0.5, 0.1], **WITH), r"sum to 1.*0\.1"),
        (lambda: pf.rollout(TIGER, lambda z, a: [0.5, 0.5], **WITH), "3 probabilities"),
        (lambda: pf.rollout("tiger", lambda z, a: 0, **RUN), "world must be"),
        (lambda: pf.rollout(env_of(), lambda z, a: 0, **(RUN | {"theta": THETA})), "own theta"),
        (lambda: pf.rollout(env_of(), lambda z, a: 0, **(RUN | {"prior": PRIOR})), "no use"),
        (lambda: pf.to_gymnasium(TIGER, THETA), "needs a prior"),
        (lambda: env_of(periods=0), "periods.* 0"),
        (lambda: env_of(z0=5), r"z0.* 5"),
        (lambda: env_of().step(0), r"reset\(\)"),
        (lambda: stepped(1.99), r"one of 0\.\.2, a whole number, but it is 1\.99"),
        (lambda: stepped("2"), "a whole number, but it is '2'"),
        (lambda: stepped(True), "a whole number, but it is True"),
        (lambda: stepped([1]), r"a whole number, but it is \[1\]"),
        (lambda: stepped(3), r"one of 0\.\.2, but it is 3"),
        (lambda: env_of(z0=True), "z0.* True"),
        (lambda: env_of().reset(options={"s0": 1}), "'s0'"),
        (lambda: env_of().reset(options={"prior": [0.5, 0.4]}), r"0\.9"),
        (lambda: env_of().reset(options={"z0": -1}), "-1"),
    ],
)
def test_refusals(run, message):
    with pytest.raises(pf.ModelError, match=message):
        run()


def test_shocks_that_cannot_be_drawn_are_refused_when_the_environment_is_made():
    rng = np.random.default_rng(0)
    nested = pf.NestedLogit(((0, 1), (2,)), [0.5, 1.0])
    model = Table(random_kernel(rng, 2, 2, 3), random_reward(rng, 2, 2, 3), nested)
    with pytest.raises(pf.ModelError, match="NestedLogit"):
        pf.to_gymnasium(model, at(0.9), prior=PRIOR, shocks=True)


def test_a_solution_needs_a_first_belief_where_the_environment_tells_none(solution):
    class Other(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return int(self.np_random.integers(2)), 0.0, False, False, {}

    with pytest.raises(pf.ModelError, match="KnownPrior"):
        pf.rollout(Other(), solution, **RUN)
    panel = pf.rollout(Other(), solution, prior=PRIOR, **RUN)
    assert panel.z.shape == (1, 3)


def test_without_gymnasium_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(pf.MissingExtraError, match=r"pip install 'pomdpfit\[gymnasium\]'"):
        pf.to_gymnasium(TIGER, THETA, prior=PRIOR)
    # A model is a world without it.
    assert pf.rollout(TIGER, lambda z, a: 0, **WITH).nobs == 2


@pytest.mark.full
def test_the_page_runs(capsys):
    text = (Path(__file__).parents[1] / "docs" / "gymnasium.md").read_text()
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "gymnasium.md", "exec"), names)
    assert "50 agents" in capsys.readouterr().out
