"""Mistakes in a model of one's own are told with their mend, and JAX's words stay behind them."""

import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from pomdpfit._own_code import own_code
from pomdpfit.baselines import MDP

MOVE = np.full((2, 2, 2), 0.5)


class Pumps(pf.Model):
    """Two states, two actions, and whatever the tests put in the place of a method."""

    def parameters(self):
        return {"scale": pf.Parameter(1.0), "discount": pf.discount_parameter(0.9)}

    def kernel(self, theta):
        return pf.factored_kernel(MOVE, MOVE)

    def reward(self, theta):
        return theta["scale"] * jnp.ones((2, 2, 2))


def with_methods(**methods):
    return type("Pumps", (Pumps,), methods)()


def by_item(theta):
    table = np.zeros((2, 2, 2))
    table[0, 0, 0] = theta["scale"]
    return table


@pytest.mark.parametrize(
    ("reward", "told"),
    [
        (
            lambda self, theta: np.exp(theta["scale"]) * np.ones((2, 2, 2)),
            "import jax.numpy as jnp",
        ),
        (lambda self, theta: by_item(theta), "import jax.numpy as jnp"),
        (lambda self, theta: float(theta["scale"]) * np.ones((2, 2, 2)), "makes a plain number"),
        (lambda self, theta: np.ones((2, 2, 2)) if theta["scale"] > 0 else None, "Use jnp.where"),
        (lambda self, theta: theta["scle"] * np.ones((2, 2, 2)), "Did you mean 'scale'?"),
        (lambda self, theta: None, r"returns nothing: return an array r\[z, s, a\]"),
    ],
)
def test_mistakes_in_reward_are_told_with_their_mend(reward, told):
    model = with_methods(reward=reward)
    with pytest.raises(pf.ModelError, match=told) as caught:
        pf.solve(model, model.example())
    assert "reward()" in str(caught.value)
    if "returns" not in told:
        assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (lambda self, theta: None, "kernel.. returns nothing: return pf.factored_kernel"),
        (lambda self, theta: MOVE, "of type ndarray: return pf.factored_kernel"),
        (lambda self, theta: pf.factored_kernel(np.exp(theta["scale"]) * MOVE, MOVE), "jax.numpy"),
    ],
)
def test_mistakes_in_kernel_too(kernel, told):
    model = with_methods(kernel=kernel)
    with pytest.raises(pf.ModelError, match=told):
        pf.solve(model, model.example())


def test_errors_that_have_another_cause_stay_what_they_are():
    for error in (ValueError("mine"), KeyError("scale"), KeyError(3)):
        with pytest.raises(type(error)) as caught, own_code("reward", {"scale": 1.0}):
            raise error
        assert caught.value is error


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"scale": 1.0}, r"'scale' is 1.0, not a pf.Parameter. Wrap it: pf.Parameter\(1.0\)"),
        (None, "parameters.. must return a dict"),
        ({"scale": pf.Parameter(1.0)}, "must hold 'discount'"),
    ],
)
def test_parameters_that_are_none_are_refused(parameters, told):
    with pytest.raises(pf.ModelError, match=told):
        with_methods(parameters=lambda self: parameters).space()


def test_a_class_is_no_model():
    panel = pf.Panel.from_arrays(np.zeros((1, 2), int), np.zeros((1, 2), int))
    told = r"Pumps is a class, not a model: write Pumps\(\)"
    for call in (
        lambda: pf.fit(Pumps, panel),
        lambda: pf.solve(Pumps, {}),
        lambda: pf.simulate(Pumps, {}, agents=1, periods=1, seed=0),
    ):
        with pytest.raises(pf.ModelError, match=told):
            call()


def test_a_fully_observed_model_has_the_same_words():
    class Bus(MDP):
        def parameters(self):
            return {"RC": pf.Parameter(1.0), "discount": pf.discount_parameter(0.9)}

        def transition(self, theta):
            return np.full((2, 2, 2), 0.5)

        def reward(self, theta):
            return np.exp(theta["RC"]) * np.ones((2, 2))

    panel = pf.Panel.from_arrays(np.zeros((1, 2), int), np.zeros((1, 2), int))
    with pytest.raises(pf.ModelError, match=r"Use jax.numpy .* in reward"):
        pf.fit(Bus(), panel)


def test_a_belief_that_is_none_is_told_by_its_prior():
    with pytest.raises(pf.ModelError, match=r"pf.KnownPrior\(x0\): .*must sum to 1"):
        pf.KnownPrior([0.5, 0.6]).data(range(2), 2)
