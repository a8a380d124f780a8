"""Spoiled files of every kind: read rightly or refused, whatever they hold (see tests/fuzz)."""

import os
from pathlib import Path

import pytest

from tests.fuzz.all_kinds import KINDS, SHARES
from tests.fuzz.judge import PARSED, REFUSED
from tests.fuzz.run import numbers, run
from tests.fuzz.watch import Forbidden, Watch

pytestmark = pytest.mark.full

FILES = 1500  # some hundreds of each kind; the study below has the whole of it


def assert_all_well(files, seed, folder):
    tallies = run(files, seed, folder)
    told = [
        f"{kind} {number} of seed {seed}: {verdict.outcome}: {verdict.says}"
        for kind, tally in tallies.items()
        for number, verdict in tally.findings
    ]
    assert not told, "\n".join([f"files are kept in {folder}:", *told])
    for kind, tally in tallies.items():
        assert sum(tally.outcomes.values()) == len(numbers(files, kind))
        # Both happen, or the mutations teach nothing.
        assert min(tally.outcomes[PARSED], tally.outcomes[REFUSED]) > len(numbers(files, kind)) / 50


def test_spoiled_files_are_read_rightly_or_refused(tmp_path):
    assert_all_well(FILES, 1, tmp_path)


@pytest.mark.study
def test_a_hundred_thousand_spoiled_files(tmp_path):
    assert_all_well(100_000, 0, tmp_path)


def test_the_same_seed_gives_the_same_files():
    assert sum(SHARES.values()) == pytest.approx(1)
    for kind in KINDS.values():
        for number in (0, 7, 8, 9):
            assert kind.mutant(3, number) == kind.mutant(3, number)
        assert kind.mutant(3, 50) != kind.mutant(4, 50)


@pytest.fixture(scope="module")
def watch():
    return Watch()


@pytest.mark.parametrize(
    "misdeed",
    [
        lambda: eval("1 + 1"),
        lambda: exec("x = 1"),
        lambda: compile("1", "data", "eval"),
        lambda: os.system("true"),
        lambda: __import__("pickle").loads(b"cos\nsystem\n."),
        lambda: __import__("no_such_module"),
        lambda: Path("elsewhere").write_text(""),
        lambda: Path("/etc/passwd").read_text(),
    ],
)
def test_the_watch_sees_what_a_reader_must_not_do(misdeed, watch, tmp_path):
    with pytest.raises(Forbidden), watch.during(tmp_path / "file"):
        misdeed()
    assert len(watch.seen) == 1


def test_the_watch_lets_a_reader_read(watch, tmp_path):
    file = tmp_path / "file"
    file.write_text("3")
    with watch.during(file):
        assert int(file.read_text()) == 3
    assert not watch.seen
