"""What long work shows on a terminal, in a notebook and elsewhere, and how Ctrl-C ends it."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
import types

import jax
import pytest

import pomdpfit as pf
from pomdpfit import _progress
from pomdpfit._progress import display, long_running, quiet, with_keywords
from small_bus import bus_fit, draw_panel

SCRIPT = """
import os, sys, time
import pomdpfit as pf
from pomdpfit import _progress
from pomdpfit._progress import callback, long_running

_progress._PATIENCE = _progress._SHORT = 0.3

@long_running
def work(seconds, *, checkpoint=None, progress=None):
    report = callback(progress)
    for step in range(10):
        report("stage 1 of 1: 10 starts", step, 10)
        time.sleep(seconds / 10)

work({seconds}, {options})
print("done")
"""


def start(seconds, options="", **streams):
    code = SCRIPT.format(seconds=seconds, options=options)
    return subprocess.Popen([sys.executable, "-c", code], text=True, **streams)


# ---- callbacks ----------------------------------------------------------------------------------


def test_keywords_reach_the_callbacks_that_accept_them():
    heard = []
    with_keywords(lambda what, done, total: heard.append((what, done, total)))("a", 1, 3, failed=2)
    with_keywords(lambda *words: heard.append(words))("b", 1, 3, failed=2)
    with_keywords(lambda *words, **more: heard.append((*words, more)))("c", 1, 3, failed=2)
    with_keywords(lambda what, done, total, failed=0: heard.append((what, failed)))(
        "d", 1, 3, failed=2
    )
    with_keywords(lambda what, done, total: heard.append("a step"))("e", 1, 3, detail="step 2")
    assert heard == [("a", 1, 3), ("b", 1, 3), ("c", 1, 3, {"failed": 2}), ("d", 2)]


def test_a_fit_reports_each_step_of_its_search():
    steps = []

    def report(what, done, total, detail=""):
        steps.append((what, detail))

    bus_fit(draw_panel(0), starts=2, progress=report)
    assert ("standard errors", "") in steps
    assert sum(detail.startswith("start: step 1, log-likelihood -") for _, detail in steps) == 1
    assert sum(detail.startswith("drawn 1: step 1, log-likelihood -") for _, detail in steps) == 1


# ---- displays -----------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    """Everything is shown after a moment."""
    for name in ("_PATIENCE", "_INTERVAL", "_SHORT"):
        monkeypatch.setattr(_progress, name, 0.05)


def test_elsewhere_a_line_each_few_seconds(impatient, capsys):
    with display("fit") as report:
        report("stage 1 of 2: 3 starts", 1, 3)
        report("stage 1 of 2: 3 starts", 1, 3, detail="drawn 2: step 4, log-likelihood -12.30")
        time.sleep(0.3)
        report("resumed: 3 of 10 chunks are in [a folder]", 1, 1)
    lines = capsys.readouterr().err.splitlines()
    assert (
        "fit: 0 s, stage 1 of 2: 3 starts, 1 of 3 done, drawn 2: step 4, log-likelihood -12.30"
        in lines
    )
    assert lines.count("fit: resumed: 3 of 10 chunks are in [a folder]") == 1
    assert lines[-1] == "fit: 0 s, finished"


def test_compilation_is_shown_as_such_while_it_lasts(impatient, capsys):
    @jax.jit
    def function(x):
        return x + 1.25

    with display("fit"):
        lowered = function.lower(1.0)
        time.sleep(0.2)
        lowered.compile()
        time.sleep(0.2)
    said = ["compiling (once" in line for line in capsys.readouterr().err.splitlines()]
    assert any(said)
    assert not any(said[-2:])


def test_what_is_soon_done_shows_nothing(capfd):
    with display("fit") as report:
        report("starts", 1, 3)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_shown_twice_nor_by_workers_nor_on_request(impatient, capsys):
    @long_running
    def work(*, progress=None):
        time.sleep(0.2)

    @long_running
    def whole(*, progress=None):
        work()

    whole()
    said = capsys.readouterr().err.splitlines()
    assert said
    assert all(line.startswith("whole: ") for line in said)
    with quiet():
        work()
    work(progress=False)
    assert capsys.readouterr().err == ""


def test_a_notebook_has_a_line_that_is_updated_and_removed(impatient, monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda page: shown.append(page.data))
    page = types.ModuleType("IPython.display")
    page.HTML = lambda text: types.SimpleNamespace(data=text)
    page.display = lambda page, display_id: shown.append(page.data) or handle
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    with display("fit") as report:
        report("<starts>", 1, 3)
        time.sleep(1.2)
    assert "&lt;starts&gt;, 1 of 3 done" in shown[0]
    assert "value='0.33" in shown[0]
    assert len(shown) > 2
    assert shown[-1] == ""


def test_a_terminal_has_a_bar_and_a_pipe_has_lines():
    terminal, end = pty.openpty()
    process = start(1.5, stderr=end, stdout=subprocess.PIPE)
    os.close(end)
    drawn = b""
    with contextlib.suppress(OSError):  # the terminal's other end is closed
        while piece := os.read(terminal, 4096):
            drawn += piece
    assert process.communicate()[0] == "done\n"
    assert "stage 1 of 1: 10 starts" in drawn.decode()
    assert "/10" in drawn.decode()


def test_the_bar_shows_what_is_left_and_what_has_failed(capsys):
    with pf.progress_bar() as bar:
        bar("resumed: 3 of 10 replicates are in [kept]", 1, 1)
        bar("stage 1", 1, 4)
        with_keywords(bar)("replicates", 3, 10, failed=0)
        with_keywords(bar)("replicates", 5, 10, failed=2)
    told = " ".join(capsys.readouterr().err.split())
    assert "5 left, 2 failed" in told
    assert "3 left 0:00" in told
    assert "resumed: 3 of 10 replicates are in [kept]" in told
    assert "1/1" not in told


# ---- Ctrl-C -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("", "Pass checkpoint='a_folder/' to be able to continue such a call later."),
        ("checkpoint='kept'", "is in kept: the same call continues from there."),
    ],
)
def test_ctrl_c_ends_in_one_sentence(options, hint, tmp_path):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path}
    here = [str(os.path.abspath(p)) for p in os.environ.get("PYTHONPATH", "").split(":") if p]
    process = start(600.0, options, **streams, env=os.environ | {"PYTHONPATH": ":".join(here)})
    said = process.stderr.readline()  # the first line of progress: it is at work
    assert said.startswith("work: ")
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert error.splitlines()[-1].startswith("KeyboardInterrupt: work was interrupted after")
    assert error.splitlines()[-1].endswith(hint)
    assert "in work" not in error  # what was interrupted is not in the traceback
    assert error.count("Traceback") == 1


DROPPED = """
import time
from pomdpfit._interrupt import dropped_interrupts

class Deaf:
    def __del__(self):
        raise KeyboardInterrupt

try:
    with dropped_interrupts():
        Deaf()
        time.sleep(600)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_that_python_drops_is_raised_again():
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
