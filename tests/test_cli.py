"""The command line and the pictures."""

import json

import matplotlib

matplotlib.use("Agg")
import pytest
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit import plots
from pomdpfit.cli import app


def test_reproduce_writes_a_picture_and_figures_that_agree(tmp_path):
    options = ["--out", str(tmp_path), "--agents", "6", "--periods", "8", "--json"]
    outcome = CliRunner().invoke(app, ["reproduce", *options])
    assert outcome.exit_code == 0, outcome.output
    figures = json.loads((tmp_path / "bus.json").read_text())
    assert json.loads(outcome.stdout) == figures
    assert figures["total"] == pytest.approx(figures["observation"] + figures["choice"])
    assert figures["low"] <= figures["total"] <= figures["high"]
    assert figures["inside"] is True
    assert (tmp_path / "bus.png").read_bytes().startswith(b"\x89PNG")


def test_bad_options_and_no_command_are_answered_without_a_traceback():
    bad = CliRunner().invoke(app, ["reproduce", "--agents", "0"])
    assert bad.exit_code == 2
    assert "Traceback" not in bad.output
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == pf.__version__


def test_a_policy_over_three_states_is_not_drawn():
    model = pf.models.EquipmentInspection()
    solution = pf.solve(model, model.example(), grid=pf.Linear(5))
    with pytest.raises(pf.ModelError, match="two hidden states"):
        plots.policy(solution, 1)
