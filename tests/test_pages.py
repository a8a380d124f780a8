"""The code on the pages about identification runs."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

pytestmark = pytest.mark.full

FOLDER = Path(__file__).parents[1] / "docs" / "identification"
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if "```python" in page.read_text()]
QUICK = {"dynamics.md", "forgetting.md"}

mpl.use("Agg")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[] if page.name in QUICK else pytest.mark.full)
        for page in PAGES
    ],
)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    assert capsys.readouterr().out
