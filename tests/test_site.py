"""The documentation site holds together; a test of the second tier builds it."""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter

import matplotlib as mpl
import pytest

import pomdpfit as pf
from site_pages import DOCS, NOTEBOOKS, PAGES, anchors, cells, children, links, name

mpl.use("Agg")

BRIDGE = importlib.util.spec_from_file_location("bridge", DOCS / "_ext" / "plain_docstrings.py")
bridge = importlib.util.module_from_spec(BRIDGE)
BRIDGE.loader.exec_module(bridge)


def test_every_page_is_in_one_toctree():
    listed = Counter(child for page in PAGES for child in children(page))
    assert set(listed) == {name(page) for page in PAGES} - {"index"}
    assert set(listed.values()) == {1}


@pytest.mark.parametrize("page", [*PAGES, DOCS.parent / "README.md"], ids=lambda page: page.stem)
def test_links_within_the_repository_lead_somewhere(page):
    for link in links(page):
        if link.startswith(("http://", "https://")):
            continue
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_is_in_languages_that_the_build_can_colour(page):
    """The site is built with warnings as errors, and an unknown language is one."""
    lexers = pytest.importorskip("pygments.lexers")
    for language in re.findall(r"^```(\w+)$", page.read_text(), flags=re.MULTILINE):
        lexers.get_lexer_by_name(language)


def listed_names(page):
    """What the directives of an API page document, as (module, name)."""
    module, found = None, []
    for line in page.read_text().splitlines():
        if match := re.match(r"\.\. (currentmodule|automodule):: (\S+)", line):
            module = match[2]
            if match[1] == "automodule":
                found.append(tuple(module.rsplit(".", 1)))
        elif match := re.match(r"\.\. auto(?:class|function|data|exception):: (\S+)", line):
            found.append((module, match[1]))
    return found


def test_every_public_name_is_on_one_api_page():
    found = Counter(entry for page in (DOCS / "api").glob("*.md") for entry in listed_names(page))
    modules = {"pomdpfit": pf} | {
        f"pomdpfit.{part}": importlib.import_module(f"pomdpfit.{part}")
        for part in ("models", "datasets", "baselines", "bayes", "plots")
    }
    public = {(home, name) for home, module in modules.items() for name in module.__all__}
    twice = {("pomdpfit.bayes", name) for name in pf.bayes.__all__ if hasattr(pf, name)}
    assert set(found) == (public | {("pomdpfit", "plots")}) - twice
    assert set(found.values()) == {1}


def test_the_overview_of_the_interface_lists_every_name():
    text = (DOCS / "api" / "index.md").read_text()
    shown = {line.strip() for line in text.splitlines() if re.fullmatch(r"   \w+", line)}
    assert set(pf.__all__) - {"models", "datasets", "baselines", "bayes"} <= shown


def test_every_promise_names_a_test_file_that_exists():
    rows = re.findall(
        r"^\| (?!promise|---)(.*)\|$", (DOCS / "promises.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 40
    for row in rows:
        files = re.findall(r"`([\w/]+\.py)`", row.rsplit("|", 1)[-1])
        assert files, row
        assert all((DOCS.parent / "tests" / file).exists() for file in files), row


def test_every_picture_has_an_alternative_text():
    drawing = re.compile(r"\.show\(\)|plots\.plot_|\.plot\(")
    for page in NOTEBOOKS:
        for block in re.findall(r"```\{code-cell\}.*?```", page.read_text(), flags=re.DOTALL):
            if drawing.search(block) and "remove-cell" not in block:
                assert re.search(r"^    alt: \S.{30,}", block, flags=re.MULTILINE), block
    for page in PAGES:
        for alternative in re.findall(r"!\[(.*?)\]\(", page.read_text()):
            assert alternative, page


def test_own_model_takes_some_forty_lines():
    (model,) = [cell for cell in cells(DOCS / "own_model.md") if "class Pump" in cell]
    assert len([line for line in model.splitlines() if line.strip()]) <= 45


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`q` of |S| states, z_t*.", "``q`` of \\|S\\| states, z\\_t\\*.\n"),
        ("See `pf.fit`.", "See :py:obj:`pf.fit <pomdpfit.fit>`.\n"),
        ("pf.fit() or pf.x", ":py:obj:`pf.fit() <pomdpfit.fit>` or pf.x\n"),
        ("pf.fit(x)", ":py:obj:`pf.fit <pomdpfit.fit>`\\ (x)\n"),
        ("the `x`s", "the ``x``\\ s\n"),
        ("One,\ntwo.\n\nThree.", "One, two.\n\nThree.\n"),
        (
            "grid    a grid,\n        or none\nseed    a `seed`\nlonger_name text",
            "::\n\n    grid    a grid,\n            or none\n    seed    a `seed`\n"
            "    longer_name text\n",
        ),
        (
            "grid    a grid,\n        or none\nseed    a `seed`",
            "``grid``\n    a grid, or none\n``seed``\n    a ``seed``\n",
        ),
        ("short   one\nlongest two", "``short``\n    one\n``longest``\n    two\n"),
    ],
)
def test_docstrings_become_markup_by_their_layout(text, expected):
    assert bridge.to_rst(text, {"fit"}) == expected


@pytest.mark.full
def test_a_model_of_ones_own_reads_its_file(tmp_path, monkeypatch, capsys):
    """The first half of that page; the build runs all of it."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    code = cells(DOCS / "own_model.md")
    read = next(k for k, cell in enumerate(code) if "typo.csv" in cell)
    for cell in code[: read + 1]:
        exec(compile(cell, "own_model.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "it sums to 0.9" in printed
    assert "no problems found" in printed
    assert "'lout' is not one of" in printed


@pytest.mark.full
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    pytest.importorskip("furo")
    options = ["-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path / "html")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options],
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "programs")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        assert (tmp_path / "html" / f"{name(page)}.html").exists()


@pytest.mark.full
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_run_where_sphinx_is_not_installed(page, tmp_path, monkeypatch):
    if importlib.util.find_spec("myst_nb"):
        pytest.skip("the build runs them")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for cell in cells(page):
        exec(compile(cell, page.name, "exec"), names)
