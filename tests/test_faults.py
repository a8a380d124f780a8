"""Faults: sudden death, full disks, places that may not be written to, files cut short or altered.

What is compared after a resumption is the SHA-256 of the saved result, without the seconds that the
work took. Bootstraps killed in the default run are in test_bootstrap.
"""

import contextlib
import errno
import hashlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import fault_script
import pomdpfit as pf
from pomdpfit._checkpoint import CheckpointError, open_checkpoint
from pomdpfit._sealed import sealed
from pomdpfit._write import write_atomically
from pomdpfit.estimators._climb_file import read_climb, read_record
from pomdpfit.estimators._kept_climb import KeptClimb
from pomdpfit.estimators._objective import Objective
from pomdpfit.inference._bootstrap_chunks import read_chunk
from small_bus import TRUTH, bus_fit, draw_panel

NOBODY = 65534


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Programs that the killed have compiled need not be compiled by those who come after."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def estimate():
    return bus_fit(draw_panel(0, agents=40), skip_hessian=True)


# ---- sudden death -------------------------------------------------------------------------------


def start(job, folder, out, cache, moment=""):
    command = [sys.executable, fault_script.__file__, job, folder, out, cache, moment]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(list(map(str, command)), env=os.environ | {"PYTHONPATH": path})


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def undisturbed(job, place, cache):
    """The digest of the result, and the seconds that it takes once programs are compiled."""
    for name in ("compiling", "whole"):
        began = time.monotonic()
        assert start(job, place / name, place / f"{name}.out", cache).wait() == 0
    assert sha256(place / "whole.out") == sha256(place / "compiling.out")
    return sha256(place / "whole.out"), time.monotonic() - began


def killed(job, folder, out, cache, moment, after):
    """Start, and kill after so many seconds if there is no moment; whether it was killed."""
    process = start(job, folder, out, cache, moment)
    if not moment:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after)
        process.kill()
    process.wait()
    assert process.returncode in {0, -signal.SIGKILL}
    return process.returncode != 0


def moments(count, rng):
    """Half from outside at any time, half while a file is being written."""
    for k in range(count):
        call = rng.choice(["replace", "fsync", "mkstemp"])
        # No job writes fewer than nine files, so that one begun anew comes to this.
        yield f"{call} {rng.integers(1, 9)}" if k % 2 else ""


def kill_and_resume(job, kills, place, cache, seed):
    """Kill so many times, going on each time from what was left; all that ends, ends the same."""
    rng = np.random.default_rng(seed)
    want, seconds = undisturbed(job, place, cache)
    finished = 0
    place_of = lambda: (place / f"run {finished}", place / f"run {finished}.out")
    for moment in moments(kills, rng):
        dead = False
        while not dead:
            dead = killed(job, *place_of(), cache, moment, rng.uniform(0.2, 1.0) * seconds)
            if place_of()[1].exists():  # before the moment came: the next one begins anew
                assert sha256(place_of()[1]) == want
                finished += 1
    assert start(job, *place_of(), cache).wait() == 0
    assert sha256(place_of()[1]) == want


@pytest.mark.full
def test_a_killed_fit_ends_in_the_same_digest(tmp_path, cache):
    kill_and_resume("fit", 3, tmp_path, cache, seed=0)


@pytest.mark.study
@pytest.mark.parametrize(("job", "kills"), [("bootstrap", 20), ("fit", 20), ("hidden", 10)])
def test_killed_at_fifty_moments_work_ends_in_the_same_digest(tmp_path, cache, job, kills):
    kill_and_resume(job, kills, tmp_path, cache, seed=1)


# ---- no room, no right --------------------------------------------------------------------------


@contextlib.contextmanager
def limited_files(size):
    """Files cannot grow beyond so many bytes: what a full disk does, done by the system."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@contextlib.contextmanager
def without_rights():
    """As somebody who may not write here; root may write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)


@pytest.fixture
def readable():
    """A folder that everybody may enter, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refuse_with(number, monkeypatch, *names):
    def refuse(*args, **options):
        raise OSError(number, os.strerror(number))

    for name in names:
        monkeypatch.setattr(name, refuse)


def more_of(estimate, folder):
    return pf.bootstrap(estimate, 6, seed=3, chunk=2, checkpoint=folder)


@pytest.mark.full
def test_a_disk_that_fills_up_leaves_the_checkpoint_as_it_was(estimate, tmp_path):
    whole = pf.bootstrap(estimate, 6, seed=3, chunk=2)
    pf.bootstrap(estimate, 4, seed=3, chunk=2, checkpoint=tmp_path)
    before = contents(tmp_path)
    words = r"chunk-00002\.json cannot be written: File too large\. .* as it was\. Make room"
    with limited_files(100), pytest.raises(pf.WriteError, match=words):
        more_of(estimate, tmp_path)
    assert contents(tmp_path) == before
    assert more_of(estimate, tmp_path).to_json() == whole.to_json()


@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "tempfile.mkstemp"])
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left on device.*Make room"),
        (errno.EROFS, "Read-only file system.*you may write to"),
        (errno.EACCES, "Permission denied.*you may write to"),
        (errno.EIO, "put/output error.*as it was"),
    ],
)
def test_whatever_step_fails_the_old_file_is_whole(tmp_path, monkeypatch, where, number, words):
    path = tmp_path / "kept.json"
    write_atomically(path, b"old")
    refuse_with(number, monkeypatch, where)
    with pytest.raises(pf.WriteError, match=rf"kept\.json cannot be written: .*{words}"):
        write_atomically(path, b"new")
    assert contents(tmp_path) == {"kept.json": b"old"}


@pytest.mark.full
def test_a_full_disk_in_the_middle_of_a_fit_is_told_and_gone_on_from(tmp_path, monkeypatch):
    panel = draw_panel(0, agents=40)
    job = lambda: bus_fit(panel, starts=3, seed=5, checkpoint=tmp_path)
    told = []

    def filling(what, done, total):
        told.append(what)
        if what.startswith("stage 1") and done == 2:
            refuse_with(errno.ENOSPC, monkeypatch, "os.fsync")

    with pytest.raises(pf.WriteError, match="No space left"):
        bus_fit(panel, starts=3, seed=5, checkpoint=tmp_path, progress=filling)
    monkeypatch.undo()
    assert sorted(contents(tmp_path)) == [
        "manifest.json",
        "stage-1-start-001.zip",
        "stage-1-start-002.zip",
    ]
    resumed, whole = job(), bus_fit(panel, starts=3, seed=5)
    for name in TRUTH:
        np.testing.assert_array_equal(resumed.theta[name], whole.theta[name])


@pytest.mark.full
def test_a_folder_that_may_not_be_written_to_is_told(estimate, readable):
    folder = readable / "kept"
    pf.bootstrap(estimate, 4, seed=3, chunk=2, checkpoint=folder)
    folder.chmod(0o555)
    before = contents(folder)
    with without_rights(), pytest.raises(pf.WriteError, match=r"Permission denied\. Name a place"):
        more_of(estimate, folder)
    with without_rights(), pytest.raises(pf.WriteError, match=r"Permission denied\. Name a place"):
        more_of(estimate, readable / "new")
    assert contents(folder) == before
    folder.chmod(0o755)


def test_a_checkpoint_below_a_file_is_told(estimate, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(pf.WriteError, match=r"Make its folder first, or name another place"):
        more_of(estimate, tmp_path / "file" / "below")
    with pytest.raises(pf.WriteError, match=r"Make its folder first"):
        estimate.save(tmp_path / "nowhere" / "fit.zip")


def test_folders_are_flushed_too(tmp_path, monkeypatch):
    """A file that was moved into place is there after a power cut when its folder is on disk."""
    flushed, original = [], os.fsync

    def fsync(handle):
        flushed.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        original(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "a.json", b"")
    assert flushed[0].name.startswith(".a.json.")
    assert flushed[1:] == [tmp_path]
    flushed.clear()
    open_checkpoint(tmp_path / "deep" / "down", {}, "fit")
    assert {tmp_path, tmp_path / "deep", tmp_path / "deep" / "down"} <= set(flushed)


# ---- files cut short or altered -----------------------------------------------------------------


class Stopped(Exception):
    """In the middle of a climb."""


@pytest.fixture(scope="module")
def kept(estimate, tmp_path_factory):
    """A file of every kind that is kept, and how it is read."""
    place = tmp_path_factory.mktemp("kept")
    panel, entries = estimate.panel, len(estimate.information.entries)
    begins = []
    found = KeptClimb.found
    pf.bootstrap(estimate, 2, seed=3, chunk=2, checkpoint=place / "chunks")
    estimate.save(place / "fit.zip")
    pf.bootstrap(estimate, 2, seed=3).save(place / "boot.json")
    asked, original = [], Objective.gradient

    def stopping(*args):
        asked.append(args)
        if len(asked) > 12:
            raise Stopped
        return original(*args)

    def heard(self, theta, size):
        try:
            return found(self, theta, size)
        finally:
            begins.append((self._done, self._begun, self._begins, size))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptClimb, "found", heard)
        patch.setattr(Objective, "gradient", stopping)
        with pytest.raises(Stopped):
            bus_fit(panel, starts=3, seed=5, checkpoint=place / "search")
    [begun] = [row for row in begins if row[1].exists()]
    done = next(row for row in begins if row[0].exists())
    return {
        "manifest": (
            place / "chunks" / "manifest.json",
            lambda p: open_checkpoint(p.parent, {}, "fit"),
        ),
        "chunk": (
            place / "chunks" / "chunk-00000.json",
            lambda p: read_chunk(p.parent, 0, range(2), entries),
        ),
        "finished climb": (done[0], lambda p: read_climb(p, done[2], done[3])),
        "climb under way": (begun[1], lambda p: read_record(p, begun[2], begun[3])),
        "estimate": (place / "fit.zip", pf.load),
        "bootstrap": (place / "boot.json", pf.Bootstrap.load),
    }


KINDS = ["manifest", "chunk", "finished climb", "climb under way", "estimate", "bootstrap"]
REFUSED = r"digest|manifest|not a zip|JSON|zip file|damaged|cannot be loaded"


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_short_anywhere_is_refused(kept, kind, tmp_path):
    original, read = kept[kind]
    content, path = original.read_bytes(), tmp_path / original.name
    rng = np.random.default_rng(0)
    for length in {0, 1, len(content) - 1, *rng.integers(2, len(content), 40).tolist()}:
        path.write_bytes(content[:length])
        with pytest.raises(pf.EstimationError, match=rf"{original.name} .*({REFUSED})"):
            read(path)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_another_bit_anywhere_is_refused(kept, kind, tmp_path):
    original, read = kept[kind]
    content, path = original.read_bytes(), tmp_path / original.name
    rng = np.random.default_rng(1)
    for place in {
        *range(100),
        *range(len(content) - 100, len(content)),
        *rng.integers(0, len(content), 200).tolist(),
    }:
        altered = bytearray(content)
        altered[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(altered)
        with pytest.raises(pf.EstimationError, match=rf"{original.name} .*({REFUSED})"):
            read(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_too_large_is_refused_before_it_is_read(kept, kind, tmp_path):
    original, read = kept[kind]
    path = tmp_path / original.name
    with path.open("wb") as file:  # a file with a hole: large, and on no disk
        file.truncate(2**33)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(pf.EstimationError, match=r"more than [\d,]+ bytes|not a zip"):
        read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # KiB: a GiB


def test_the_refusal_names_the_mend(estimate, tmp_path):
    pf.bootstrap(estimate, 4, seed=3, chunk=2, checkpoint=tmp_path)
    path = tmp_path / "chunk-00001.json"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=r"00001\.json is damaged: .*Delete it: what it held"):
        pf.bootstrap(estimate, 4, seed=3, chunk=2, checkpoint=tmp_path)
    path.unlink()  # as told
    again = pf.bootstrap(estimate, 4, seed=3, chunk=2, checkpoint=tmp_path)
    assert again.to_json() == pf.bootstrap(estimate, 4, seed=3, chunk=2).to_json()


@pytest.mark.full
def test_a_document_of_another_kind_is_no_chunk(tmp_path):
    (tmp_path / "chunk-00000.json").write_bytes(sealed({"manifest": {}}))
    with pytest.raises(CheckpointError, match="damaged"):
        read_chunk(tmp_path, 0, range(2), 5)
