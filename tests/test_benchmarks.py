"""The benchmark's machinery on tiny problems: rows, page and picture are well formed. No timing."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.page import TITLES, write_page
from benchmarks.row import Row, figure, row_of
from benchmarks.timing import Repeated, side_by_side

pytestmark = pytest.mark.full


@pytest.mark.parametrize(
    ("measured", "at_least", "met"),
    [(9.0, False, True), (11.0, False, False), (9.0, True, False), (10.0, True, True),
     (None, True, None)],
)  # fmt: skip
def test_a_target_is_met_on_its_own_side(measured, at_least, met):
    row = Row("speed", measured, "units", 10.0, at_least=at_least)
    assert row.met is met
    assert row.asked == ("at least 10" if at_least else "at most 10")


def test_rows_survive_json():
    row = Row("growth", 1.0, "exponent", note="|S| = 2", points=((1.0, 2.0), (3.0, 4.0)))
    assert row_of(json.loads(json.dumps(row.as_json()))) == row


@pytest.mark.parametrize(
    ("value", "text"), [(None, "not measured"), (2250.0, "2,250"), (0.5, "0.5"), (1e-5, "1.0e-05")]
)
def test_figures_are_short(value, text):
    assert figure(value) == text


def test_works_take_turns_after_two_runs_each():
    done = []
    works = {name: lambda name=name: done.append(name) for name in "ab"}
    works["b"] = Repeated(works["b"], 4)
    side_by_side(works, repetitions=0)
    assert done == ["a", "a", "b", "b"]
    seconds = side_by_side(works, repetitions=3)
    assert set(seconds) == {"a", "b"}


def test_a_tiny_run_leaves_results_and_a_page(tmp_path, capsys):
    """One theme is measured here; the test below runs them all."""
    results = tmp_path / "results.json"
    main(["--tiny", "filters"], results, tmp_path)
    found = json.loads(results.read_text())
    assert set(found) == {"filters"}
    assert {"date", "processor", "device", "jax"} <= set(found["filters"]["facts"])
    for row in map(row_of, found["filters"]["rows"]):
        assert row.name
        assert row.measured is not None or row.note
    page = (tmp_path / "speed.md").read_text()
    assert TITLES["filters"] in page
    assert "beside dynamax" in page
    (tmp_path / "speed.md").unlink()
    main(["--page"], results, tmp_path)
    assert (tmp_path / "speed.md").read_text() == page
    capsys.readouterr()


def test_curves_are_drawn(tmp_path):
    row = Row("agents", 1.0, "exponent", points=((1.0, 2.0), (3.0, 4.0)))
    theme = {"facts": {"date": "today"}, "rows": [row.as_json()] * 4}
    page = write_page({"growth": theme}, tmp_path).read_text()
    assert "images/growth.png" in page
    assert (tmp_path / "images" / "growth.png").stat().st_size > 0


def test_an_unknown_theme_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["sloth"], tmp_path / "results.json", tmp_path)
    assert "sloth" in capsys.readouterr().err


def test_what_could_not_be_measured_is_told_on_the_page(tmp_path):
    row = Row("peer", None, "times", 3.0, at_least=True, note="peer is not installed")
    theme = {"facts": {"date": "today"}, "rows": [row.as_json()]}
    page = write_page({"filters": theme}, tmp_path).read_text()
    assert "not measured" in page
    assert "peer is not installed" in page
    assert "met" not in page.split("| peer")[1]


@pytest.mark.full
def test_every_theme_runs_tiny(tmp_path, capsys):
    main(["--tiny"], tmp_path / "results.json", tmp_path)
    assert set(json.loads((tmp_path / "results.json").read_text())) == set(TITLES) - {"device"}
    capsys.readouterr()
