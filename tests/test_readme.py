"""The code on the front page runs, and a model of one's own is as short as it says."""

import re
from pathlib import Path

import pomdpfit as pf

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_readme_runs_from_top_to_bottom(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it saves a fit
    page: dict = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), page)
    printed = capsys.readouterr().out
    assert "agent '4404', time 2" in printed
    assert "Certificate" in printed
    assert "catch[rich, some]" in printed


def test_own_model_takes_fewer_than_forty_lines():
    (example,) = [block for block in BLOCKS if "class Fishing" in block]
    assert len([line for line in example.splitlines() if line.strip()]) < 40


def test_its_model_file_is_read_and_its_commands_name_it(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)
    (name,) = re.findall(r"^# (\S+)", text)
    (tmp_path / name).write_text(text)
    found = pf.read_model(tmp_path / name)
    assert found.model.bins == 12
    assert list(found.prior.belief) == [1.0, 0.0]
    assert f"--model {name}" in README
