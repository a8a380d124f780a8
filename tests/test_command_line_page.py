"""The commands on the page about the command line work, one after the other."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pomdpfit.cli import app

pytestmark = pytest.mark.full

PAGE = (Path(__file__).parents[1] / "docs" / "command_line.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POMDPFIT_CACHE", "")
    for text in blocks("toml"):
        Path(re.match(r"# (\S+)", text)[1]).write_text(text)
    for name, text in re.findall(r"`(\S+)`:\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL):
        Path(name).write_text(text)
    lines = [line for text in blocks("sh") for line in text.splitlines()]
    assert len(lines) >= 5
    outputs: dict[str, str] = {}
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "pomdpfit"
        outcome = CliRunner().invoke(app, words)
        assert outcome.exit_code == 0, (line, outcome.output)
        outputs[words[0]] = outputs.get(words[0], "") + outcome.stdout
    assert "stay[good]" in outputs["show"]
    assert "Likelihood-ratio test" in outputs["compare"]
    assert "no problems found" in outputs["check"]
    assert "1 agents were split at 1 gaps" in outputs["check"]
    assert "share[replace]" in outputs["counterfactual"]
    assert "RC in dollars = 12000" in outputs["counterfactual"]
    assert "<svg" in Path("demand.svg").read_text()
    assert "stay[good]" in Path("engine.html").read_text()
