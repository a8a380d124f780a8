"""simulate, fit, show and compare: what they print and write, against the library's own numbers."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pomdpfit as pf
import small_hidden as hidden
from pomdpfit.cli import app
from pomdpfit.estimators._objective import Objective
from report_kinds import Kind
from small_bus import MODEL, TRUTH, draw_panel

BUS = 'model = "BusEngine"\n[options]\nbins = 6\nincrements = 3\ndiscount = 0.9\n'
START = "[theta]\nRC = 2.0\ncost = 600.0\nincrement = [0.3, 0.5, 0.2]\n"
ENGINE = """
model = "EngineReplacement"
options = {bins = 6, increments = 3, discount = 0.9}
[theta]
RC = 3.0
cost = [50.0, 400.0]
stay = [0.85, 0.9]
increment = [[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]]
"""
COLUMNS = ["--agent", "bus", "--time", "month", "--observation", "miles", "--action", "did"]
NAMES = {"agent": "bus", "time": "month", "z": "miles", "a": "did"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Commands run in a folder of their own and keep no compiled programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POMDPFIT_CACHE", "")
    (tmp_path / "bus.toml").write_text(BUS + START)
    draw_panel(0, agents=40).to_frame().rename(columns=NAMES).to_csv("panel.csv", index=False)
    return tmp_path


def invoke(*words, code=0):
    outcome = CliRunner().invoke(app, list(map(str, words)))
    assert outcome.exit_code == code, outcome.output
    return outcome


def fit(*words, code=0):
    return invoke("fit", "bus.toml", "panel.csv", *COLUMNS, *words, code=code)


def as_panel(path="panel.csv"):
    """The same file through the library alone; agents are what stands in the file, as text."""
    frame = pd.read_csv(path, dtype={"bus": str})
    return pf.Panel.from_frame(frame, agent="bus", time="month", observation="miles", action="did")


def bus_fit(**options):
    return pf.fit(MODEL, as_panel(), **({"start": TRUTH} | options))


def test_fit_prints_and_saves_what_the_library_finds():
    document = json.loads(fit("--json", "--out", "bus.zip").stdout)
    want, saved = bus_fit(), pf.load("bus.zip")
    assert document["params"] == want.params.to_dict() == saved.params.to_dict()
    assert document["bse"] == want.bse.to_dict()
    assert document["llf"] == want.llf
    assert document["converged"] is True
    assert document["saved"] == "bus.zip"
    assert [row["parameter"] for row in document["table"]] == list(want.params.index)
    printed = fit("--out", "again.zip")
    assert str(pf.load("again.zip").summary()) in printed.stdout
    assert printed.stderr == ""  # progress is for what lasts longer


def test_a_counterfactual_is_the_librarys():
    Kind(hidden.ENGINE, hidden.hidden_panel(), hidden.TRUTH).written_down().save("fit.zip")
    words = ["--set", "RC=3", "--draws", 0, "--json"]
    document = json.loads(invoke("counterfactual", "fit.zip", *words).stdout)
    want = pf.counterfactual(pf.load("fit.zip"), {"RC": 3.0}, draws=0).to_frame()["estimate"]
    found = {(row["outcome"], row["of"]): row["estimate"] for row in document["table"]}
    assert found == want.to_dict()


def test_show_prints_a_saved_fit():
    fit()
    saved = pf.load("fit.zip")
    assert invoke("show", "fit.zip").stdout == f"{saved.summary()}\n"
    assert json.loads(invoke("show", "fit.zip", "--json").stdout)["aic"] == saved.aic


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--estimator", "two-stage"], {"estimator": pf.TwoStage()}),
        (["--fix", "RC=2.5"], {"fixed": {"RC": 2.5}}),
        (["--fix", "RC"], {"fixed": {"RC": 2.0}}),
        (["--fix", "increment=[0.25,0.5,0.25]"], {"fixed": {"increment": [0.25, 0.5, 0.25]}}),
        (["--fix", "increment[1]=0.5"], {"fixed": {"increment[1]": 0.5}}),
        (["--constraint", "300 * RC = cost"], {"constraints": ["300 * RC = cost"]}),
        (["--starts", "3", "--seed", "5"], {"starts": 3, "seed": 5}),
    ],
)
def test_options_are_those_of_the_library(words, options):
    document = json.loads(fit("--json", *words).stdout)
    want = bus_fit(**options)
    assert document["params"] == want.params.to_dict()
    assert document["estimator"] == type(want.setting.estimator).__name__


@pytest.mark.full
def test_a_simulated_panel_is_the_librarys_and_can_be_fitted():
    Path("engine.toml").write_text(ENGINE)
    words = ["--agents", 30, "--periods", 20, "--seed", 3, "--z0", 1, "--grid", "smooth:7"]
    told = invoke("simulate", "engine.toml", *words, "--prior", "known:0.5,0.5", "--json")
    model = pf.models.EngineReplacement(bins=6, increments=3, discount=0.9)
    theta = {
        "RC": 3.0,
        "cost": np.array([50.0, 400.0]),
        "stay": np.array([0.85, 0.9]),
        "increment": np.array([[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]]),
        "discount": 0.9,
    }
    means = {"prior": pf.KnownPrior([0.5, 0.5]), "grid": pf.Smooth(7)}
    want = pf.simulate(model, theta, agents=30, periods=20, seed=3, z0=1, **means)
    written = pd.read_csv("panel.csv", dtype={"a": "Int64"})
    pd.testing.assert_frame_equal(written, want.to_frame())
    assert json.loads(told.stdout)["rows"] == len(written)
    names = ["--agent", "agent", "--time", "time", "--observation", "z", "--action", "a"]
    fixed = ["--fix", "stay", "--fix", "increment"]
    words = [*names, *fixed, "--prior", "known:0.5,0.5", "--grid", "smooth:7", "--starts", 1]
    document = json.loads(invoke("fit", "engine.toml", "panel.csv", *words, "--json").stdout)
    held = {name: theta[name] for name in ("stay", "increment")}
    found = pf.fit(model, want, **means, start=theta, fixed=held, starts=1)
    assert document["params"] == found.params.to_dict()


def test_parameters_come_from_a_file_too():
    Path("tiger.toml").write_text(
        'model = "Tiger"\nprior = {kind = "known", belief = [0.5, 0.5]}\n'
    )
    Path("theta.json").write_text('{"theta": {"gold": 2.0, "mauled": -3.0}}')
    Path("theta.toml").write_text("gold = 2.0\nmauled = -3.0\n")
    words = ["simulate", "tiger.toml", "--agents", 3, "--periods", 5, "--grid", "linear:5"]
    for name in ("theta.json", "theta.toml"):
        invoke(*words, "--theta", name, "--out", f"{name}.csv")
    model = pf.models.Tiger()
    theta = {**model.example(), "gold": 2.0, "mauled": -3.0}
    means = {"prior": pf.KnownPrior([0.5, 0.5]), "grid": pf.Linear(5)}
    want = pf.simulate(model, theta, agents=3, periods=5, seed=0, **means).to_frame()
    for name in ("theta.json", "theta.toml"):
        pd.testing.assert_frame_equal(pd.read_csv(f"{name}.csv", dtype={"a": "Int64"}), want)


@pytest.mark.parametrize(
    ("theta", "told"),
    [
        ('{"gold": 2.0, "gold": 3.0}', "theta.json gives gold twice"),
        ('{"gold": 3.0}', "theta.json gives gold = 3, but it is fixed at 7"),
    ],
)
def test_of_two_values_of_a_parameter_neither_counts(theta, told):
    Path("tiger.toml").write_text(
        'model = "Tiger"\nprior = {kind = "known", belief = [0.5, 0.5]}\nfixed = {gold = 7}\n'
    )
    Path("theta.json").write_text(theta)
    words = ["--agents", 2, "--periods", 2, "--grid", "linear:5", "--theta", "theta.json"]
    assert told in invoke("simulate", "tiger.toml", *words, code=1).stderr


def test_labels_and_dates_are_read():
    frame = pd.read_csv("panel.csv")
    frame["did"] = frame["did"].map({0: "keep", 1: "replace"})
    frame["month"] = [f"2020-{month + 1:02d}-15" for month in frame["month"]]
    frame.to_csv("labels.csv", index=False)
    words = ["fit", "bus.toml", "labels.csv", *COLUMNS, "--json"]
    document = json.loads(invoke(*words, "--actions", "keep,replace", "--freq", "M").stdout)
    assert document["params"] == bus_fit().params.to_dict()
    document = json.loads(invoke(*words, "--freq", "M").stdout)  # they are the model's
    assert document["params"] == bus_fit().params.to_dict()
    frame.assign(did=frame["did"].replace("keep", "stay")).to_csv("labels.csv", index=False)
    outcome = invoke("fit", "bus.toml", "labels.csv", *COLUMNS, "--freq", "M", code=1)
    assert "is not one of the model's actions: keep, replace" in outcome.stderr
    outcome = invoke("check", "labels.csv", *COLUMNS, "--freq", "M", code=1)  # by no model
    assert "is text, not a whole number; for labels say actions=" in outcome.stderr


def test_columns_that_are_not_named_are_asked_for():
    outcome = invoke("fit", "bus.toml", "panel.csv", "--agent", "bus", code=2)
    assert "panel.csv has the columns bus, month, miles, did" in outcome.stderr
    assert "--time COL --observation COL --action COL" in outcome.stderr
    assert "--agent" not in outcome.stderr


def test_nested_fits_get_a_likelihood_ratio_and_others_vuongs_test():
    fit("--out", "full.zip")
    fit("--out", "small.zip", "--fix", "RC=2.5")
    Path("other.toml").write_text(BUS + 'reset = "increment"\n' + START)
    invoke("fit", "other.toml", "panel.csv", *COLUMNS, "--out", "other.zip")
    loaded = {name: pf.load(f"{name}.zip") for name in ("full", "small", "other")}
    document = json.loads(invoke("compare", "full.zip", "small.zip", "other.zip", "--json").stdout)
    want = pf.compare(**loaded)
    assert [row["fit"] for row in document["table"]] == list(want.index)
    assert [row["aic"] for row in document["table"]] == want["aic"].tolist()
    tests = {frozenset(test["between"]): test for test in document["tests"]}
    ratio = pf.likelihood_ratio_test(loaded["small"], loaded["full"])
    found = tests[frozenset({"full", "small"})]
    assert found["between"] == ["small", "full"]
    assert (found["result"]["statistic"], found["result"]["df"]) == (ratio.statistic, 1)
    first, second = tests[frozenset({"full", "other"})]["between"]
    vuong = pf.vuong_test(loaded[first], loaded[second])
    assert tests[frozenset({"full", "other"})]["result"]["pvalue"] == vuong.pvalue
    printed = invoke("compare", "full.zip", "small.zip").stdout
    assert str(ratio) in printed


def test_fits_of_one_model_at_other_values_are_not_nested():
    fit("--out", "one.zip", "--fix", "RC=2.5")
    fit("--out", "two.zip", "--fix", "RC=2.0", "--fix", "cost=500")
    (test,) = json.loads(invoke("compare", "one.zip", "two.zip", "--json").stdout)["tests"]
    assert test["result"] is None
    assert "neither restricts the other" in test["text"]


def test_fits_to_other_data_are_not_compared():
    fit("--out", "one.zip")
    draw_panel(1, agents=40).to_frame().rename(columns=NAMES).to_csv("panel.csv", index=False)
    fit("--out", "two.zip")
    assert "different data" in invoke("compare", "one.zip", "two.zip", code=1).stderr
    assert "at least two" in invoke("compare", "one.zip", code=2).stderr
    assert "named twice" in invoke("compare", "one.zip", "one.zip", code=2).stderr


def test_a_fit_that_does_not_converge_is_saved_and_has_a_code_of_its_own():
    frame = pd.read_csv("panel.csv")
    frame[frame["month"] < 2].assign(did=0, miles=0).to_csv("panel.csv", index=False)
    outcome = fit("--json", "--bootstrap", 2, code=3)
    document = json.loads(outcome.stdout)
    assert document["converged"] is False
    assert document["doubts"]
    assert "no bootstrap" in outcome.stderr
    assert not pf.load("fit.zip").converged


def test_a_bootstrap_is_the_librarys_and_is_saved_beside_the_fit():
    document = json.loads(fit("--bootstrap", 6, "--seed", 2, "--json").stdout)
    want = pf.bootstrap(bus_fit(seed=2), 6, seed=2)
    found = {row["parameter"]: row["std err"] for row in document["bootstrap"]["table"]}
    assert found == want.bse.to_dict()
    assert Path("fit.bootstrap.json").read_text() == want.to_json()


def test_a_checkpoint_is_gone_on_from_and_refused_to_others():
    words = ["--bootstrap", 4, "--chunk", 2, "--checkpoint", "kept"]
    fit(*words)
    first = Path("fit.bootstrap.json").read_text()
    fit(*words, "--out", "again.zip")
    assert Path("again.bootstrap.json").read_text() == first
    again, before = pf.load("again.zip"), pf.load("fit.zip")
    assert again.theta.keys() == before.theta.keys()
    assert all(np.array_equal(again.theta[name], before.theta[name]) for name in before.theta)
    assert again.cov_params().equals(before.cov_params())
    outcome = fit(*words, "--seed", 1, code=1)
    assert "another fit: seed changed" in outcome.stderr
    outcome = fit(*words, "--fix", "RC=1", code=1)
    assert "fixed changed" in outcome.stderr
    assert "--no-resume" in outcome.stderr
    outcome = fit(*words, "--fix", "RC=1", "--no-resume")
    assert "resumed" not in outcome.stderr
    assert "resumed: 3 finished climbs" in fit(*words, "--fix", "RC=1", "--resume").stderr


def test_a_search_that_is_interrupted_is_gone_on_with(here, monkeypatch):
    words = ["--starts", "3", "--json"]
    whole = json.loads(fit(*words).stdout)
    asked, climbed = 0, Objective.gradient

    def stopping(*arguments):
        nonlocal asked
        asked += 1
        if asked == 12:
            raise KeyboardInterrupt
        return climbed(*arguments)

    monkeypatch.setattr(Objective, "gradient", stopping)
    told = ["--out", "halved.zip"]
    outcome = fit(*words, *told, code=130)
    assert "run the same command again to go on" in outcome.stderr
    assert json.loads(outcome.stdout)["error"]["code"] == 130
    assert not (here / "halved.zip").exists()
    assert "starts changed" in fit(*told, "--starts", "2", code=1).stderr
    resumed = fit(*words, *told)
    assert "resumed: " in resumed.stderr
    assert "1 under way" in resumed.stderr
    found = json.loads(resumed.stdout)
    assert (found["params"], found["bse"]) == (whole["params"], whole["bse"])
    assert sorted(path.name for path in here.glob("*.checkpoint")) == []
    assert "nothing to resume" in fit(*words, *told, "--resume", code=1).stderr


OWN = """
import pomdpfit as pf
from pomdpfit.baselines import BusEngine

class Own(BusEngine):
    pass

instance = Own(bins=6, increments=3, discount=0.9)
number = 3

def made():
    return instance

def needs(argument):
    return instance

def broken():
    raise ZeroDivisionError("in my own code")
"""


@pytest.fixture
def own(here, monkeypatch):
    (here / "own_models.py").write_text(OWN)
    (here / "own_broken.py").write_text("1 / 0")
    (here / "own_lacks.py").write_text("import nowhere_to_be_found")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("own_models", "own_broken", "own_lacks"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["instance", "made"])
def test_a_model_of_ones_own_is_imported(own, name):
    words = ["--fix", "increment=[0.3,0.5,0.2]", "--json"]
    told = invoke("fit", f"own_models:{name}", "panel.csv", *COLUMNS, *words)
    want = bus_fit(start=None, fixed={"increment": [0.3, 0.5, 0.2]})
    assert json.loads(told.stdout)["params"] == want.params.to_dict()
    assert json.loads(invoke("show", "fit.zip", "--json").stdout)["model"] is None
    named = invoke("show", "fit.zip", "--model", f"own_models:{name}", "--json").stdout
    assert json.loads(named)["model"] == "Own"


def own_fit(out, *words, module="own_models"):
    invoke("fit", f"{module}:instance", "panel.csv", *COLUMNS, *words, "--out", out)


def test_what_needs_a_model_of_ones_own_asks_for_it(own, here):
    own_fit("fit.zip", "--fix", "increment=[0.3,0.5,0.2]")
    told = invoke("counterfactual", "fit.zip", "--set", "RC=4", code=2).stderr
    assert "--model module:object" in told
    assert "pf.load" not in told
    told = invoke("report", "fit.zip", "--out", "page.html").stderr
    assert "--model module:object" in told
    named = ["--model", "own_models:instance"]
    assert "warning" not in invoke("report", "fit.zip", *named, "--out", "page.html").stderr


def test_nested_fits_of_a_model_of_ones_own_get_a_likelihood_ratio(own, here):
    entry = ["--fix", "increment[0]=0.3"]
    own_fit("full.zip", *entry)
    own_fit("small.zip", "--fix", "increment=[0.3,0.5,0.2]")  # the entry is held by the leaf
    (test,) = json.loads(invoke("compare", "full.zip", "small.zip", "--json").stdout)["tests"]
    ratio = pf.likelihood_ratio_test(pf.load("small.zip"), pf.load("full.zip"))
    assert test["between"] == ["small", "full"]
    assert test["result"]["statistic"] == ratio.statistic
    assert test["result"]["df"] == 1
    (here / "own_others.py").write_text(OWN.replace("pass", '"""Other code."""'))
    own_fit("other.zip", "--fix", "increment=[0.3,0.5,0.2]", module="own_others")
    sys.modules.pop("own_others")
    told = invoke("compare", "full.zip", "other.zip").stdout
    assert "Vuong" in told
    assert "code, its options or the prior differ" in told


@pytest.mark.parametrize(
    ("model", "code", "told"),
    [
        ("own_models:instanse", 1, "no 'instanse'. Did you mean 'instance'?"),
        ("own_models:number", 1, "it is of type int"),
        ("own_models:needs", 1, "function without arguments"),
        ("own_models:broken", 1, "own_models.py, line 18, in broken: ZeroDivisionError: in my own"),
        ("own_broken:model", 1, "own_broken.py, line 1: ZeroDivisionError: division by zero"),
        ("own_lacks:model", 1, "needs the module 'nowhere_to_be_found'"),
        ("not_there:model", 1, "no module 'not_there'"),
        ("Tiger", 2, 'model = "Tiger"'),
        ("panel.csv", 2, "module:object"),
        ("missing.toml", 1, "missing.toml cannot be read"),
    ],
)
def test_models_that_cannot_be_had_are_explained(own, model, code, told):
    outcome = invoke("fit", model, "panel.csv", *COLUMNS, code=code)
    assert told in outcome.stderr
    assert "Traceback" not in outcome.output


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--fix", "RC=two"], 2, "'two' is not a number"),
        (["--fix", "coast=2"], 1, "--fix names 'coast'"),
        (["--fix", "RC=2", "--fix", "RC=3"], 2, "--fix gives RC twice"),
        (["--fix", "RC", "--free", "RC"], 1, "RC is both fixed and free"),
        (["--free", "RD"], 1, "RD"),
        (["--constraint", "RD = 2"], 1, "RD"),
        (["--grid", "cubic:5"], 2, "linear:NODES"),
        (["--grid", "smooth"], 2, "smooth:NODES"),
        (["--prior", "common"], 1, "takes no prior"),
        (["--prior", "guess"], 2, "known, common, agent, stationary"),
        (["--prior", "known:a,b"], 2, "numbers after the colon"),
        (["--prior", "common:3"], 2, "takes nothing"),
        (["--out", "no/where.zip"], 2, "there is no folder no"),
        (["--out", "."], 2, "is a folder"),
        (["--bootstrap", "1"], 1, "at least 2 replicates"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(words, code, told):
    outcome = fit(*words, code=code)
    assert told in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1
    assert outcome.stdout == ""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty: it has no header and no rows"),
        ("bus,month,miles,did\n", "no rows"),
        ("bus,month,miles,did\n1,0,0,0\n1,2,0,0\n", "follows a gap"),
        ("bus,month,miles,did\n1,0,,0\n", "line 2 (agent '1', month 0): miles is missing"),
        ("bus,month,miles,did\n1,0,0.5,0\n", "0.5 is not a whole number"),
        ("bus,month,miles,did\n1,0,9,0\n", "observation 9"),
        ("car,month,miles,did\n1,0,0,0\n", "no column 'bus'; it has car, month, miles, did"),
        ('bus,month,miles,did\n1,0,0,"0\n', "a quotation mark is never closed"),
    ],
)
def test_data_that_cannot_be_read_are_explained(content, told, here):
    (here / "panel.csv").write_text(content)
    outcome = fit(code=1)
    assert told in outcome.stderr
    assert "Traceback" not in outcome.output


def test_an_agents_last_action_may_be_missing_and_ids_stay_text(here):
    text = "bus,month,miles,did\n007,0,0,0.0\n007,1,1,\n7,0,0,1\n7,1,0,0\n"
    (here / "panel.csv").write_text(text)
    from pomdpfit.cli._data import Columns, read_data

    panel = read_data(here / "panel.csv", Columns("bus", "month", "miles", "did"))
    assert panel.agents == ("007", "7")
    assert panel.acted.tolist() == [[True, False], [True, True]]
    assert panel.z.tolist() == [[0, 1], [0, 0]]


def test_a_model_with_hidden_states_is_asked_for_its_prior(here):
    (here / "engine.toml").write_text(ENGINE)
    outcome = invoke("fit", "engine.toml", "panel.csv", *COLUMNS, code=2)
    assert "--prior known:1,0" in outcome.stderr


def test_a_model_that_hides_nothing_is_not_simulated():
    outcome = invoke("simulate", "bus.toml", "--agents", 2, "--periods", 2, code=2)
    assert "conditions = 1" in outcome.stderr


def test_damaged_fits_are_refused(here):
    (here / "fit.zip").write_text("no zip")
    assert "cannot be loaded" in invoke("show", "fit.zip", code=1).stderr
    assert "none.zip: No such file" in invoke("show", "none.zip", code=1).stderr


def test_a_folder_is_not_repaired():
    Path("engine.toml").write_text(ENGINE)
    Path("fleet").mkdir()
    asked = ["--prior", "common", "--repair", "split-at-gaps"]
    words = ["fit", "engine.toml", "fleet", *COLUMNS, *asked]
    assert "is a folder" in invoke(*words, code=2).output


@pytest.mark.full
def test_a_folder_is_a_data_set_larger_than_memory():
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    Path("engine.toml").write_text(ENGINE + '[prior]\nkind = "known"\nbelief = [0.9, 0.1]\n')
    drawn = ["--agents", 40, "--periods", 30, "--seed", 1]
    invoke("simulate", "engine.toml", *drawn, "--out", "fleet")
    invoke("simulate", "engine.toml", *drawn, "--out", "fleet.csv")
    assert list(Path("fleet").glob("*.parquet"))
    columns = ["--agent", "agent", "--time", "time", "--observation", "z", "--action", "a"]
    how = ["--estimator", "two-stage", "--starts", 1, "--grid", "linear:5", "--json"]
    run = lambda data: json.loads(invoke("fit", "engine.toml", data, *columns, *how).stdout)
    streamed, whole = run("fleet"), run("fleet.csv")
    assert streamed["llf"] == pytest.approx(whole["llf"], rel=1e-10)
    assert streamed["params"] == pytest.approx(whole["params"], rel=1e-5)
    assert streamed["bse"] == pytest.approx(whole["bse"], rel=1e-4)
