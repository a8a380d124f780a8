"""64-bit floats: not touched at import, switched on at first use, and never done without.

Each probe runs in a process of its own that has imported the package and used nothing of it.
"""

import json
import os
import subprocess
import sys

import pytest

DRIVER = """
import json, os, sys
import jax
variables = dict(os.environ)  # JAX sets some of its own
import jax._src.xla_bridge as bridge
import numpy as np
import pomdpfit as pf

def x64():
    return bool(jax.config.read("jax_enable_x64"))

model = pf.models.Tiger()
theta = {name: p.value for name, p in model.parameters().items()}
panel = pf.Panel.from_arrays([[0, 1]], [[0]])
prior = pf.KnownPrior([0.5, 0.5])
half = np.full((2, 1, 2), 0.5)

def switched_off_later(use):
    model.example()
    jax.config.update("jax_enable_x64", False)
    return use()

def switched_off_around(use):
    model.example()
    with jax.enable_x64(False):
        return use()

def switched_off_after(make, use):
    made = make()
    jax.config.update("jax_enable_x64", False)
    return use(made)

def switched_on_before(use):
    jax.config.update("jax_enable_x64", True)
    return use()

for name, code in json.loads(sys.argv[1]).items():
    sys.stdout.flush()
    pid = os.fork()  # nothing of JAX has started, so a child is a fresh process
    if pid == 0:
        try:
            answer = eval(code)
        except BaseException as error:
            answer = [type(error).__name__, str(error)]
        print(json.dumps([name, answer], default=repr), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""

AT_IMPORT = {
    "x64": "x64()",
    "environment": "dict(os.environ) == variables",
    "backend": "bridge.backends_are_initialized()",
    "log": "len(__import__('logging').getLogger().handlers)",
}

PUBLIC = {
    "solve": "pf.solve(model, theta)",
    "simulate": "pf.simulate(model, theta, agents=1, periods=1, seed=0, prior=prior)",
    "log_likelihood": "pf.log_likelihood(model, theta, panel, prior=prior)",
    "score": "pf.score(model, theta, panel, prior=prior)",
    "score_obs": "pf.score_obs(model, theta, panel, prior=prior)",
    "filter_beliefs": "pf.filter_beliefs(model, theta, panel, prior=prior)",
    "smooth_beliefs": "pf.smooth_beliefs(model, theta, panel, prior=prior)",
    "impossible_transitions": "pf.impossible_transitions(model, theta, panel, prior=prior)",
    "example": "model.example()",
}

# Each gives the type of a number that the package has just made on its first use.
FIRST_USE = {
    "example": "str(model.example()['listen'].dtype)",
    "filter_beliefs": "str(pf.filter_beliefs(model, theta, panel, prior=prior).x.dtype)",
    "factored_kernel": "str(pf.factored_kernel(half, half).probability.dtype)",
    "dense_kernel": "str(pf.dense_kernel(np.full((2, 1, 1, 2, 1), 0.5)).probability.dtype)",
    "increment_kernel": "str(pf.increment_kernel(3, np.eye(2), half[:, 0]).probability.dtype)",
    "reset_kernel": "str(pf.reset_kernel(3, half[:1, 0]).probability.dtype)",
    "space.example": "str(model.space().example()['listen'].dtype)",
    "space.check": "str(model.space().check(theta)['listen'].dtype)",
    "space.to_vector": "str(model.space().to_vector(theta).dtype)",
    "space.from_vector": "str(model.space().from_vector(np.zeros(4), theta)['gold'].dtype)",
    "Gumbel.emax": "str(pf.Gumbel().emax(np.array([0.1, 0.2])).dtype)",
    "NestedLogit": "str(pf.NestedLogit(((0,), (1,)), [0.1, 0.2]).emax(np.zeros(2)).dtype)",
}  # fmt: skip

OTHER = {
    "fixed": "float(model.space().fix({'listen': 0.1 + 0.2}).parameters['listen'].value)",
    "switched on": "[model.example() and x64()]",
    "left on": "[switched_on_before(model.example) and x64()]",
    "config": f"switched_off_later(lambda: {PUBLIC['filter_beliefs']})",
    "built": "switched_off_after(lambda: pf.Likelihood(model, panel, prior=prior), "
    "lambda likelihood: likelihood(theta))",
    "context": f"switched_off_around(lambda: {PUBLIC['filter_beliefs']})",
}


UNTOUCHED = {"import": AT_IMPORT, "first": FIRST_USE, "other": OTHER}
SPELLED = {"other": {"switched on": OTHER["switched on"]}}


def ask(groups, setting=None):
    """What each probe says under JAX_ENABLE_X64=setting (not set if None)."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    environment["PYTHONWARNINGS"] = "ignore"
    if setting is not None:
        environment["JAX_ENABLE_X64"] = setting
    probes = {f"{g}:{name}": code for g, group in groups.items() for name, code in group.items()}
    run = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(probes)],
        capture_output=True, text=True, env=environment, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return dict(json.loads(line) for line in run.stdout.splitlines())


@pytest.fixture(scope="module")
def fresh():
    return ask(UNTOUCHED)


@pytest.fixture(scope="module")
def turned_off():
    return ask({"public": PUBLIC}, "f")


def test_importing_switches_nothing_and_starts_nothing(fresh):
    assert fresh["import:x64"] is False
    assert fresh["import:environment"] is True
    assert fresh["import:backend"] is False
    assert fresh["import:log"] == 0


def test_the_first_use_switches_64_bit_floats_on(fresh):
    assert fresh["other:switched on"] == [True]


def test_a_user_who_has_switched_them_on_is_left_alone(fresh):
    assert fresh["other:left on"] == [True]


@pytest.mark.parametrize("name", FIRST_USE)
def test_whatever_is_used_first_computes_in_64_bits(fresh, name):
    assert fresh[f"first:{name}"] == "float64"


def test_a_value_fixed_on_first_use_is_kept_to_the_last_bit(fresh):
    assert fresh["other:fixed"] == 0.1 + 0.2


def test_switching_them_off_after_first_use_is_an_error_that_names_the_setting(fresh):
    kind, message = fresh["other:config"]
    assert kind == "PrecisionError"
    assert "jax.config" in message
    assert "64-bit" in message


def test_a_likelihood_that_is_built_asks_for_them_at_every_call(fresh):
    kind, message = fresh["other:built"]
    assert kind == "PrecisionError"
    assert "64-bit" in message


def test_switching_them_off_for_a_while_is_an_error_too(fresh):
    assert fresh["other:context"][0] == "PrecisionError"


@pytest.mark.parametrize("name", PUBLIC)
def test_an_environment_that_turns_them_off_is_an_error_that_names_the_variable(turned_off, name):
    kind, message = turned_off[f"public:{name}"]
    assert kind == "PrecisionError"
    assert "JAX_ENABLE_X64" in message
    assert "64-bit" in message


@pytest.mark.full
@pytest.mark.parametrize("setting", ["0", "n"])
def test_every_way_in_which_jax_spells_off_is_understood(setting):
    assert ask(SPELLED, setting)["other:switched on"][0] == "PrecisionError"
