"""Models: primitives are checked by (z, s, a) and value; ready models are what they say."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf

jax.config.update("jax_enable_x64", True)

Z, S, A = 3, 2, 2


def primitives(**changes):
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(Z * S), size=(Z, S, A)).reshape(Z, S, A, Z, S)
    parts = {
        "kernel": pf.dense_kernel(table),
        "reward": jnp.asarray(rng.normal(size=(Z, S, A))),
        "discount": jnp.asarray(0.9),
        "shock": pf.Gumbel(),
    }
    return pf.Primitives(**(parts | changes))


def reward_with(value):
    reward = np.zeros((Z, S, A))
    reward[2, 0, 1] = value
    return jnp.asarray(reward)


def mask_without(*places):
    mask = np.ones((Z, A), dtype=bool)
    for place in places:
        mask[place] = False
    return jnp.asarray(mask)


def terminal_with(value):
    return jnp.zeros((Z, S)).at[1, 0].set(value)


REFUSED = {
    "reward without a": ({"reward": jnp.zeros((Z, S))}, r"reward.*\(3, 2\)"),
    "reward (s, z, a)": ({"reward": jnp.zeros((S, Z, A))}, r"reward.*\(2, 3, 2\)"),
    "reward nan": ({"reward": reward_with(np.nan)}, r"\(z=2, s=0, a=1\).* nan"),
    "reward inf": ({"reward": reward_with(-np.inf)}, r"\(z=2, s=0, a=1\).* -inf.*available"),
    "discount one": ({"discount": jnp.asarray(1.0)}, r"discount.*\[0, 1\).* 1\."),
    "discount above": ({"discount": jnp.asarray(1.5)}, r"discount.* 1\.5"),
    "discount negative": ({"discount": jnp.asarray(-0.1)}, r"discount.* -0\.1"),
    "discount nan": ({"discount": jnp.asarray(np.nan)}, r"discount.* nan"),
    "no action": ({"available": mask_without((1, 0), (1, 1))}, r"action.*z=1"),
    "mask shape": ({"available": jnp.ones((A, Z), dtype=bool)}, r"available.*\(2, 3\)"),
    "shock": ({"shock": pf.Gumbel(-2.0)}, r"scale.* -2"),
    "nests": ({"shock": pf.NestedLogit(((0,),), [1.0])}, r"nests"),
    "no epochs": ({"horizon": 0, "terminal": jnp.zeros((Z, S))}, r"horizon.* 0"),
    "terminal shape": ({"horizon": 2, "terminal": jnp.zeros((S, Z))}, r"terminal.*\(2, 3\)"),
    "terminal nan": ({"horizon": 2, "terminal": terminal_with(np.nan)}, r"terminal.*z=1, s=0.*nan"),
}


def test_good_primitives_pass():
    primitives().check()
    primitives(discount=jnp.asarray(0.0)).check()
    primitives(discount=jnp.asarray(1.0), horizon=2, terminal=jnp.zeros((Z, S))).check()
    primitives(available=mask_without((1, 0), (2, 1))).check()


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_primitives_are_refused_by_place_and_value(changes, message):
    with pytest.raises(pf.ModelError, match=message):
        primitives(**changes).check()


def test_a_broken_kernel_is_refused_unless_it_stands_at_an_unavailable_action():
    table = primitives().kernel.to_dense()
    table[1, :, 0] = 0.0
    with pytest.raises(pf.ModelError, match=r"\(z=1, s=0, a=0\) it sums to 0"):
        primitives(kernel=pf.dense_kernel(table)).check()
    primitives(kernel=pf.dense_kernel(table), available=mask_without((1, 0))).check()


# ---- a user's model ----------------------------------------------------------------------------


class Own(pf.Model):
    """A user's model; `with_discount` and `noise` are there to be got wrong."""

    with_discount: bool = eqx.field(static=True, default=True)
    noise: float = eqx.field(static=True, default=0.8)

    def parameters(self):
        own = {"pay": pf.Parameter(1.0)}
        return own | ({"discount": pf.discount_parameter(0.9)} if self.with_discount else {})

    def kernel(self, theta):
        hear = jnp.array([[self.noise, 0.2], [0.2, 0.8]])[:, None]
        return pf.factored_kernel(jnp.eye(2)[:, None], hear)

    def reward(self, theta):
        return jnp.full((2, 2, 1), 1.0) * theta["pay"]


def test_a_model_without_a_discount_is_told_how_to_add_one():
    with pytest.raises(pf.ModelError, match=r"'discount'.*discount_parameter"):
        Own(with_discount=False).example()


def test_a_users_mistake_in_the_kernel_is_found_when_the_model_is_solved():
    with pytest.raises(pf.ModelError, match=r"\(z=0, s=0, a=0\) it sums to 0\.7"):
        pf.solve(Own(noise=0.5), Own().example())


def test_a_model_that_pays_one_for_ever_is_worth_the_geometric_sum():
    model = Own()
    value = pf.solve(model, model.example()).value(0, [0.3, 0.7])
    # The solver's residual 1e-10 is magnified by at most 1 / (1 - 0.9).
    np.testing.assert_allclose(value, 1 / (1 - 0.9), atol=2e-9)


def test_the_discount_is_fixed_unless_freed():
    assert Own().space().free_names == ["pay"]
    assert pf.discount_parameter(0.5, fixed=False).fixed is False


# ---- ready models ------------------------------------------------------------------------------

READY = [
    pf.models.EngineReplacement(bins=7, discount=0.9),
    pf.models.EngineReplacement(bins=7, discount=0.9, reset="increment", top="replace"),
    pf.models.EngineReplacement(bins=7, increments=2, discount=0.9),
    pf.models.EngineReplacement(bins=7, increments=6, discount=0.9),
    pf.models.EquipmentInspection(),
    pf.models.Tiger(),
]


@pytest.mark.parametrize("model", READY)
def test_ready_models_pass_every_check_at_their_example(model):
    theta = model.space().check(model.example())
    parts = model.primitives(theta)
    parts.check()
    assert parts.reward.dtype == jnp.float64
    assert len(model.state_labels()) == parts.states
    assert len(model.action_labels()) == parts.actions


def test_the_third_ready_model_has_three_states_and_three_actions():
    model = pf.models.EquipmentInspection()
    assert model.primitives(model.example()).reward.shape[1:] == (3, 3)


def engine(**options):
    model = pf.models.EngineReplacement(**({"bins": 6, "discount": 0.9} | options))
    return model, model.primitives(model.example())


@pytest.mark.parametrize("reset", ["at_zero", "increment"])
def test_the_engine_kernel_is_the_papers(reset):
    """A table by hand from Table I: increments by the current s, then s moves by itself."""
    increments = [[0.039, 0.333, 0.590, 0.038], [0.181, 0.757, 0.061, 0.001]]
    move = [[0.949, 1 - 0.949], [1 - 0.988, 0.988]]
    expected = np.zeros((6, 2, 2, 6, 2))
    for z, s, j, s1 in itertools.product(range(6), range(2), range(4), range(2)):
        expected[z, s, 0, min(z + j, 5), s1] += increments[s][j] * move[s][s1]
    for j in range(4):
        place = j if reset == "increment" else 0
        expected[:, :, 1, place, 0] += increments[0][j]
    _, parts = engine(reset=reset)
    # Sums of at most four products.
    np.testing.assert_allclose(parts.kernel.to_dense(), expected, atol=8 * np.finfo(float).eps)


def test_the_engine_reward_is_the_papers():
    _, parts = engine()
    for z, s in itertools.product(range(6), range(2)):
        np.testing.assert_allclose(parts.reward[z, s, 0], -0.001 * z * [0.2, 1.2][s], rtol=1e-15)
        assert parts.reward[z, s, 1] == -9.243


def test_an_engine_that_could_pass_the_top_must_be_replaced_there():
    assert engine(top="collect")[0].available() is None
    may_keep = engine(top="replace")[0].available()[:, 0]
    # The largest increment is 3 and the last bin 5: from bin 3 on it could be passed.
    np.testing.assert_array_equal(may_keep, [True, True, True, False, False, False])
    assert engine(top="replace")[0].available()[:, 1].all()


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_the_engine_takes_any_largest_increment(count):
    model, parts = engine(bins=9, increments=count)
    rows = np.asarray(model.example()["increment"])
    assert rows.shape == (2, count)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-15)
    assert parts.kernel.successors.shape[2] == count
    assert f"increment[bad, {count - 1}]" in model.space().names


@pytest.mark.parametrize(
    "options",
    [{"reset": "zero"}, {"top": "cap"}, {"increments": 1}, {"bins": 3}, {"bins": 0}],
)
def test_options_the_engine_does_not_have_are_refused(options):
    with pytest.raises(pf.ModelError, match=str(next(iter(options.values())))):
        engine(**options)


def test_the_tiger_is_heard_through_the_door_and_moves_when_one_is_opened():
    model = pf.models.Tiger()
    table = model.kernel(model.example()).to_dense()
    for z, s, z1, s1 in itertools.product(range(2), repeat=4):
        heard = 0.85 if z1 == s1 else 0.15
        np.testing.assert_allclose(table[z, s, 0, z1, s1], heard * (s == s1), atol=1e-16)
        np.testing.assert_allclose(table[z, s, 1:, z1, s1], 0.25, atol=1e-16)
    reward = model.reward(model.example())
    np.testing.assert_array_equal(reward[1], [[-1, -100, 10], [-1, 10, -100]])


def test_kernels_that_do_not_depend_on_z_are_stored_once():
    for model in (pf.models.Tiger(), pf.models.EquipmentInspection()):
        assert model.kernel(model.example()).probability.shape[0] == 1


def test_an_overhaul_makes_new_whatever_was():
    model = pf.models.EquipmentInspection()
    table = model.kernel(model.example()).to_dense()
    np.testing.assert_array_equal(table[:, :, 2, 0, 0], np.ones((3, 3)))
