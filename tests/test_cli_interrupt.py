"""Ctrl-C in the middle of long work: the code, the words, and what can be gone on from."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from small_bus import draw_panel

pytestmark = pytest.mark.full

MODEL = """
model = "BusEngine"
options = {bins = 6, increments = 3, discount = 0.9}
theta = {RC = 2.0, cost = 600.0, increment = [0.3, 0.5, 0.2]}
"""
COLUMNS = ["--agent", "agent", "--time", "time", "--observation", "z", "--action", "a"]
REPLICATES = ["--bootstrap", "64", "--chunk", "4", "--seed", "4"]
PATIENCE = 600.0  # seconds in which a chunk, or an end, must come, on however busy a machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupted")
    (path / "bus.toml").write_text(MODEL)
    draw_panel(0, agents=40).to_frame().to_csv(path / "panel.csv", index=False)
    return path


def start(folder, *words):
    command = [sys.executable, "-m", "pomdpfit", "fit", "bus.toml", "panel.csv", *COLUMNS, *words]
    here = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(Path(path).resolve()) for path in here if path]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "POMDPFIT_CACHE": str(folder / "programs"),
    }
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def interrupt_once(process, path):
    """Send Ctrl-C as soon as the file is there."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=20)
    except subprocess.TimeoutExpired:  # it came in a destructor, where Python ignores exceptions
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=PATIENCE)


def test_an_interrupted_bootstrap_goes_on_and_ends_in_the_same_bytes(folder):
    whole = start(folder, *REPLICATES, "--checkpoint", "whole", "--out", "whole.zip")
    said = whole.communicate(timeout=PATIENCE)[1].splitlines()
    assert all(line.startswith(("fit: ", "bootstrap: ")) for line in said)  # and nothing else
    assert whole.returncode == 0
    words = [*REPLICATES, "--checkpoint", "kept", "--out", "halved.zip"]
    process = start(folder, *words)
    told = interrupt_once(process, folder / "kept" / "bootstrap" / "chunk-00001.json")
    assert process.returncode == 130, told
    assert "run the same command again to go on" in told[1]
    assert "Traceback" not in told[1]
    assert (folder / "halved.zip").exists()
    assert not (folder / "halved.bootstrap.json").exists()
    chunks = len(list((folder / "kept" / "bootstrap").glob("chunk-*.json")))
    assert 2 <= chunks < 16
    resumed = start(folder, *words)
    resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0
    ours, theirs = (folder / f"{stem}.bootstrap.json" for stem in ("halved", "whole"))
    assert ours.read_bytes() == theirs.read_bytes()


def test_an_interrupted_search_goes_on_from_beside_the_fit(folder):
    words = ["--estimator", "policy-gradient", "--starts", "40", "--out", "searched.zip"]
    kept = folder / "searched.checkpoint"
    process = start(folder, *words)
    told = interrupt_once(process, kept / "search" / "stage-1-start-004.zip")
    assert process.returncode == 130, told
    assert "run the same command again to go on" in told[1]
    assert "Traceback" not in told[1]
    assert not (folder / "searched.zip").exists()
    assert 4 <= len(list((kept / "search").glob("stage-*.zip"))) < 80
    resumed = start(folder, *words, "--resume")
    told = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, told
    assert "resumed: " in told[1]
    assert (folder / "searched.zip").exists()
    assert not kept.exists()


def test_the_fit_is_there_before_its_bootstrap_begins(folder):
    process = start(folder, "--bootstrap", "5000", "--out", "only.zip")
    told = interrupt_once(process, folder / "only.zip")
    assert process.returncode == 130, told
    assert "the fit is in only.zip" in told[1]
