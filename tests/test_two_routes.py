"""The same said in two ways is the same: in Python and on the command line, in lists and arrays."""

import importlib
import inspect
import itertools
import json
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit.cli import app
from pomdpfit.cli._counterfactual import counterfactual
from pomdpfit.cli._design import design
from pomdpfit.cli._fit import fit
from report_kinds import Kind
from small_bus import TRUTH as BUS_TRUTH
from small_bus import bus_fit, draw_panel
from small_hidden import DYNAMICS, ENGINE, TRUTH, hidden_fit, hidden_panel

NAMES = {"agent": "agent", "time": "time", "observation": "z", "action": "a"}
COLUMNS = [word for option, column in NAMES.items() for word in (f"--{option}", column)]
STUDY = """
model = "EngineReplacement"
options = {bins = 6, increments = 3, discount = 0.9}
[theta]
RC = 2
cost = [200, 900]
stay = [0.85, 0.95]
increment = [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]
"""


def invoke(*words):
    outcome = CliRunner().invoke(app, list(map(str, words)))
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POMDPFIT_CACHE", "")
    return tmp_path


def test_the_command_line_finds_what_python_finds_to_the_last_digit(here, hidden):
    """Three starts, as numbers from a file and as arrays; ids as text and as numbers."""
    (here / "engine.toml").write_text(STUDY)
    hidden.to_frame().to_csv("panel.csv", index=False)
    fixed = [word for name in DYNAMICS for word in ("--fix", name)]
    words = [*COLUMNS, *fixed, "--prior", "known:0.5,0.5", "--grid", "smooth:5"]
    invoke("fit", "engine.toml", "panel.csv", *words, "--starts", 3, "--seed", 4, "--out", "c.zip")
    panel = pf.Panel.from_frame(pd.read_csv("panel.csv").astype({"z": "int32"}), **NAMES)
    python = hidden_fit(panel, prior=pf.KnownPrior(np.array([0.5, 0.5])), starts=3, seed=4)
    python.save("p.zip")
    command = pf.load("c.zip")
    assert command.panel.agents != panel.agents  # text and numbers
    for name in ("starts", "modes"):
        found, known = getattr(command, name), getattr(python, name)
        pd.testing.assert_frame_equal(found, known, check_exact=True)
    pd.testing.assert_frame_equal(command.to_frame(), python.to_frame(), check_exact=True)
    assert command.traces == python.traces
    told = invoke("compare", "c.zip", "p.zip")
    assert "no test: two fits of one model" in told
    assert "differ" not in told
    assert "Vuong" not in told


class Asked(Exception):
    """What was to be known is known."""


def test_starts_are_answered_alike_with_and_without_a_checkpoint(here, hidden, monkeypatch):
    """One by one or in batches, as the device has it; a command always has a checkpoint."""
    asked = []

    def chosen(likelihood, climbs, n_jobs, batch):
        asked.append((climbs, n_jobs, batch))
        raise Asked

    monkeypatch.setattr("pomdpfit.estimators._fit.chosen_width", chosen)
    for options in ({}, {"checkpoint": "kept"}):
        with pytest.raises(Asked):
            hidden_fit(hidden, starts=3, **options)
    (here / "engine.toml").write_text(STUDY)
    hidden.to_frame().to_csv("panel.csv", index=False)
    words = ["engine.toml", "panel.csv", *COLUMNS, "--prior", "known:0.5,0.5", "--starts", "3"]
    CliRunner().invoke(app, ["fit", *words, "--grid", "smooth:5"])
    assert asked == [(3, None, None)] * 3


def test_a_command_has_the_defaults_of_the_function_behind_it():
    """None, and a flag that is not set, leave it to the function."""
    compared, left = 0, (None, False, inspect.Parameter.empty)
    for command, functions in (
        (fit, (pf.fit, pf.read_panel)),
        (design, (pf.design,)),
        (counterfactual, (pf.counterfactual, pf.demand_curve, pf.value_of_information)),
    ):
        own = inspect.signature(command).parameters
        for function, name in itertools.product(functions, own):
            known = inspect.signature(function).parameters.get({"jobs": "n_jobs"}.get(name, name))
            if known is None or any(own[name].default is value for value in left):
                continue
            compared += 1
            assert own[name].default == known.default, (function, name)
    assert compared > 5


PRIORS = {
    "list": [0.7, 0.3],
    "tuple": (0.7, 0.3),
    "numpy": np.array([0.7, 0.3]),
    "jax": lambda: jnp.array([0.7, 0.3]),  # once float64 is on
    "pandas": pd.Series([0.7, 0.3], ["good", "bad"]),
    "a row": [[0.7, 0.3]],
    "rows": np.tile([0.7, 0.3], (40, 1)),
    "by agent": {k: [0.7, 0.3] for k in reversed(range(40))},
    "a frame": pd.DataFrame(np.tile([0.7, 0.3], (40, 1)), list(reversed(range(40)))),
}


@pytest.fixture(scope="module")
def hidden():
    return hidden_panel()


@pytest.mark.parametrize("name", PRIORS)
def test_priors_of_the_same_numbers_are_one_prior(name, hidden):
    belief = PRIORS[name]
    same = pf.KnownPrior(belief() if callable(belief) else belief)
    for k, prior in enumerate((pf.KnownPrior([0.7, 0.3]), same, pf.KnownPrior([0.6, 0.4]))):
        Kind(ENGINE, hidden, TRUTH, prior).written_down().save(f"{k}.zip")
    document = json.loads(invoke("compare", "0.zip", "1.zip", "2.zip", "--json"))
    told = {"".join(sorted(test["between"])): test["text"] for test in document["tests"]}
    assert "two fits of one model" in told["01"]
    assert "two fits of one model" not in told["02"] + told["12"]


def test_rows_of_a_frame_are_those_of_the_agents_it_names():
    frame = pd.DataFrame([[0.9, 0.1], [0.2, 0.8]], index=["b", "a"], columns=["good", "bad"])
    found = np.asarray(pf.KnownPrior(frame).data(("a", "b"), 2))
    np.testing.assert_array_equal(found, [[0.2, 0.8], [0.9, 0.1]])
    counted = pf.KnownPrior(frame.reset_index(drop=True)).data(("a", "b"), 2)
    np.testing.assert_array_equal(np.asarray(counted), frame)
    with pytest.raises(pf.ModelError, match="two rows for agent 'b'"):
        pf.KnownPrior(frame.rename(index={"a": "b"}))
    # A model file names agents in text, a Parquet file may have them as numbers.
    named = pf.KnownPrior({"7": [0.9, 0.1], "8": [0.2, 0.8]}).data((8, (7, 1)), 2)
    np.testing.assert_array_equal(np.asarray(named), [[0.2, 0.8], [0.9, 0.1]])


def test_panels_of_the_same_rows_are_one_panel(hidden):
    frame = hidden.to_frame()
    frame["a"] = frame["a"].astype("Int8")
    frame.to_csv("panel.csv", index=False)
    panels = {
        "whole": pf.Panel.from_frame(frame, **NAMES),
        "narrow": pf.Panel.from_frame(frame.astype({"agent": "int32", "z": "int16"}), **NAMES),
        "floats": pf.Panel.from_frame(frame.astype({"agent": float, "z": float}), **NAMES),
        "text": pf.read_panel("panel.csv", **NAMES),
        "categories": pf.Panel.from_frame(
            frame.astype({"agent": str}).astype({"agent": "category", "z": "category"}), **NAMES
        ),
        "entry": pf.Panel.from_frame(frame, **NAMES, entry=dict.fromkeys(range(40), np.int32(0))),
    }
    found = {name: Kind(ENGINE, panel, TRUTH).written_down() for name, panel in panels.items()}
    assert len(pf.compare(**found)) == len(panels)
    other = frame.assign(agent=frame["agent"] + 1)
    found["other"] = Kind(ENGINE, pf.Panel.from_frame(other, **NAMES), TRUTH).written_down()
    with pytest.raises(pf.EstimationError, match="agents"):
        pf.compare(**found)


OWN = """
from pomdpfit.baselines import BusEngine

class Own(BusEngine):
    pass
"""


@pytest.fixture
def twice(here, monkeypatch):
    """A model of one's own, imported under two names, as a script and a command may do."""
    monkeypatch.syspath_prepend(here)
    names = ("own_first", "own_second")
    for name in names:
        (here / f"{name}.py").write_text(OWN)
    yield [importlib.import_module(name).Own(bins=6, increments=3, discount=0.9) for name in names]
    for name in names:
        sys.modules.pop(name)


def test_a_checkpoint_is_that_of_the_same_call_in_other_words(twice):
    """The second call is not another fit: it goes on from the first one's searches."""
    panel = draw_panel(0, agents=40)
    text = pf.Panel.from_arrays(panel.z, panel.a, agents=list(map(str, panel.agents)))
    options = {"skip_hessian": True, "checkpoint": "kept", "starts": 1}
    fixed = {"increment": np.array([0.3, 0.5, 0.2])}
    given = {"start": {**BUS_TRUTH, "RC": 2}, "fixed": fixed, "constraints": "300 * RC = cost"}
    first = bus_fit(panel, model=twice[0], **given, **options)
    same = {
        "start": {"cost": np.float32(600), "RC": jnp.array(2.0), "increment": [0.3, 0.5, 0.2]},
        "fixed": {"increment": (0.3, 0.5, 0.2)},
        "constraints": ["300 * RC = cost"],
    }
    heard = []
    tell = lambda what, done, total: heard.append(what)
    again = bus_fit(text, model=twice[1], **same, **{**options, "starts": None}, progress=tell)
    assert any(what.startswith("resumed: ") for what in heard)
    assert again.params.equals(first.params)
