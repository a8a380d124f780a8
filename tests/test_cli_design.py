"""`pomdpfit design`: from a model file to an answer, and on from where it was stopped."""

import json

import pytest
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit.cli import app

MODEL = """
model = "BusEngine"
[options]
bins = 8
increments = 3
discount = 0.9
[theta]
RC = 60.0
cost = 1.0
increment = [0.3, 0.5, 0.2]
[fixed]
RC = 60.0
cost = 1.0
"""
SIZES = ["--agents", "20,40", "--periods", "2", "--replications", "3", "--estimator", "two-stage"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POMDPFIT_CACHE", "")
    (tmp_path / "bus.toml").write_text(MODEL)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, ["design", "bus.toml", *SIZES, *words])


def test_a_study_is_made_told_drawn_and_saved(here):
    outcome = run("--se", "increment[0]=0.02", "--plot", "study.svg", "--checkpoint", "kept")
    assert outcome.exit_code == 0, outcome.output
    assert "increment[0] to within 0.02 over 2 periods: " in outcome.stdout
    assert (here / "study.svg").read_text().startswith("<?xml")
    saved = pf.StudyDesign.load("design.json")
    assert len(saved.info) == 6
    # The folder was named, so it is there for a larger study, and the same one is read from it.
    again = run("--json", "--se", "increment[0]=0.02", "--checkpoint", "kept", "--resume")
    told = json.loads(again.stdout)
    assert "resumed: 6 of 6 replications" in again.stderr
    assert len(told["table"]) == 6
    assert told["failed"] == 0
    want = saved.agents_for("increment[0]", se=0.02, periods=2)
    assert told["agents_for"][0]["agents"] == want["agents"]
    refused = run("--seed", "7", "--checkpoint", "kept")
    assert refused.exit_code == 1
    assert "another design: seed changed" in refused.stderr
    assert "--no-resume" in refused.stderr


def test_what_is_finished_is_gone_on_from_after_ctrl_c(here, monkeypatch):
    from pomdpfit.studies import _study

    original, done = _study.Study.replications, []

    def stopping(self, cell, part):
        if done:
            raise KeyboardInterrupt
        done.append(part)
        return original(self, cell, part)

    with monkeypatch.context() as patch:
        patch.setattr(_study.Study, "replications", stopping)
        outcome = run()
    assert outcome.exit_code == 130
    assert "1 finished parts of the design are in" in outcome.stderr
    assert (here / "design.checkpoint").is_dir()
    outcome = run("--resume")
    assert outcome.exit_code == 0, outcome.output
    assert "resumed: 3 of 6 replications" in outcome.stderr
    assert not (here / "design.checkpoint").exists()
    assert run("--resume").exit_code == 1  # there is nothing left


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--agents", "20,x"], "--agents 20,x must list whole numbers"),
        (["--periods", "0"], "--periods 0 must list whole numbers"),
        (["--se", "increment[0]"], "--se increment[0] must be NAME=VALUE"),
        (["--plot", "a.txt"], "must end in one of"),
    ],
)
def test_words_that_are_not_understood(here, words, told):
    outcome = run(*words)
    assert outcome.exit_code == 2
    assert told in " ".join(outcome.stderr.split())
