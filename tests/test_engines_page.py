"""What the page about engines says, copied, pasted and run: the same numbers everywhere."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engines import RAY
from site_pages import DOCS
from small_bus import draw_panel

pytestmark = pytest.mark.full

PAGE = (DOCS / "scale" / "engines.md").read_text()
BIN = Path(sys.executable).parent

# A queue that runs every job at once: it takes a job's script and says what its number is.
SBATCH = """#!/bin/sh
cp "$1" job.sh  # which is gone when this ends
nohup bash job.sh > job.log 2>&1 &
echo "Submitted batch job $!"
"""


def blocks(language, heading=None):
    text = PAGE if heading is None else PAGE.split(f"# {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    panel = draw_panel(0, agents=40)
    agent, month = np.indices(panel.z.shape)
    columns = {"bus": agent, "month": month, "z": panel.z, "replace": panel.a}
    table = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
    table.to_csv(tmp_path / "buses.csv", index=False)
    for name in ("sbatch", "scancel"):
        (tmp_path / name).write_text(SBATCH if name == "sbatch" else "#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "activate").write_text("")
    return tmp_path


def environment(folder):
    path = os.pathsep.join([str(folder), str(BIN), os.environ["PATH"]])
    return os.environ | RAY | {"PATH": path, "HOME": str(folder)}


def script(folder, block):
    """The first block with another one, in a process of its own; what it prints."""
    first = blocks("python")[0]
    if block is not first:
        first = first.split("if __name__")[0]
        block = first + block
    for kept in (folder / "boot").glob("*"):
        kept.unlink()
    (folder / "script.py").write_text(block)
    command = [sys.executable, "script.py"]
    ran = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.full
def test_every_engine_on_the_page_gives_the_same_numbers(folder):
    pytest.importorskip("ray")
    want = script(folder, blocks("python")[0])
    assert "RC" in want
    start = lambda text: subprocess.Popen(["sh", "-c", text], cwd=folder, env=environment(folder))
    by_hand, by_queue = blocks("python", "A dask cluster")
    start(blocks("bash", "A dask cluster")[0]).wait()
    for _ in range(600):
        if (folder / "scheduler.json").exists():
            break
        time.sleep(0.1)
    assert script(folder, by_hand) == want
    pytest.importorskip("dask_jobqueue")
    assert script(folder, by_queue) == want
    assert start(blocks("bash", "A ray cluster")[0]).wait() == 0
    try:
        assert script(folder, blocks("python", "A ray cluster")[0]) == want
    finally:
        start("ray stop").wait()
