"""A search that was interrupted goes on, to the bits that it would have ended in."""

import hashlib
import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest

import pomdpfit as pf
from pomdpfit._batch import Batch
from pomdpfit._sealed import read_sealed, sealed
from pomdpfit.estimators import _kept_climb
from pomdpfit.estimators._objective import Objective
from small_bus import MODEL, bus_fit, draw_panel
from small_hidden import hidden_fit

OPTIONS = {"starts": 3, "seed": 5}
TOO_FAR = 10**6


@pytest.fixture(scope="module")
def panel():
    return draw_panel(0, agents=40)


@pytest.fixture(scope="module")
def whole(panel):
    return bus_fit(panel, **OPTIONS)


def rewards_fit(panel, **options):
    """The rewards of a model with hidden states, of which the panel need not be: one stage."""
    return hidden_fit(panel, estimator=pf.TwoStage(), skip_hessian=True, **options)


class Stopwatch:
    """Counts the slopes that are asked for, and interrupts at one of them."""

    def __init__(self, monkeypatch, owner=Objective, method="gradient"):
        self.count, self.stop, self.before = 0, TOO_FAR, lambda: None
        asked = getattr(owner, method)

        def counted(*arguments):
            if self.count == self.stop:
                self.before()
                raise KeyboardInterrupt
            self.count += 1
            return asked(*arguments)

        monkeypatch.setattr(owner, method, counted)

    def run(self, job, stop=TOO_FAR):
        """How many slopes the job asked for; interrupted if it asks for more than `stop`."""
        self.count, self.stop = 0, stop
        if stop == TOO_FAR:
            return job(), self.count
        with pytest.raises(KeyboardInterrupt):
            job()
        return None, self.count


@pytest.fixture
def watch(monkeypatch):
    return Stopwatch(monkeypatch)


def assert_same_bits(found, want):
    assert found.theta.keys() == want.theta.keys()
    for name in want.theta:
        np.testing.assert_array_equal(found.theta[name], want.theta[name])
    np.testing.assert_array_equal(found.terms, want.terms)
    np.testing.assert_array_equal(found.information.scores, want.information.scores)
    np.testing.assert_array_equal(found.information.hessian, want.information.hessian)
    pd.testing.assert_frame_equal(found.modes, want.modes, check_exact=True)
    pd.testing.assert_frame_equal(found.starts, want.starts, check_exact=True)
    assert (found.traces, found.steps, found.gain) == (want.traces, want.steps, want.gain)
    assert found.result is want.result


# ---- one after the other ------------------------------------------------------------------------


def test_wherever_it_stops_a_search_ends_in_the_same_bits(panel, whole, tmp_path, watch):
    job = lambda folder: lambda: bus_fit(panel, **OPTIONS, checkpoint=tmp_path / folder)
    same, every = watch.run(job("whole"))
    assert_same_bits(same, whole)
    assert every > 20
    for stop in range(1, every, 7):
        _, before = watch.run(job(f"{stop}"), stop)
        resumed, after = watch.run(job(f"{stop}"))
        assert before + after == every  # nothing is computed twice
        assert_same_bits(resumed, whole)


def test_two_stages_stopped_again_and_again_end_in_the_same_bits(panel, tmp_path, watch):
    job = lambda **more: bus_fit(panel, pf.TwoStage(), **OPTIONS, **more)
    whole, every = watch.run(job)
    kept = lambda: job(checkpoint=tmp_path)
    total = sum(watch.run(kept, 5)[1] for _ in range(every // 5))
    resumed, rest = watch.run(kept)
    assert total + rest == every
    assert_same_bits(resumed, whole)


def test_what_was_written_last_is_enough_after_sudden_death(
    panel, whole, tmp_path, watch, monkeypatch
):
    monkeypatch.setattr(_kept_climb, "_INTERVAL", 0.0)
    monkeypatch.setattr(_kept_climb, "_SHARE", np.inf)
    here, there = tmp_path / "here", tmp_path / "there"
    watch.before = lambda: shutil.copytree(here, there)  # what a kill would leave
    watch.run(lambda: bus_fit(panel, **OPTIONS, checkpoint=here), 17)
    watch.before = lambda: None
    resumed, after = watch.run(lambda: bus_fit(panel, **OPTIONS, checkpoint=there))
    assert_same_bits(resumed, whole)
    assert after == watch.run(lambda: bus_fit(panel, **OPTIONS))[1] - 17


def test_finished_starts_are_not_climbed_again_and_it_is_said(panel, whole, tmp_path, watch):
    def stopping(what, done, total):
        if what.startswith("stage 1") and done == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        bus_fit(panel, **OPTIONS, checkpoint=tmp_path, progress=stopping)
    before, told = watch.count, []
    tell = lambda *words: told.append(words)
    resumed, after = watch.run(
        lambda: bus_fit(panel, **OPTIONS, checkpoint=tmp_path, progress=tell)
    )
    assert_same_bits(resumed, whole)
    assert before + after == watch.run(lambda: bus_fit(panel, **OPTIONS))[1]
    assert (f"resumed: 2 finished climbs and 0 under way are in {tmp_path}", 1, 1) in told


# ---- hidden states ------------------------------------------------------------------------------


def test_with_hidden_states_a_climb_goes_on_to_the_same_bits(panel, tmp_path, watch):
    """The value that solves start from is kept too: it moves the last bits."""
    whole, every = watch.run(lambda: rewards_fit(panel))
    job = lambda: rewards_fit(panel, checkpoint=tmp_path)
    watch.run(job, every // 2)
    assert [path.name for path in tmp_path.glob("*.begun.zip")]
    resumed, after = watch.run(job)
    assert after == every - every // 2
    assert_same_bits(resumed, whole)


@pytest.mark.full
def test_climbs_side_by_side_go_on_to_the_same_maximum(panel, tmp_path, monkeypatch):
    """In other company, from other values to start solves from: not to the same bits."""
    watch = Stopwatch(monkeypatch, Batch, "slopes")
    whole, every = watch.run(lambda: rewards_fit(panel, batch=2))
    job = lambda: rewards_fit(panel, batch=2, checkpoint=tmp_path)
    watch.run(job, every // 2)
    assert [path.name for path in tmp_path.glob("*.begun.zip")]
    resumed, after = watch.run(job)
    assert after < every
    # Both have climbed to within 1e-8 of the maximum, that is sqrt(2e-8) standard errors.
    assert resumed.llf == pytest.approx(whole.llf, abs=2e-8)
    assert np.abs((resumed.params - whole.params) / whole.bse).max() < 2 * np.sqrt(2e-8)


# ---- what is refused ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(panel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    bus_fit(panel, **OPTIONS, checkpoint=folder)
    return folder


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 6}, "seed"),
        ({"starts": 4}, "starts"),
        ({"start": {"RC": 2.5}}, "start"),
        ({"fixed": {"RC": 2.5}}, "fixed"),
        ({"constraints": "300 * RC = cost"}, "constraints"),
        ({"estimator": pf.TwoStage()}, "estimator"),
        ({"estimator": pf.Joint(pf.BHHH(tolerance=1e-6))}, "estimator"),
        ({"model": pf.baselines.BusEngine(bins=7, increments=3, discount=0.9)}, "model"),
    ],
)
def test_another_fit_is_refused_with_what_changed(panel, finished, changes, named):
    with pytest.raises(pf.EstimationError, match=rf"another fit: {named} changed\. Use another"):
        bus_fit(panel, **{**OPTIONS, "checkpoint": finished, **changes})


def test_other_data_another_version_and_other_code_are_refused(panel, finished, tmp_path):
    with pytest.raises(pf.EstimationError, match="panel: observations, panel: actions changed"):
        bus_fit(draw_panel(1, agents=40), **OPTIONS, checkpoint=finished)
    folder = shutil.copytree(finished, tmp_path / "older")
    manifest = read_sealed(folder / "manifest.json", 10**6)["manifest"]
    older = {"manifest": {**manifest, "version": "0.0.1"}}
    (folder / "manifest.json").write_bytes(sealed(older))
    with pytest.raises(pf.EstimationError, match="another fit: version changed"):
        bus_fit(panel, **OPTIONS, checkpoint=folder)

    class Own(pf.baselines.BusEngine):
        """The same numbers by another text."""

    own = Own(bins=MODEL.bins, increments=MODEL.increments, discount=0.9)
    with pytest.raises(pf.EstimationError, match="another fit: model changed"):
        bus_fit(panel, model=own, **OPTIONS, checkpoint=finished)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-30]), "digest"),
        (lambda path: path.write_bytes(b"\x80\x04K\x01."), "not a zip"),
        (lambda path: shutil.copy(path.with_name("stage-2-start-001.zip"), path), "elsewhere"),
        (lambda path: renamed(path, "climb", "estimate"), "no part of such a file"),
        (lambda path: renamed(path, '"steps"', '"secret"'), "secret"),
        (lambda path: renamed(path, '"result": "CON', '"result": "UNC'), "UNC"),
    ],
)
def test_a_damaged_climb_is_refused(panel, finished, tmp_path, damage, words):
    folder = shutil.copytree(finished, tmp_path / "damaged")
    damage(folder / "stage-1-start-001.zip")
    with pytest.raises(pf.EstimationError, match=f"start-001.zip is damaged: .*{words}.*Delete"):
        bus_fit(panel, **OPTIONS, checkpoint=folder)


def test_a_damaged_climb_under_way_is_refused(panel, tmp_path, watch):
    job = lambda: bus_fit(panel, **OPTIONS, checkpoint=tmp_path)
    watch.run(job, 3)
    [begun] = tmp_path.glob("*.begun.zip")
    content = begun.read_bytes()
    for damage in (lambda: renamed(begun, '"sno', '"sso'), lambda: renamed(begun, '"sno', '"snx')):
        begun.write_bytes(content)
        damage()
        with pytest.raises(pf.EstimationError, match="damaged"):
            job()
    begun.write_bytes(content)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(pf.EstimationError, match=r"but no manifest\.json"):
        job()


def renamed(path, old, new):
    """The file with another word in its document and its name, sealed anew."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            if name.endswith(".json"):
                content = content.replace(old.encode(), new.encode())  # noqa: PLW2901
            archive.writestr(name.replace(old, new), content)
        archive.comment = b"sha256:" + b"0" * 64
    content = path.read_bytes()[:-64]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
