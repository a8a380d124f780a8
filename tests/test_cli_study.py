"""Studies: a file that names a model of the user's own, its data and options; `pomdpfit init`."""

import json
import re
import shutil
import typing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit.cli import _work as work_module
from pomdpfit.cli import app
from pomdpfit.cli._app import _COMMANDS

QUIET = {"POMDPFIT_CACHE": ""}


def invoke(*words, code=0):
    outcome = CliRunner().invoke(app, list(map(str, words)), env=QUIET)
    assert outcome.exit_code == code, outcome.output
    assert "Traceback" not in outcome.output
    return outcome


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What `pomdpfit init` writes, and what it says."""
    folder = tmp_path_factory.mktemp("init") / "pump"
    return folder, json.loads(invoke("init", folder, "--json").stdout)


@pytest.fixture
def here(written, tmp_path, monkeypatch):
    """A folder with a copy of the study, in which commands run."""
    shutil.copytree(written[0], tmp_path / "pump", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path / "pump")
    return tmp_path / "pump"


def change(old, new, name="study.toml"):
    text = Path(name).read_text()
    assert text.count(old) == 1, (old, text)
    Path(name).write_text(text.replace(old, new))


class Enough(pf.EstimationError):
    """What was asked for is known: nothing needs to be fitted."""


@pytest.fixture
def handed(here, monkeypatch):
    """What `fit` was called with."""
    told = {}

    def keep(model, panel, estimator, **options):
        told.update(model=model, panel=panel, estimator=estimator, **options)
        raise Enough("enough")

    monkeypatch.setattr(work_module, "fit", keep)
    return told


def asked(handed, *words):
    handed.clear()
    assert "enough" in invoke("fit", *words, code=1).stderr
    return handed


# ---- pomdpfit init -------------------------------------------------------------------------------


def test_init_writes_a_study_and_says_what_to_run(written, tmp_path, monkeypatch):
    folder, document = written
    assert {Path(path).name for path in document["files"]} == {
        *("model.py", "study.toml", "panel.csv")
    }
    frame = pd.read_csv(folder / "panel.csv")
    assert list(frame.columns) == ["pump", "week", "gauge", "decision"]
    assert set(frame["gauge"]) == {"quiet", "noisy", "loud"}
    assert len(frame) == document["rows"]
    assert document["commands"][0] == f"cd {folder}"
    assert "pomdpfit fit study.toml" in document["commands"]


def test_init_overwrites_nothing_and_leaves_nothing_half_done(here, monkeypatch):
    before = Path("model.py").read_text()
    told = invoke("init", ".", code=2).stderr
    assert "model.py" in told
    assert "Name another folder" in told
    assert Path("model.py").read_text() == before
    assert "is a file" in invoke("init", "study.toml", code=2).stderr

    def fails(*arguments, **options):
        raise pf.SolveError("no")

    monkeypatch.setattr("pomdpfit._simulate.simulate", fails)
    invoke("init", "other", code=1)
    assert not list(Path("other").glob("*.*"))


@pytest.mark.full
def test_the_commands_that_init_recommends_work(written, tmp_path, monkeypatch):
    folder, document = written
    monkeypatch.chdir(folder)
    outputs = {}
    for command in document["commands"][1:]:
        _, name, *words = command.split()
        outputs[name] = invoke(name, *words).stdout
    assert "no problems found" in outputs["check"]
    est = pf.load("fit.zip")
    assert est.converged
    pump = pf.read_model("study.toml", own_code=True).model
    true = pump.space().to_series(pump.example())
    assert ((est.params - true).abs() / est.bse).dropna().max() < 4
    assert "share[service]" in outputs["counterfactual"]
    assert "gauge[sound, quiet]" in Path("report.html").read_text()
    # The model is needed for what follows from it, and the file that names it is enough.
    assert (
        "the model file that names it"
        in invoke(*("counterfactual", "fit.zip", "--set", "service=2"), code=2).stderr
    )
    shown = invoke("show", "fit.zip", "--model", "study.toml", "--json").stdout
    assert json.loads(shown)["model"] == "Pump"


# ---- what a study says, and what the command line says -------------------------------------------


def test_a_study_says_all_that_a_fit_needs(handed):
    found = asked(handed, "study.toml")
    assert type(found["model"]).__name__ == "Pump"
    assert isinstance(found["estimator"], pf.Joint)
    np.testing.assert_array_equal(found["prior"].belief, [1.0, 0.0])
    assert (found["starts"], found["seed"], found["grid"]) == (2, 0, pf.Smooth(21))
    panel = found["panel"]
    assert (panel.agent_count, panel.observation_labels) == (80, ("quiet", "noisy", "loud"))
    frame = pd.read_csv("panel.csv")
    want = frame["gauge"].map({"quiet": 0, "noisy": 1, "loud": 2}).to_numpy().reshape(80, -1)
    np.testing.assert_array_equal(panel.z, want)


def test_the_command_line_takes_the_place_of_what_the_study_says(handed):
    words = ["--estimator", "two-stage", "--starts", 3, "--seed", 7, "--grid", "linear:5"]
    found = asked(handed, "study.toml", *words, "--prior", "common", "--fix", "damage=1.5")
    assert isinstance(found["estimator"], pf.TwoStage)
    assert (found["starts"], found["seed"], found["grid"]) == (3, 7, pf.Linear(5))
    assert found["prior"] == pf.CommonPrior()
    assert found["fixed"] == {"damage": 1.5}
    # An option that is given counts, also where it is the default of the command.
    change("seed = 0", "seed = 5")
    assert asked(handed, "study.toml", "--seed", 0)["seed"] == 0
    assert asked(handed, "study.toml")["seed"] == 5
    frame = pd.read_csv("panel.csv").rename(columns={"gauge": "reading"})
    frame.head(53).to_csv("other.csv", index=False)
    found = asked(handed, "study.toml", "other.csv", "--observation", "reading")
    assert found["panel"].agent_count == 1


def test_files_are_found_from_the_folder_of_the_study(handed, monkeypatch):
    monkeypatch.chdir("..")
    assert asked(handed, "pump/study.toml")["panel"].agent_count == 80
    assert handed["checkpoint"] == Path("pump/fit.checkpoint/search")
    assert handed["model"] == asked(handed, "pump/study.toml")["model"]


def test_every_option_of_the_data_can_stand_in_the_study(handed):
    frame = pd.read_csv("panel.csv").head(106)
    frame["week"] = [f"2024-{1 + int(w) // 28:02d}-{1 + int(w) % 28:02d}" for w in frame["week"]]
    frame["gauge"] = frame["gauge"].replace({"quiet": "0", "noisy": "1", "loud": "?"})
    frame.to_csv("odd.csv", sep=";", index=False, encoding="utf-16")
    lines = [
        'delimiter = ";"',
        'encoding = "utf-16"',
        'freq = "D"',
        'missing = "gauge=?"',
        'repair = ["drop-rows", "split-at-gaps"]',
        'actions = ["run", "service"]',
    ]
    change('file = "panel.csv"', "\n".join(['file = "odd.csv"', *lines]) + "\n#")
    panel = asked(handed, "study.toml")["panel"]
    assert panel.action_labels == ("run", "service")
    assert panel.agent_count > 2
    assert any("split" in note for note in panel.notes)
    change('actions = ["run", "service"]', 'group = "depot"')
    assert "the model has no groups" in invoke("fit", "study.toml", code=2).stderr


def test_check_takes_a_study_for_its_data(here):
    document = json.loads(invoke("check", "study.toml", "--json").stdout)
    assert document["ok"]
    assert document["agents"] == 80
    assert set(document["actions"]) == {"run", "service"}
    frame = pd.read_csv("panel.csv").head(53)
    frame["decision"] = frame["decision"].replace("service", "servce")
    frame.to_csv("typo.csv", index=False)
    told = invoke("check", "typo.csv", "--model", "study.toml", code=1).stderr
    assert "is not one of the model's actions: run, service (did you mean 'service'?)" in told
    assert "--missing" not in told


def test_simulated_panels_have_the_columns_and_words_of_the_study(here):
    words = ["simulate", "study.toml", "--agents", 80, "--periods", 52]
    assert "is the data file of study.toml" in invoke(*words, code=2).stderr  # panel.csv
    told = invoke(*words, "--out", "drawn.csv").stdout
    assert told.splitlines()[-1] == "read it with: pomdpfit fit study.toml drawn.csv"
    assert Path("drawn.csv").read_text() == Path("panel.csv").read_text()
    change('action = "decision"', 'freq = "M"\ndelimiter = ";"\nactions = ["run", "service"]')
    told = invoke(*words, "--out", "dated.csv").stdout
    assert told.splitlines()[-1].endswith("fit study.toml dated.csv --action a")
    frame = pd.read_csv("dated.csv", sep=";")
    assert list(frame.columns) == ["pump", "week", "gauge", "a"]
    assert frame["week"].tolist()[:13][::12] == ["2000-01-01", "2001-01-01"]
    invoke("check", "dated.csv", "--model", "study.toml", "--action", "a")


def test_a_design_takes_estimator_and_grid_of_the_study(here, monkeypatch):
    told = {}

    def keep(model, theta, **options):
        told.update(options)
        raise Enough("enough")

    monkeypatch.setattr("pomdpfit.studies.design", keep)
    change('estimator = "joint"', 'estimator = "two-stage"')
    invoke("design", "study.toml", "--agents", "20", "--periods", "5", code=1)
    assert isinstance(told["estimator"], pf.TwoStage)
    assert told["grid"] == pf.Smooth(21)


def test_a_ready_model_has_the_same_keys(handed):
    Path("two.toml").write_text(
        'model = "EngineReplacement"\nestimator = "two-stage"\n'
        "options = {bins = 3, increments = 2, discount = 0.8}\n"
        'prior = {kind = "known", belief = [0.5, 0.5]}\n'
        '[data]\nfile = "two.csv"\nagent = "i"\ntime = "t"\nobservation = "z"\naction = "a"\n'
    )
    Path("two.csv").write_text("i,t,z,a\n1,0,0,keep\n1,1,1,replace\n1,2,0,keep\n")
    found = asked(handed, "two.toml")
    assert isinstance(found["estimator"], pf.TwoStage)
    assert found["panel"].a.tolist() == [[0, 1, 0]]


# ---- what is refused -----------------------------------------------------------------------------


def test_data_must_be_named_somewhere(here):
    change('file = "panel.csv"', "#")
    assert '[data] file = "panel.csv"' in invoke("fit", "study.toml", code=2).stderr
    assert "there are no data" in invoke("check", "study.toml", code=2).stderr
    assert "there are no data" in invoke("fit", "model:Pump", "--prior", "known:1,0", code=2).stderr


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("starts = 2", "strats = 2", "study.toml, line 7: .*'strats'.*Did you mean 'starts'?"),
        ('agent = "pump"', 'agnet = "pump"', r"line 17: \[data\] .*Did you mean 'agent'?"),
        ("[data]", "[date]", "line 15: .*'date'.*Did you mean 'data'?"),
        ('agent = "pump"', "agent = 3", r"\[data\] agent must be a text, not 3"),
        ('action = "decision"', 'repair = "split"', r"\[data\] repair 'split' must be one of"),
        ('action = "decision"', "actions = []", r"\[data\] actions must list the labels"),
        ('"joint"             ', '"twostage"', "estimator 'twostage'.*mean 'two-stage'?"),
        ("starts = 2", "starts = 0", "starts must be a whole number of at least 1, not 0"),
        ('"smooth:21"', '"smoth:21"', "grid 'smoth:21'.*Did you mean 'smooth'?"),
        ('"model:Pump"', '"model:Pum"', "model has no 'Pum'. Did you mean 'Pump'?"),
        ('"model:Pump"', '"model:GAUGE"', "must be a pf.Model or its class; it is of type tuple"),
        ('"model:Pump"', '"model:jnp"', "must be a pf.Model or its class; it is of type module"),
        ('"model:Pump"', '"modle:Pump"', "there is no module 'modle'"),
        ('"model:Pump"', '"model:GAUGE.x"', "model has no 'x'"),
        ('"model:Pump"', '"os:system"', "os is a module of Python itself"),
        ('"model:Pump"', '"Pump"', "is none of .*, nor module:object"),
        ('"model:Pump"', '"model.py:Pump"', "Name it without .py"),
        ('"model:Pump"', '"./model:Pump"', "is not module:object"),
    ],
)
def test_what_a_study_may_not_hold_is_told_with_its_place(old, new, told, here):
    change(old, new)
    said = " ".join(invoke("fit", "study.toml", code=1).stderr.split())
    assert said.startswith("error: study.toml")
    assert re.search(told, said), said


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--prior", "0.7,0.3"], 2, "write --prior known:0.7,0.3"),
        (["--prior", "knwon:1,0"], 2, "Did you mean 'known'?"),
        (["--estimator", "twostage"], 2, "Did you mean 'two-stage'?"),
        (["--grid", "linaer:5"], 2, "Did you mean 'linear'?"),
        (["--repair", "drop_rows"], 2, "Did you mean 'drop-rows'?"),
        (["--fix", "gauge[sound, lout]=0.1"], 1, "Did you mean 'gauge[sound, loud]'?"),
        (["--fix", "gauge[soud]=0.1"], 1, "the entries of gauge are gauge[sound, quiet], gauge"),
        (["--free", "dicount"], 1, "Did you mean 'discount'?"),
        (["--free", "gauge[sound, loud]"], 1, "Only whole parameters can stand here"),
        (["--constraint", "damge = 2"], 1, "Did you mean 'damage'?"),
        (["--observation", "gague"], 1, "Did you mean 'gauge'?"),
    ],
)
def test_what_was_probably_meant_is_told(words, code, told, here):
    assert told in " ".join(invoke("fit", "study.toml", *words, code=code).stderr.split())


# ---- the user's own code -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("import pomdpfit as pf", "import pomdpfit as pf\n1 / 0", "line 6: ZeroDivisionError"),
        ("import pomdpfit as pf", "import nowhere", "line 5: model needs the module 'nowhere'"),
        ("class Pump(pf.Model):", "class Pump(pf.Model)", "line 12: SyntaxError: expected ':'"),
        ("import pomdpfit as pf", "raise SystemExit(0)", "line 5: SystemExit: 0"),
        (
            "    def parameters(self):\n        return {",
            "    def parameters(self):\n        return {**nothing,",
            "line 16, in parameters: NameError: name 'nothing' is not defined",
        ),
        ('p = theta["fail"]', 'p = theta["fial"]', "Did you mean 'fail'? See model.py, line 30"),
        ("p = theta", "p = nothing", "line 30, in kernel: NameError: name 'nothing'"),
    ],
)
def test_errors_of_the_users_own_code_come_with_file_and_line(old, new, told, here):
    change(old, new, "model.py")
    outcome = invoke("check", "study.toml", code=1)
    said = " ".join(outcome.stderr.split())
    assert told in said
    assert "model.py, line" in said
    assert "bug" not in said


CLASSES = """
import pomdpfit as pf
from pomdpfit.models import EngineReplacement

print("imported")

class Sized(EngineReplacement):
    kinds: tuple[str, ...]

    def __init__(self, bins: int, scale: float = 1.0, kinds=("a",)):
        super().__init__(bins=bins, increments=2, discount=0.8)
        self.kinds = kinds
        hash(kinds)

instance = Sized(4)

def function():
    return instance
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"classes:Sized"', "classes:Sized needs bins: give a value in the table [options]"),
        ('"classes:Sized"\n[options]\nbinz = 3', "[options] has an unknown key 'binz'"),
        ('"classes:Sized"\n[options]\nbins = 3.5', "[options] bins must be a whole number"),
        ('"classes:Sized"\n[options]\nbins = 1', "as many bins"),
        ('"classes:instance"\n[options]\nbins = 3', "is a model that is made already"),
        ('"classes:function"', "must be a pf.Model or its class; it is of type function"),
        ('"classes:pf.Panel"', "it is a class that is none"),
        ('"classes:Sized"\n[tables]\nkernel = 3', '[tables] is for model = "Tabular"'),
    ],
)
def test_options_are_those_of_the_class(text, told, tmp_path):
    (tmp_path / "classes.py").write_text(CLASSES)
    (tmp_path / "study.toml").write_text(f"model = {text}\n")
    with pytest.raises(pf.ModelError, match=re.escape(told)):
        pf.read_model(tmp_path / "study.toml", own_code=True)


def test_a_class_or_an_instance_is_a_model(tmp_path, monkeypatch):
    (tmp_path / "classes.py").write_text(CLASSES)
    study = tmp_path / "study.toml"
    study.write_text(
        'model = "classes:Sized"\n[options]\nbins = 5\nscale = 2\nkinds = ["a", "b"]\n'
        "[theta]\nRC = 3.0\n"
    )
    spec = pf.read_model(study, own_code=True)
    assert (spec.model.bins, spec.model.kinds) == (5, ("a", "b"))
    assert spec.start["RC"] == 3.0
    study.write_text('model = "classes:instance"\n')
    assert pf.read_model(study, own_code=True).model.bins == 4
    # A word on the command line may name a function too; what is printed is no part of the JSON.
    monkeypatch.chdir(tmp_path)
    words = ["simulate", "classes:function", "--agents", 1, "--periods", 0]
    assert "imported" not in invoke(*words, code=2).stdout


def test_no_code_is_run_unless_it_is_asked_for(tmp_path):
    (tmp_path / "spy.py").write_text("raise SystemExit('run')")
    (tmp_path / "study.toml").write_text('model = "spy:model"\n')
    with pytest.raises(pf.ModelError, match="own_code=True if you trust"):
        pf.read_model(tmp_path / "study.toml")
    with pytest.raises(pf.ModelError, match=r"spy\.py, line 1: SystemExit: run"):
        pf.read_model(tmp_path / "study.toml", own_code=True)


def test_two_studies_may_each_have_a_module_of_one_name(tmp_path):
    for name in ("one", "two", "one"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        text = f"import pomdpfit as pf\n\nclass {name.title()}(pf.models.Tiger):\n    pass\n"
        (folder / "both.py").write_text(text)
        (folder / "study.toml").write_text(f'model = "both:{name.title()}"\n')
        model = pf.read_model(folder / "study.toml", own_code=True).model
        assert type(model).__name__ == name.title()
    (tmp_path / "helpers.py").write_text(text)  # a module of the tests, which is loaded
    (tmp_path / "study.toml").write_text('model = "helpers:One"\n')
    import helpers

    with pytest.raises(pf.ModelError, match="has the name of a module that is loaded already"):
        pf.read_model(tmp_path / "study.toml", own_code=True)
    assert "random_kernel" in vars(helpers)


# ---- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", _COMMANDS, ids=lambda command: command.__name__)
def test_help_shows_every_word_in_brackets(command):
    outcome = CliRunner().invoke(app, [command.__name__, "--help"], env={"COLUMNS": "400"})
    shown = " ".join(outcome.stdout.split())
    hints = typing.get_type_hints(command, include_extras=True)
    described = [each for hint in hints.values() for each in getattr(hint, "__metadata__", ())]
    texts = [command.__doc__, *(t for info in described for t in (info.help, info.metavar))]
    assert all("\\" not in text for text in texts if text and "\\t" not in text)
    for text in filter(None, texts):
        for bracketed in re.findall(r"\[[^\]]*\]+", text):
            assert bracketed in shown
