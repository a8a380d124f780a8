"""What stands in the place of a model and is none is refused by name, wherever one is asked for."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pomdpfit as pf
from small_bus import MODEL as BUS
from small_hidden import GRID, PRIOR, TRUTH

jax.config.update("jax_enable_x64", True)

PANEL = pf.Panel.from_arrays([[0, 1, 2]], [[0, 0]])
THETA = {"theta": TRUTH, "panel": PANEL}
GIVEN = {
    **THETA,
    "data": PANEL,
    "path": "never_written",
    "agents": 2,
    "periods": 3,
    "replications": 2,
    "seed": 0,
    "reference": 0,
    "z": 0,
    "x": [0.5, 0.5],
    "priors": np.eye(2),
    "policy": None,
    "reward_of_reference": 0.0,
    "available": [[True, True]] * 6,
    "signal": np.eye(2),
}
# Those that want no model, but a function that makes one, or take what they are given.
OTHER = {"choose_states", "states_cost", "Counterfactual", "Specification", "load", "read_panel"}
BOTH = {"fit", "design"}  # with hidden states or fully observed


def of_model(name):
    """The arguments of a public function or class that it cannot do without."""
    signature = inspect.signature(getattr(pf, name))
    if "model" not in signature.parameters or name in OTHER:
        return None
    needed = [p.name for p in signature.parameters.values() if p.default is p.empty]
    return {each: GIVEN[each] for each in {*needed, "model"} - {"model"}}


def takes_model(name):
    thing = getattr(pf, name)
    try:
        return callable(thing) and of_model(name) is not None
    except ValueError:  # what Python has no signature for
        return False


TAKERS = sorted(name for name in pf.__all__ if takes_model(name))


def test_the_functions_that_take_a_model_are_found():
    known = {"solve", "certify", "simulate", "log_likelihood", "fit", "identify", "to_gymnasium"}
    assert known <= set(TAKERS)
    assert len(TAKERS) >= 25


@pytest.mark.parametrize("name", TAKERS)
def test_whatever_is_no_model_is_refused_by_name(name):
    call, given = getattr(pf, name), of_model(name)
    with pytest.raises(pf.ModelError, match=r"EngineReplacement is a class.*EngineReplacement\(\)"):
        call(model=pf.models.EngineReplacement, **given)
    with pytest.raises(pf.ModelError, match=r"must be a pf.Model.* of type dict"):
        call(model={"RC": 2.0}, **given)
    if name not in BOTH:
        with pytest.raises(pf.ModelError, match="BusEngine is fully observed"):
            call(model=BUS, **given)


@pytest.mark.parametrize(
    "call",
    [
        lambda model: pf.counterfactual(model, {"RC": 3.0}, at=TRUTH),
        lambda model: pf.rollout(model, lambda z, x: 0, agents=1, periods=1, seed=0, theta=TRUTH),
        lambda model: pf.models.Grouped(model, [1, 2], own=["RC"]),
        lambda model: pf.baselines.NFXPLikelihood(model, PANEL),
        lambda model: pf.Panel.from_frame(
            PANEL.to_frame(), agent="agent", time="time", observation="z", action="a", model=model
        ),
    ],
)
def test_other_places_for_a_model_refuse_what_is_none_too(call):
    for none in (pf.models.EngineReplacement, {"RC": 2.0}):
        with pytest.raises(pf.ModelError, match=r"is a class|pf.Model|baselines.MDP"):
            call(none)


@pytest.mark.parametrize(
    ("method", "value", "says"),
    [
        ("horizon", property(lambda self: 6), r"horizon must be a method, but it is 6: write def"),
        ("horizon", 6, r"horizon must be a method, but it is 6: .* without @property"),
        ("horizon", lambda self, theta: 6, r"horizon must take nothing beside self"),
        ("horizon", lambda self: 6.5, r"horizon\(\) must return a whole number.*6.5"),
        ("state_labels", ("good", "bad"), r"state_labels must be a method"),
        ("reward", lambda self: 0.0, r"reward must take theta beside self"),
        ("shock", lambda self, theta, z: pf.Gumbel(), r"shock must take theta.*depend on z"),
        ("shock", lambda self, theta: 2.0, r"shock\(\) must return reward shocks.*2.0"),
    ],
)
def test_a_method_that_is_none_or_takes_other_arguments_is_refused(method, value, says):
    own = type("Own", (pf.models.EngineReplacement,), {method: value})
    model = own(bins=6, increments=3, discount=0.9)
    with pytest.raises(pf.ModelError, match=says):
        pf.solve(model, TRUTH, grid=GRID)
    with pytest.raises(pf.ModelError, match=says):
        pf.log_likelihood(model, TRUTH, PANEL, prior=PRIOR, grid=GRID)


class ByColumn(pf.AbstractShock):
    """Shocks of a user's own with a scale for each z."""

    scale: np.ndarray

    def emax(self, q, available=None):
        return self.scale * jax.nn.logsumexp(q / self.scale, axis=-1)

    def log_choice(self, q, available=None):
        return jax.nn.log_softmax(q / self.scale, axis=-1)


SCALES = np.linspace(1.0, 2.0, 6)


@pytest.mark.parametrize(
    "shock",
    [
        pf.Gumbel(jnp.asarray(SCALES)),
        pf.Gumbel(jnp.asarray(SCALES[:2])),  # as many as there are actions
        pf.Gumbel(jnp.asarray(SCALES[:, None])),
        pf.NestedLogit(((0,), (1,)), np.array([0.5, 0.5]), jnp.asarray(SCALES)),
        ByColumn(SCALES),
        ByColumn(SCALES[:, None]),
    ],
)
def test_shocks_that_depend_on_z_are_refused_by_name(shock):
    own = type("Own", (pf.models.EngineReplacement,), {"shock": lambda self, theta: shock})
    model = own(bins=6, increments=3, discount=0.9)
    with pytest.raises(pf.ModelError, match=r"(?i)shocks that depend on z are not supported"):
        pf.solve(model, TRUTH, grid=GRID)
