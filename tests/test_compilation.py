"""Compiled programs on disk: where they go, who decides, and that a second process finds them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import pomdpfit as pf
from pomdpfit.programs import _folder
from pomdpfit.programs._store import keep_in

pytestmark = pytest.mark.full

_SCRIPT = """
import collections, json, sys
import jax
import pomdpfit as pf
heard = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: heard.update([name.split("/")[-1]]))
jax.numpy.ones(3) * 2.0  # JAX has compiled before it is told of a folder
folder = pf.cache_compilations(*sys.argv[1:])
heard.clear()
model = pf.models.Tiger()
value = pf.solve(model, model.example(), grid=pf.Linear(5)).value(0, [0.5, 0.5])
print(json.dumps({"folder": folder and str(folder), "value": float(value), **heard}))
"""


def in_new_process(*words, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in {"JAX_COMPILATION_CACHE_DIR"}}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *words],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_a_second_process_compiles_nothing(tmp_path):
    first = in_new_process(POMDPFIT_CACHE=str(tmp_path))
    second = in_new_process(POMDPFIT_CACHE=str(tmp_path))
    assert first["folder"] == second["folder"] == str(tmp_path)
    assert first["cache_misses"] > 0
    assert second.get("cache_misses", 0) == 0
    # The solve itself is found without JAX's help, and without being traced: test_program_store.py.
    assert 0 < second["cache_hits"] < first["cache_misses"] + first.get("cache_hits", 0)
    assert second["value"] == first["value"]  # the same program, to the last bit


@pytest.fixture
def settings():
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    _folder.reset_cache()
    keep_in(None)


@pytest.fixture
def nothing_told(settings, monkeypatch):
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.delenv("POMDPFIT_CACHE", raising=False)


def test_importing_changes_nothing():
    code = "import jax, pomdpfit; print(jax.config.jax_compilation_cache_dir)"
    clean = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "None"


def test_what_jax_was_told_stays(settings, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "told"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 2.5)
    assert pf.cache_compilations() == tmp_path / "told"
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 2.5


def test_a_folder_given_comes_first(settings, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "told"))
    assert pf.cache_compilations(tmp_path / "given") == tmp_path / "given"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "given")


@pytest.mark.usefixtures("nothing_told")
def test_an_empty_name_keeps_nothing(monkeypatch):
    monkeypatch.setenv("POMDPFIT_CACHE", "")
    assert pf.cache_compilations() is None
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.usefixtures("nothing_told")
def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert pf.cache_compilations(tmp_path / "file" / "below") is None


@pytest.mark.usefixtures("nothing_told")
@pytest.mark.parametrize(
    ("platform", "variable", "end"),
    [
        ("linux", "XDG_CACHE_HOME", "pomdpfit/jax"),
        ("win32", "LOCALAPPDATA", "pomdpfit/jax"),
        ("darwin", None, "Library/Caches/pomdpfit/jax"),
    ],
)
def test_each_platform_has_its_place(platform, variable, end, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))
    assert pf.cache_compilations() == tmp_path / end


@pytest.mark.usefixtures("nothing_told")
def test_the_oldest_programs_go_when_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(_folder, "_LARGEST", 25)
    for age, name in enumerate(["new", "older", "oldest"]):
        entry = tmp_path / f"{name}-cache"
        entry.write_bytes(bytes(10))
        os.utime(entry, (1e9 - age, 1e9 - age))
    pf.cache_compilations(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"new-cache", "older-cache"}
