"""README and the tour: short, compiled, run snippet by snippet, and printing what they show."""

import os
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import pomdpfit as pf
from site_pages import DOCS

PAGES = {"README": DOCS.parent / "README.md", "tour": DOCS / "tour.md"}
TOUR = PAGES["tour"].read_text()
# A snippet of Python and, where it stands directly below, what the snippet prints.
SNIPPET = re.compile(r"```python\n((?:(?!```).)*)```(?:\n\n```text\n(.*?)```)?", flags=re.DOTALL)
SNIPPETS = [
    pytest.param(*found, id=f"{name}-{k}")
    for name, page in PAGES.items()
    for k, found in enumerate(SNIPPET.findall(page.read_text()), start=1)
]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def run(code, folder):
    """A snippet in a new process, which imports this source and has no settings of this one."""
    settings = ("JAX_", "XLA_", "PYTHON")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(settings)}
    source = str(Path(pf.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=clean | {"PYTHONPATH": source, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )


def assert_shown(printed, shown):
    """The same words; whole numbers equal, others to one unit in the last digit shown."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    for one, other in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        decimals = len(other.partition(".")[2])
        unit = 10.0**-decimals if decimals else 0.0
        assert abs(float(one) - float(other)) <= 1.001 * unit, (one, other, printed)


@pytest.mark.full
@pytest.mark.parametrize(("code", "shown"), SNIPPETS)
def test_a_snippet_runs_by_itself_and_prints_what_is_shown(code, shown, tmp_path):
    done = run(code, tmp_path)
    if "DatasetError" in done.stderr:
        pytest.skip("Rust's readings are not at hand")
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if shown:
        assert_shown(done.stdout, shown)
    if "rust1987" in code:
        raw, readings = re.findall(r"-4[45]\d\d\.\d{3}", TOUR)
        notes, *_, llf = done.stdout.splitlines()
        assert_shown(llf, raw if "Rust's raw files" in notes else readings)
    if "ImpossibleObservationError" in code:
        assert "agent '4404', time 2" in done.stdout


def test_what_is_shown_is_compared_to_its_last_digit():
    assert_shown("llf    -3.12\nstarts 3", "llf -3.13\nstarts 3")
    for printed in ("llf -3.15\nstarts 3", "llf -3.13\nstarts 4", "bic -3.13\nstarts 3"):
        with pytest.raises(AssertionError):
            assert_shown(printed, "llf -3.13\nstarts 3")


def test_readme_is_short_and_shows_what_its_example_prints():
    text = PAGES["README"].read_text()
    assert len(text.split()) <= 650
    ((_, shown),) = SNIPPET.findall(text)
    assert shown


@pytest.mark.parametrize(("code", "shown"), SNIPPETS)
def test_a_snippet_compiles_and_imports_what_it_uses(code, shown):
    compile(code, "snippet", "exec")
    for module, name in (("numpy", "np"), ("jax.numpy", "jnp"), ("pandas", "pd")):
        assert (f"import {module} as {name}\n" in code) == bool(re.search(rf"\b{name}\.", code))
    assert "import pomdpfit as pf\n" in code


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_name_of_the_package_exists(page):
    names = set(re.findall(r"\bpf\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", page.read_text()))
    assert names
    for name in sorted(names):
        attrgetter(name)(pf)


def test_own_model_takes_fewer_than_forty_lines():
    (example,) = [code for code, _ in SNIPPET.findall(TOUR) if "class Fishing" in code]
    assert len([line for line in example.splitlines() if line.strip()]) < 40


def test_the_model_file_is_read_and_the_command_names_it(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", TOUR, flags=re.DOTALL)
    (name,) = re.findall(r"^# (\S+)", text)
    (tmp_path / name).write_text(text)
    found = pf.read_model(tmp_path / name)
    assert found.model.bins == 12
    assert list(found.prior.belief) == [1.0, 0.0]
    assert f"pomdpfit fit {name} " in TOUR
