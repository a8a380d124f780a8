"""Rewards from choice probabilities: exact where the model made them, and as plain code has it."""

import dataclasses

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_reward
from pomdpfit import plots
from reference import nfxp

jax.config.update("jax_enable_x64", True)
mpl.use("Agg")

Z, A = 3, 3
GRIDS = {1: pf.Linear(2), 2: pf.Smooth(6), 3: pf.Linear(4)}
GUMBEL = pf.Gumbel(np.array(0.8))  # an array is data: other scales share the compiled code
NESTED = pf.NestedLogit(((0, 2), (1,)), [0.4, 0.9], 0.7)
BETA = 0.9
MASK = np.ones((Z, A), bool)
MASK[1, 2] = MASK[2, 0] = False
ENGINE = pf.models.EngineReplacement(bins=5, increments=3, discount=0.9)
RATES = {
    **ENGINE.example(),
    "RC": 2.5,
    "cost": np.array([100.0, 600.0]),
    "stay": np.array([0.9, 0.95]),
    "increment": np.array([[0.2, 0.3, 0.5], [0.5, 0.4, 0.1]]),
}


def random_table(S, seed=0, **changes) -> Table:
    rng = np.random.default_rng(seed)
    model = Table(random_kernel(rng, Z, S, A), random_reward(rng, Z, S, A), GUMBEL)
    if changes.get("epochs"):
        changes["end"] = rng.normal(size=(Z, S))
    return dataclasses.replace(model, **changes)


# ---- exact on what the model made --------------------------------------------------------------


@pytest.mark.parametrize(
    ("S", "shocks", "epochs"),
    [
        (2, GUMBEL, None),
        (1, NESTED, 3),
        (3, NESTED, None),
        *[
            pytest.param(S, shocks, epochs, marks=pytest.mark.full)
            for S, shocks in ((1, GUMBEL), (2, NESTED))
            for epochs in (None, 3)
        ],
        pytest.param(3, NESTED, 3, marks=pytest.mark.full),
        pytest.param(2, GUMBEL, 3, marks=pytest.mark.full),
    ],
)
def test_rewards_come_back_from_choice_probabilities(S, shocks, epochs):
    """Also where some actions are ruled out, and nothing comes back there.

    The solver's residual, 1e-10, grows to 2e-10 / (1 - 0.9) at the most.
    """
    mask = MASK if shocks is NESTED else None
    model = random_table(S, shocks=shocks, epochs=epochs, mask=mask)
    solution = pf.solve(model, at(BETA), grid=GRIDS[S])
    inverted = pf.invert_rewards(model, at(BETA), reference=1, policy=solution)
    expected = model.r if mask is None else np.where(mask[:, None, :], model.r, np.nan)
    np.testing.assert_allclose(inverted.table, expected, atol=1e-8)
    assert np.nanmax(inverted.nonlinearity) < 1e-8
    assert ("--" in inverted.summary()) == (mask is not None)
    if epochs is None:
        assert inverted.spread is None
    else:
        assert np.nanmax(inverted.spread) < 1e-8


@pytest.mark.full
def test_smooth_and_linear_grids_both_give_them_back_whatever_the_reference():
    model, theta, truth = ENGINE, RATES, np.asarray(ENGINE.reward(RATES))
    for grid in (pf.Smooth(6), pf.Linear(6)):
        solution = pf.solve(model, theta, grid=grid)
        for reference in ("keep", "replace"):
            got = pf.invert_rewards(model, theta, reference=reference, policy=solution)
            np.testing.assert_allclose(got.table, truth, atol=1e-8)
            assert got.actions[got.reference] == reference
            # The rewards of the reference come out as they went in.
            known = got.table[..., got.reference]
            np.testing.assert_allclose(known, truth[..., got.reference], atol=1e-12)


def test_the_models_rewards_are_not_looked_at_but_for_the_reference():
    model = random_table(2)
    solution = pf.solve(model, at(BETA), grid=GRIDS[2])
    blind = dataclasses.replace(model, r=np.zeros_like(model.r))
    got = pf.invert_rewards(
        blind, at(BETA), reference=0, policy=solution, reward_of_reference=model.r[..., 0]
    )
    np.testing.assert_allclose(got.table, model.r, atol=1e-8)
    assert "(given)" in got.summary()


def test_a_rewards_table_is_labelled_and_read_between_nodes():
    solution = pf.solve(ENGINE, RATES, grid=pf.Smooth(6))
    got = pf.invert_rewards(ENGINE, RATES, reference="replace", policy=solution)
    assert isinstance(got.reward, pd.DataFrame)
    assert got.reward.loc[(4, "bad"), "keep"] == pytest.approx(-0.001 * 600 * 4, abs=1e-8)
    x = np.array([0.37, 0.63])
    np.testing.assert_allclose(got.at(4, x)[0], -0.004 * (0.37 * 100 + 0.63 * 600), atol=1e-8)
    for word in ("replace", "the model's own", "0.9", "not linear", "Smooth"):
        assert word in got.summary()


# ---- beside plain code -------------------------------------------------------------------------


def mdp_inverse(P, r0, policy, reference, beta):
    """Hotz and Miller on a fully observed MDP: V = (I - beta P_0)^-1 (r_0 - 0.8 log p_0)."""
    right = r0 - 0.8 * np.log(policy[:, reference])
    V = np.linalg.solve(np.eye(len(P)) - beta * P[:, reference], right)
    return V[:, None] + 0.8 * np.log(policy) - beta * np.einsum("zay,y->za", P, V)


policies = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).dirichlet(np.full(A, 0.7), size=Z) * 0.999 + 0.001 / A
)


@given(policy=policies)
@settings(max_examples=15, deadline=None)
def test_with_one_state_any_policy_is_explained_and_as_plain_hotz_miller_says(policy):
    model = random_table(1)
    P = model.P[:, 0, :, :, 0]
    got = pf.invert_rewards(
        model, at(BETA), reference=1, policy=lambda z, x: policy[np.asarray(z)]
    ).table[:, 0]
    plain = mdp_inverse(P, model.r[:, 0, 1], policy, 1, BETA)
    np.testing.assert_allclose(got, plain, atol=1e-10)
    # And these rewards make the policy optimal, says another solver.
    np.testing.assert_allclose(nfxp.solve_mdp(P, got, BETA, scale=0.8)[2], policy, atol=1e-10)


def reset_inverse(policy, z, x):
    """r(z, x, keep) from V(z, x) = -RC - log P(replace | z, x) + beta V_new: no grid anywhere."""
    beta, RC = 0.9, 2.5
    log_replace = lambda z, x: np.log(np.asarray(policy(z, x))[1])
    new = (-RC - log_replace(0, np.array([1.0, 0.0]))) / (1 - beta)
    V = lambda z, x: -RC - log_replace(z, x) + beta * new
    stay, increment = RATES["stay"], RATES["increment"]
    move = np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    joint = {}
    for step in range(3):
        z1 = min(z + step, 4)
        joint[z1] = joint.get(z1, 0.0) + (x * increment[:, step]) @ move
    ahead = sum(mass.sum() * V(z1, mass / mass.sum()) for z1, mass in joint.items())
    return V(z, x) + np.log(np.asarray(policy(z, x))[0]) - beta * ahead


@pytest.mark.full
def test_a_reset_as_the_reference_needs_no_grid():
    """One scalar equation instead of a linear system; the policy's own grid is the error left."""
    fine = pf.solve(ENGINE, RATES, grid=pf.Smooth(101))
    truth = np.asarray(ENGINE.reward(RATES))
    for z in (0, 2, 4):
        for x in ([1.0, 0.0], [0.0, 1.0], [0.35, 0.65]):
            got = reset_inverse(fine.policy, z, np.array(x))
            # h^4 = 1e-8, times a fourth derivative of V that is below one here.
            assert got == pytest.approx(np.array(x) @ truth[z, :, 0], abs=1e-8)


@pytest.mark.parametrize("nodes", [(6,), pytest.param((6, 11), marks=pytest.mark.full)])
def test_any_policy_inverts_as_the_closed_form_does_up_to_the_grid(nodes):
    """A policy that no reward explains: what is recovered is bent, and still the closed form's."""

    def bent(z, x, xp=np):
        odds = xp.exp(-1.5 + 0.3 * z + xp.sin(2 * x[..., 1]))
        return xp.stack([1 / (1 + odds), odds / (1 + odds)], axis=-1)

    gaps = []
    for count in nodes:
        got = pf.invert_rewards(
            ENGINE,
            RATES,
            reference="replace",
            policy=lambda z, x: bent(z, x, jnp),
            grid=pf.Smooth(count),
        )
        coarse = got.nodes[:: (count - 1) // 5]
        expected = [[reset_inverse(bent, z, x) for x in coarse] for z in range(5)]
        gaps.append(np.abs(got.at_nodes[:, :: (count - 1) // 5, 0] - expected).max())
        assert got.nonlinearity.to_numpy().max() > 0.05
    # Hermite interpolation errs by h^4: a factor of 16, less where cells and beliefs line up.
    assert gaps[0] < 1e-3
    assert len(gaps) == 1 or gaps[1] < gaps[0] / 8


@pytest.mark.full
@pytest.mark.parametrize(("scheme", "ratio"), [(pf.Linear, 3.0), (pf.Smooth, 8.0)])
def test_with_a_policy_from_a_finer_grid_the_error_falls_as_the_scheme_has_it(scheme, ratio):
    """h^2 and h^4 would be 4 and 16 for each doubling."""
    fine = pf.solve(ENGINE, RATES, grid=pf.Smooth(101))
    truth = np.asarray(ENGINE.reward(RATES))
    gaps = []
    for nodes in (6, 11):
        got = pf.invert_rewards(ENGINE, RATES, reference="keep", policy=fine, grid=scheme(nodes))
        gaps.append(np.abs(got.table - truth).max())
    assert 1e-9 < gaps[1] < gaps[0] / ratio


# ---- what is normalised ------------------------------------------------------------------------


@pytest.mark.parametrize("S", [2, pytest.param(3, marks=pytest.mark.full)])
def test_wrong_rewards_of_the_reference_shape_all_others_by_a_potential(S):
    """r_0 + w moves V by c, c = w + beta E_0 c, and r_a by c - beta E_a c: linear, so exact."""
    model = random_table(S) if S == 2 else random_table(S, shocks=NESTED, mask=MASK)
    solution = pf.solve(model, at(BETA), grid=GRIDS[S])
    w = np.random.default_rng(5).normal(size=(Z, S))
    got = pf.invert_rewards(
        model, at(BETA), reference=1, policy=solution, reward_of_reference=model.r[..., 1] + w
    )
    n = Z * S
    move = model.P.transpose(2, 0, 1, 3, 4).reshape(A, n, n)
    c = np.linalg.solve(np.eye(n) - BETA * move[1], w.ravel())
    shift = (c - BETA * move @ c).reshape(A, Z, S).transpose(1, 2, 0)
    expected = model.r + shift
    if S == 3:
        expected = np.where(MASK[:, None, :], expected, np.nan)
    np.testing.assert_allclose(got.table, expected, atol=1e-8)
    assert np.nanmax(got.nonlinearity) < 1e-8


def test_the_scale_of_the_shocks_is_the_unit_of_the_rewards():
    model = random_table(2)
    solution = pf.solve(model, at(BETA), grid=GRIDS[2])
    louder = dataclasses.replace(model, shocks=pf.Gumbel(np.array(2.4)))
    got = pf.invert_rewards(
        louder, at(BETA), reference=0, policy=solution, reward_of_reference=3 * model.r[..., 0]
    )
    np.testing.assert_allclose(got.table, 3 * model.r, atol=1e-8)


def test_another_discount_gives_other_rewards_that_explain_the_same_only_if_linear():
    """With one state any discount explains the choices; with more the rewards come out bent."""
    for S, bends in ((1, False), (2, True)):
        model = random_table(S)
        solution = pf.solve(model, at(BETA), grid=GRIDS[S])
        got = pf.invert_rewards(model, at(0.5), reference=0, policy=solution)
        assert np.abs(got.table - model.r).max() > 0.01
        assert (got.nonlinearity.to_numpy().max() > 1e-3) == bends


def test_choices_made_under_other_dynamics_bend_the_rewards():
    model = random_table(2)
    solution = pf.solve(model, at(BETA), grid=GRIDS[2])
    other = dataclasses.replace(model, P=random_kernel(np.random.default_rng(9), Z, 2, A))
    got = pf.invert_rewards(other, at(BETA), reference=0, policy=solution)
    assert got.nonlinearity.to_numpy().max() > 1e-3


def test_choices_of_no_finite_horizon_spread_the_rewards_over_epochs():
    forever = random_table(2)
    policy = pf.solve(forever, at(BETA), grid=GRIDS[2]).values
    ending = random_table(2, epochs=3)

    def same_every_day(z, x, t):
        return jnp.exp(policy.log_choice(z, x))

    got = pf.invert_rewards(ending, at(BETA), reference=1, policy=same_every_day, grid=GRIDS[2])
    assert got.at_nodes.shape == (3, Z, 6, A)
    assert got.spread.to_numpy().max() > 0.01
    assert "between epochs" in got.summary()


# ---- picture -----------------------------------------------------------------------------------


def test_the_picture_has_points_for_each_z_and_the_line_between_their_ends():
    solution = pf.solve(ENGINE, RATES, grid=pf.Smooth(6))
    got = pf.invert_rewards(ENGINE, RATES, reference="replace", policy=solution)
    ax = plots.inverted_rewards(got, "keep", observations=[1, 4], ax=plt.figure().subplots())
    points, line = ax.lines[2], ax.lines[3]
    np.testing.assert_allclose(points.get_ydata(), got.at_nodes[4, :, 0])
    np.testing.assert_allclose(line.get_ydata(), got.table[4, :, 0])
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["z = 1", "z = 4"]
    plt.close(ax.figure)
    three = dataclasses.replace(got, states=("a", "b", "c"))
    with pytest.raises(pf.ModelError, match="not for 3"):
        plots.inverted_rewards(three, "keep")


# ---- refusals ----------------------------------------------------------------------------------


def even(z, x):
    return jnp.full((*jnp.shape(z), A), 1 / A)


def refused(words, model=None, **changes):
    model = random_table(2) if model is None else model
    arguments = {"reference": 0, "policy": even, "grid": GRIDS[2], **changes}
    with pytest.raises(pf.ModelError, match=words):
        pf.invert_rewards(model, at(BETA), **arguments)


def test_reference_actions_that_do_not_serve_are_refused():
    refused("one of 0, 1, 2 .*'wait'", reference="wait")
    refused("but it is 3", reference=3)
    refused("but it is True", reference=True)
    mask = np.ones((Z, A), bool)
    mask[2, 0] = False
    refused(r"'0' is not available at z=2 \(1 such z\)", random_table(2, mask=mask))


def test_policies_that_are_none_are_refused():
    refused("policy must be a solution", policy=0.5)
    refused(r"shape \(3, 6, 3\), but they have \(3, 6\)", policy=lambda z, x: x[..., 0])
    refused(r"z=0, x=\[1.0, 0.0\]\) they sum to 1.5", policy=lambda z, x: 1.5 * even(z, x))
    certain = lambda z, x: jnp.zeros((*jnp.shape(z), A)).at[..., 1].set(1.0)
    refused("gives action 0 no probability, though it is available", policy=certain)
    mask = np.ones((Z, A), bool)
    mask[1, 2] = False
    refused("gives action 2 a probability, though it is not", random_table(2, mask=mask))
    refused(
        "write it in jax.numpy",
        policy=lambda z, x: 0 * np.asarray(x)[..., :1] + np.full(A, 1 / A),
    )
    two = pf.solve(ENGINE, RATES, grid=pf.Smooth(6))
    refused("over 2 actions, but the model has 3", policy=two)


def test_known_rewards_must_be_numbers_of_the_right_shape():
    refused(r"\(Z, S\) = \(3, 2\), but it has shape \(2, 3\)", reward_of_reference=np.zeros((2, 3)))
    bad = np.zeros((3, 2))
    bad[1, 1] = np.nan
    refused("1 entries that are not", reward_of_reference=bad)
