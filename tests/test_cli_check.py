"""check, report and counterfactual: what they refuse, and what a check tells machines."""

import json

import pytest
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit.cli import app
from pomdpfit.cli._choices import with_held
from pomdpfit.cli._counterfactual import looks
from pomdpfit.cli._models import read_model
from small_bus import draw_panel

ENGINE = 'model = "EngineReplacement"\noptions = {bins = 6, increments = 3, discount = 0.9}\n'
COLUMNS = ["--agent", "agent", "--time", "time", "--observation", "z", "--action", "a"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POMDPFIT_CACHE", "")
    (tmp_path / "engine.toml").write_text(ENGINE)
    draw_panel(0, agents=20).to_frame().to_csv("panel.csv", index=False)
    return tmp_path


def invoke(*words, code=0):
    outcome = CliRunner().invoke(app, list(map(str, words)))
    assert outcome.exit_code == code, outcome.output
    assert "Traceback" not in outcome.output
    return outcome


def test_a_panel_without_problems():
    said = invoke("check", "panel.csv", *COLUMNS, "--model", "engine.toml").stdout
    assert said.startswith("20 agents, ")
    assert "no problems found" in said
    assert "Serial dependence" in said
    assert "Markov order" in said
    document = json.loads(invoke("check", "panel.csv", *COLUMNS, "--json").stdout)
    assert document["ok"]
    assert document["agents"] == 20
    assert set(document["tests"]) == {"serial dependence", "markov order"}
    assert 0 <= document["tests"]["serial dependence"]["pvalue"] <= 1


def test_mileage_that_falls_without_a_replacement(here):
    (here / "panel.csv").write_text("agent,time,z,a\n7,0,4,0\n7,1,2,0\n7,2,3,0\n7,3,3,1\n")
    invoke("check", "panel.csv", *COLUMNS)  # nothing is known that speaks against it
    outcome = invoke("check", "panel.csv", *COLUMNS, "--model", "engine.toml", code=1)
    assert "z falls without 'replace'" in outcome.stdout
    words = ["check", "panel.csv", *COLUMNS, "--model", "engine.toml", "--json"]
    document = json.loads(invoke(*words, code=1).stdout)
    assert not document["ok"]
    assert len(document["problems"]) == 1


def test_columns_that_nobody_named():
    outcome = invoke("check", "panel.csv", "--agent", "agent", code=2)
    assert "panel.csv has the columns agent, time, z, a" in outcome.stderr
    assert "--time COL --observation COL --action COL" in outcome.stderr


@pytest.mark.full
def test_a_model_in_cassandras_format(here):
    (here / "two.POMDP").write_text(
        "discount: 0.9\nvalues: reward\nstates: 2\nactions: 2\nobservations: 2\n"
        "T: *\nuniform\nO: *\nuniform\nR: 0 : * : * : * 1.0\n"
    )
    said = invoke("simulate", "two.POMDP", "--agents", 3, "--periods", 4, "--out", "two.csv").stdout
    assert said.startswith("12 rows of 3 agents") or said.startswith("15 rows of 3 agents")


def test_groups_of_a_file_in_cassandras_format_are_let_go(here):
    (here / "two.POMDP").write_text(
        "discount: 0.9\nvalues: reward\nstates: 2\nactions: 2\nobservations: 2\n"
        "T: *\nuniform\nO: *\nuniform\nR: 0 : * : * : * 1.0\n"
    )
    spec = with_held(read_model("two.POMDP"), (), ["observation", "reward.1"], ())
    assert spec.free == ("observation.0", "observation.1", "reward.1")
    with pytest.raises(pf.ModelError, match=r"Did you mean 'reward\.1'"):
        with_held(read_model("two.POMDP"), (), ["rewad.1"], ())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "say what is different"),
        (["--information", "--set", "RC=3"], "say what is different"),
        (["--demand", "RC=1:2:3"], "needs both --demand"),
        (["--set", "RC"], "must be NAME=VALUE"),
        (["--set", "RC=3", "--set", "RC=4"], "--set gives RC twice"),
        (["--information", *["--sensor", "g=[[1],[1]]"] * 2], "--sensor gives g twice"),
        (["--demand", "RC=1:2", "--action", "replace"], "must be NAME=LOW:HIGH:COUNT"),
        (["--set", "RC=3", "--sensor", "g=[[1]]"], "--sensor goes with --information"),
        (["--information", "--sensor", "g=[[1]"], "is not a number, nor lists of numbers"),
        (["--set", "RC=3", "--plot", "no/such/p.png"], "--plot no/such/p.png: there is no folder"),
        (["--set", "RC=3", "--plot", "p.gif"], "must end in one of .png, .svg, .pdf"),
    ],
)
def test_counterfactuals_that_are_not_understood(words, told):
    outcome = invoke("counterfactual", "fit.zip", *words, code=2)
    assert told in outcome.stderr


def test_sensors_come_beside_perfect_information():
    pieces = looks({"gauge": [[0.8, 0.2], [0.3, 0.7]]})
    assert list(pieces) == ["full observation", "one inspection", "gauge"]
    assert pieces["gauge"].probabilities == [[0.8, 0.2], [0.3, 0.7]]


def test_a_report_of_nothing():
    outcome = invoke("report", "fit.zip", code=1)
    assert "fit.zip" in outcome.stderr
    outcome = invoke("report", "fit.zip", "--out", "no/such/folder.html", code=2)
    assert "there is no folder" in outcome.stderr


# ---- files that need a word of explanation -------------------------------------------------------


def test_repairs_and_words_for_no_value_are_asked_for_by_option(here):
    text = "agent;time;z;a\n1;1;0;0\n1;9;9;0\n1;10;NA;1\n2;1;5;0\n"
    (here / "odd.csv").write_text(text, encoding="utf-16")
    file = ["--delimiter", ";", "--encoding", "utf-16"]
    missing = ["--missing", "NA", "--missing", "a=?"]
    repair = ["--repair", "drop-rows", "--repair", "split-at-gaps", "--repair", "top-code=4"]
    words = ["check", "odd.csv", *COLUMNS, *file, *missing, *repair, "--json"]
    document = json.loads(invoke(*words).stdout)
    assert (document["agents"], document["rows"]) == (3, 3)
    told = " ".join(document["notes"])
    for word in ("dropped on request", "split at 1 gaps", "2 observations above 4"):
        assert word in told
    dropped = ["--missing", "z=NA", "--repair", "drop-agents", "--json"]
    document = json.loads(invoke("check", "odd.csv", *COLUMNS, *file, *dropped).stdout)
    assert document["agents"] == 1


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("agent,time,z,a\n1,1,0,0\n1,3,0,1\n", ["--repair split-at-gaps"]),
        ("agent,time,z,a\n1,1,,0\n1,2,0,1\n", ["--repair drop-rows"]),
        ("agent,time,z,a\n1,1,NA,0\n1,2,0,1\n", ["--missing NA", "--observations LABELS"]),
        ("agent;time;z;a\n1;1;0;0\n", ["--delimiter ';'"]),
        ("agent,time,z,a\n1,2020-01,0,0\n", ["--freq M"]),
    ],
)
def test_mends_are_told_as_options(text, options, here):
    (here / "odd.csv").write_text(text)
    told = invoke("check", "odd.csv", *COLUMNS, code=1).stderr
    assert f"On the command line: {' or '.join(options)}" in told


def test_problems_against_a_model_are_told_with_options(here):
    (here / "odd.csv").write_text("agent,time,z,a\n1,1,1,0\n1,2,6,1\n")
    said = invoke("check", "odd.csv", *COLUMNS, "--model", "engine.toml", code=1).stdout
    assert "count from 1" in said
    assert "On the command line: --observations 1,2,3,4,5,6" in said


def test_all_refused_columns_are_told_at_once(here):
    (here / "odd.csv").write_text("agent,time,z,a\n1,x,zero,0\n1,2,0,?\n")
    outcome = invoke("check", "odd.csv", *COLUMNS, "--json", code=1)
    assert outcome.stderr.count("error:") == 3
    message = json.loads(outcome.stdout)["error"]["message"]
    assert [line.split("column ")[1][:3] for line in message.splitlines()] == ["'ti", "'z'", "'a'"]


@pytest.mark.parametrize("repair", ["split", "top-code", "top-code=x", "drop-rows=3"])
def test_repairs_that_are_not_understood(repair):
    told = invoke("check", "panel.csv", *COLUMNS, "--repair", repair, code=2).stderr
    assert "must be one of split-at-gaps, drop-rows, drop-agents, top-code=N" in told
