"""Primitives that `check` refuses are not sound, and those that it lets pass are."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_reward
from pomdpfit._sound import sound, sound_primitives


def bus():
    model = pf.models.EngineReplacement(6, 3)
    return model.primitives(model.example())


def finite():
    rng = np.random.default_rng(0)
    model = Table(random_kernel(rng, 3, 2, 2), random_reward(rng, 3, 2, 2), epochs=3)
    return model.primitives(at(0.9))


def with_kernel(change):
    def broken():
        primitives = bus()
        kernel = primitives.kernel
        successors, probability = map(np.array, (kernel.successors, kernel.probability))
        change(successors, probability)
        return eqx.tree_at(
            lambda p: (p.kernel.successors, p.kernel.probability),
            primitives,
            (jnp.asarray(successors), jnp.asarray(probability)),
        )

    return broken


def put(path, value, make=bus):
    return lambda: eqx.tree_at(path, make(), jnp.asarray(value))


def lose_mass(successors, probability):
    probability[2, 0] *= 0.9


def go_below_zero(successors, probability):
    probability[2, 0, :2, 0, 0] += [-2.0, 2.0]


def be_no_number(successors, probability):
    probability[1, 0, 0, 0, 0] = np.nan


def repeat_itself(successors, probability):
    successors[1, 0, 1] = successors[1, 0, 0]


def leave_the_observations(successors, probability):
    successors[0, 0, 0] = 6


def break_the_pattern(successors, probability):
    probability[1, 0, :, 0] = probability[1, 0, ::-1, 0]


BROKEN = {
    "mass": with_kernel(lose_mass),
    "negative": with_kernel(go_below_zero),
    "nan": with_kernel(be_no_number),
    "repeated": with_kernel(repeat_itself),
    "outside": with_kernel(leave_the_observations),
    "pattern": with_kernel(break_the_pattern),
    "reward": lambda: eqx.tree_at(lambda p: p.reward, bus(), bus().reward.at[0, 0, 0].set(jnp.inf)),
    "patient": put(lambda p: p.discount, 1.0),
    "impatient": put(lambda p: p.discount, -0.1),
    "terminal": lambda: eqx.tree_at(lambda p: p.terminal, finite(), jnp.full((3, 2), jnp.nan)),
    "finite and patient": put(lambda p: p.discount, 1.5, finite),
}


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_what_check_refuses_is_not_sound(make):
    with pytest.raises(pf.ModelError):
        make().check()
    assert not sound(make())


@pytest.mark.parametrize("make", [bus, finite, put(lambda p: p.discount, 1.0, finite)])
def test_what_check_lets_pass_is_sound(make):
    make().check()
    assert sound(make())


class Leaky(pf.Model):
    """Loses mass where `leak` is positive."""

    def parameters(self):
        return {"leak": pf.Parameter(0.0), "discount": pf.discount_parameter(0.9)}

    def kernel(self, theta):
        return pf.dense_kernel(jnp.full((1, 1, 1, 1, 1), 1.0 - theta["leak"]))

    def reward(self, theta):
        return jnp.zeros((1, 1, 1))


def test_the_refusal_is_in_words():
    theta = {"leak": jnp.asarray(0.25), "discount": jnp.asarray(0.9)}
    with pytest.raises(pf.ModelError, match=r"sums to 0\.75"):
        sound_primitives(Leaky(), theta)
    assert sound_primitives(Leaky(), {**theta, "leak": jnp.asarray(0.0)}).observations == 1
