"""The command line and the pictures."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import pytest
import typer
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit.cli import app
from pomdpfit.cli._app import _COMMANDS


def invoke(*words):
    return CliRunner().invoke(app, list(words))


@pytest.mark.full
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
        (["--only", "rust", "--all"], "contradict"),
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


def python(*words, **options):
    """A process of its own."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


EVERY = ["simulate", "fit", "show", "compare", "reproduce", "bench"]


def test_every_command_speaks_json_explains_its_codes_and_can_be_debugged():
    listed = invoke("--help").stdout
    for name in EVERY:
        assert name in listed
        told = invoke(name, "--help").stdout
        assert "--json" in told
        assert "--debug" in told
        assert "130 interrupted" in " ".join(told.split())


def test_no_option_has_a_metavar_for_its_name():
    """Typer 0.27 makes the option --REPAIR of a parameter `repair` with the metavar REPAIR."""
    for command in _COMMANDS:
        for name, parameter in inspect.signature(command).parameters.items():
            for info in getattr(parameter.annotation, "__metadata__", ()):
                if getattr(info, "metavar", None) == name.upper():
                    named = isinstance(info, typer.models.ArgumentInfo) or info.param_decls
                    assert named or info.default == f"--{name}", (command.__name__, name)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["fit", "--help"], ["bench", "-x"]])
def test_help_comes_without_importing_jax(words):
    code = (
        "import sys\nfrom pomdpfit.cli import app\n"
        f"try:\n    app({words!r})\nexcept SystemExit:\n    pass\n"
        "slow = {'jax', 'pandas', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_public_names_are_there_without_being_imported_beforehand():
    code = (
        "import sys, pomdpfit as pf\nassert 'jax' not in sys.modules\n"
        "assert set(dir(pf)) == {*pf.__all__, '__version__', 'plots'}\n"
        "assert all(getattr(pf, name) is not None for name in pf.__all__)\n"
        "assert 'jax' in sys.modules\n"
        "try:\n    pf.nothing_of_the_kind\nexcept AttributeError as error:\n    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "'pomdpfit' has no attribute 'nothing_of_the_kind'" in ended.stdout


def test_what_nobody_expected_is_called_a_bug_and_can_be_traced(monkeypatch, tmp_path):
    def broken(*arguments):
        raise ZeroDivisionError("by zero\nindeed")

    monkeypatch.setattr("pomdpfit.storage.load", broken)
    outcome = invoke("show", str(tmp_path / "fit.zip"))
    assert outcome.exit_code == 70
    assert "unexpected ZeroDivisionError: by zero indeed" in outcome.stderr
    assert "bug" in outcome.stderr
    assert "--debug" in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1
    traced = invoke("show", str(tmp_path / "fit.zip"), "--debug")
    assert traced.exit_code == 70
    assert "Traceback" in traced.stderr


def test_an_error_is_a_document_too(tmp_path):
    outcome = invoke("show", str(tmp_path / "fit.zip"), "--json")
    assert outcome.exit_code == 1
    told = json.loads(outcome.stdout)["error"]
    assert told["kind"] == "FileNotFoundError"
    assert told["code"] == 1
    assert told["message"] in outcome.stderr


def test_an_interruption_has_its_code(monkeypatch, tmp_path):
    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("pomdpfit.storage.load", stopped)
    outcome = invoke("show", str(tmp_path / "fit.zip"))
    assert outcome.exit_code == 130
    assert "stopped" in outcome.stderr


def test_benchmarks_need_a_checkout(monkeypatch, tmp_path):
    from pomdpfit.cli import _bench

    with pytest.raises(pf.PomdpfitError, match="clone the repository"):
        _bench._checkout([tmp_path])
    root = Path(__file__).parents[1]
    assert _bench._checkout([tmp_path, root]) == root


@pytest.mark.full
def test_benchmarks_are_run_in_a_process_of_their_own():
    ended = python("-m", "pomdpfit", "bench", "no-such-theme", cwd=Path(__file__).parents[1])
    assert ended.returncode == 2
    assert "no-such-theme" in ended.stderr
