"""The command line and the pictures."""

import json
import os

import matplotlib

matplotlib.use("Agg")
import pytest
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit import plots
from pomdpfit.cli import app


def invoke(*words):
    return CliRunner().invoke(app, list(words))


def test_reproduce_leaves_a_report_tables_figures_and_results(tmp_path):
    """The simulated parts: they need no data."""
    outcome = invoke("reproduce", "--tiny", "--only", "table1", "--out", str(tmp_path), "--json")
    assert outcome.exit_code == 0, outcome.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert json.loads(outcome.stdout) == results
    assert results["facts"]["seed"] == "0"
    assert results["missing"] == []
    assert set(results["parts"]) == {"table1"}
    page = (tmp_path / "report.html").read_text()
    for finding in results["findings"]:
        assert finding.split("**")[1] in page
    for name in ("table1", "table2", "table12_llf"):
        assert (tmp_path / "tables" / f"{name}.csv").stat().st_size > 0
        assert "\\toprule" in (tmp_path / "tables" / f"{name}.tex").read_text()


def test_no_data_at_all_is_an_error_that_names_every_way_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setattr("pomdpfit.datasets._rust1987.downloaded", _nowhere)
    monkeypatch.setattr("pomdpfit.datasets._econirl.read_groups", _nowhere)
    monkeypatch.delenv("POMDPFIT_RUST1987", raising=False)
    outcome = invoke("reproduce", "--only", "rust", "--out", str(tmp_path / "here"))
    assert outcome.exit_code == 1
    assert "POMDPFIT_RUST1987" in outcome.output
    assert "Traceback" not in outcome.output
    assert not (tmp_path / "here").exists()


def _nowhere(groups):
    raise pf.DatasetError("nowhere.")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "table9"], "table9"),
        (["--groups", "five"], "five"),
        (["--seed", "-1"], "seed"),
        (["--source", os.devnull], "folder"),
    ],
)
def test_bad_options_are_answered_without_a_traceback(words, told, tmp_path):
    outcome = invoke("reproduce", "--out", str(tmp_path / "here"), *words)
    assert outcome.exit_code in {1, 2}
    assert told in outcome.output
    assert "Traceback" not in outcome.output
    assert not (tmp_path / "here").exists()


def test_the_version_is_told():
    assert invoke("--version").stdout.strip() == pf.__version__


def test_a_policy_over_three_states_is_not_drawn():
    model = pf.models.EquipmentInspection()
    solution = pf.solve(model, model.example(), grid=pf.Linear(5))
    with pytest.raises(pf.ModelError, match="two hidden states"):
        plots.policy(solution, 1)
