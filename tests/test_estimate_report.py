"""The report of an estimate: one page with the numbers of the estimate, safe and complete."""

import base64
import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import pomdpfit as pf
from pomdpfit.report import Explorer, Report, Section, Slice, render
from pomdpfit.report.estimate._fit import residuals_of
from pomdpfit.report.estimate._reproduce import call_of
from small_bus import bus_fit, draw_panel
from small_hidden import ENGINE, EVIL, EVIL_ENGINE, GRID, PRIOR, hidden_fit, hidden_panel
from test_report import Page

mpl.use("Agg")

FAR = {"RC": 0.5, "cost": [1.0, 1.0]}
HASTY = pf.TwoStage(pf.BHHH(max_steps=1))
SECTIONS = [
    "Estimates",
    "Maxima",
    "Identification",
    "Beliefs",
    "Policy and value",
    "Fit against the data",
    "Residual checks",
    "Reproducibility",
]


@pytest.fixture(scope="module")
def panel():
    return hidden_panel()


@pytest.fixture(scope="module")
def estimate(badly_labelled_estimate):
    return badly_labelled_estimate


@pytest.fixture(scope="module")
def html(estimate, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "out.html"
    assert estimate.report(path) == path
    assert [p.name for p in path.parent.iterdir()] == ["out.html"]
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def observed():
    return bus_fit(draw_panel(0))


def written(estimate, tmp_path, **options) -> str:
    return estimate.report(tmp_path / "out.html", **options).read_text("utf-8")


def titles(html):
    return [t for t in Page(html).texts["h2"] if t not in {"Findings", "Contents"}]


# ---- what it says ----------------------------------------------------------------------------


def test_all_sections_are_there(html):
    assert titles(html) == SECTIONS
    assert "Not available" not in html


def test_the_table_has_the_estimates(html, estimate):
    cells = Page(html).texts
    rows = cells["tr"]
    for name, value in estimate.params.items():
        (row,) = [r for r in rows if r.split() and r.split("\n")[1:2] == [name]]
        shown = float(row.split("\n")[2])
        assert shown == pytest.approx(value, rel=1e-3)


def test_findings_tell_what_the_tests_tell(html, estimate):
    items = " ".join(Page(html).texts["li"])
    test = pf.chi_square_test(estimate).test
    assert f"chi-square({test.df}) {test.statistic:.2f}, p = {test.pvalue:.3g}" in items
    assert f"{estimate.llf:,.3f}" in items
    serial = pf.serial_correlation(ENGINE, estimate.theta, estimate.panel, prior=PRIOR)
    failed, tested = (serial["p_value"] < 0.05).sum(), serial["p_value"].notna().sum()
    assert tested > 0
    assert f"observations of {failed} of {tested} agents" in items


def test_what_is_needed_to_get_it_again_is_there(html, estimate):
    page = Page(html)
    text = " ".join(page.texts["td"] + page.texts["code"])
    assert pf.__version__ in text
    assert "pf.fit(Evil(" in text
    assert "seed=0" in text
    assert "fixed={'stay': [0.85, 0.95]" in text
    assert np.__version__ in text


def test_the_call_can_be_pasted_and_gives_the_same_estimate(html, estimate):
    (call,) = [code for code in Page(html).texts["code"] if code.strip().startswith("pf.fit(")]
    names = {"pf": pf, "panel": estimate.panel, "Evil": type(estimate.model)}
    again = eval(" ".join(call.split()), names)
    pd.testing.assert_frame_equal(again.to_frame(), estimate.to_frame(), check_exact=True)
    pd.testing.assert_frame_equal(again.starts, estimate.starts, check_exact=True)


def test_the_same_estimate_gives_the_same_bytes_but_for_the_clock(html, estimate, tmp_path):
    clock = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
    assert len(clock.findall(html)) == 1
    assert clock.sub("", written(estimate, tmp_path)) == clock.sub("", html)


# ---- safety ----------------------------------------------------------------------------------


def scripts(html):
    return re.findall(r"<script([^>]*)>(.*?)</script>", html, flags=re.DOTALL)


def test_labels_that_are_code_are_text(html):
    page = Page(html)
    assert EVIL not in html
    assert [a for a, _ in scripts(html)] == [' type="application/json"', ""]
    assert any(EVIL in text for text in page.texts["figcaption"])
    assert any(EVIL in text for text in page.texts["th"])
    assert any(EVIL in label for label in page.values("aria-label"))
    assert page.unbalanced == []


def test_the_policy_lets_this_script_run_and_no_other(html):
    page = Page(html)
    (policy,) = [a["content"] for _, a in page.tags if "http-equiv" in a]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    digest = hashlib.sha256(scripts(html)[1][1].encode()).digest()
    assert rules["script-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert rules["default-src"] == "'none'"
    assert not [k for _, attrs in page.tags for k in attrs if k.startswith("on")]


def test_it_points_to_nothing_outside_itself(html):
    page = Page(html)
    loads = [v for _, a in page.tags for k, v in a.items() if k in {"src", "href", "xlink:href"}]
    assert loads
    assert all(re.match(r"#|data:image/png;", address) for address in loads)
    inner = [h[1:] for h in page.values("href") if h[0] == "#"]
    assert set(inner) <= set(page.values("id"))


# ---- the picture that moves ------------------------------------------------------------------


def test_the_picture_has_the_policy(html, estimate):
    data = json.loads(scripts(html)[0][1])
    assert data["lines"] == ["a$b$c", EVIL]
    solution = pf.solve(ENGINE, estimate.theta, grid=GRID)
    share = np.linspace(0, 1, len(data["points"]))
    np.testing.assert_allclose(data["points"], share, atol=1e-4)
    x = np.stack([1 - share, share], axis=-1)
    (part,) = data["slices"]
    for z in range(ENGINE.bins):
        # Rounded to four digits for the page.
        np.testing.assert_allclose(
            np.array(part["values"][z]).T, solution.policy(z, x), atol=0.51e-4
        )
    assert part["across"] == f"belief x({EVIL})"
    counts = np.bincount(estimate.panel.z[estimate.panel.present], minlength=ENGINE.bins)
    assert data["places"] == [f"z = {z} (in {n:,} rows)" for z, n in enumerate(counts)]


def explorer(**changes):
    given = {
        "name": "moves",
        "slices": (Slice("one", "x", np.full((2, 1, 3), 0.5)),),
        "slider": "z",
        "places": ("z = 0", "z = 1"),
        "start": 0,
        "lines": ("keep",),
        "colours": ("#000",),
        "points": (0.0, 0.5, 1.0),
        "up": "share",
        "caption": "c",
        "alt": "a",
    }
    return Explorer(**(given | changes))


def test_no_label_ends_the_data():
    label = "</script><script>alert(1)</script><!-- & \u2028"
    block = explorer(lines=(label,), places=(label, "b"), up=label)
    text = block.as_json()
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["lines"] == [label]
    html = render(Report("t", "", {}, (), (Section("s", "", (block,)),)), alone=True)
    assert len(scripts(html)) == 2
    assert 'href="#figure-moves"' in html


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"slices": (Slice("s", "x", np.zeros((2, 2, 3))),)}, r"shape \(2, 1, 3\).*\(2, 2, 3\)"),
        ({"slices": (Slice("s", "x", np.full((2, 1, 3), 2.0)),)}, "not between 0 and 1"),
        ({"slices": (Slice("s", "x", np.full((2, 1, 3), np.nan)),)}, "not between 0 and 1"),
        ({"slices": ()}, "needs a slice"),
        ({"start": 2}, "start among its 2 places, not 2"),
        ({"name": "A"}, "cannot name a figure"),
    ],
)
def test_pictures_that_cannot_move_are_refused(changes, told):
    with pytest.raises(ValueError, match=told):
        explorer(**changes)


# ---- other estimates -------------------------------------------------------------------------


def test_a_fully_observed_estimate_has_profiles_where_they_are_asked_for_and_no_beliefs(
    observed, tmp_path
):
    html = written(observed, tmp_path, profiles=["RC"])
    assert 'id="figure-profile-1"' in html
    assert titles(html) == [s for s in SECTIONS if s != "Beliefs"]
    assert scripts(html) == []
    assert "Not available" not in html


def test_residuals_of_a_fully_observed_model_are_those_of_one_hidden_state(observed):
    """The baseline's transition by hand, against the filter of a model with a single state."""
    single = pf.models.EngineReplacement(bins=6, increments=3, discount=0.9, conditions=1)
    theta = {
        "RC": observed.theta["RC"],
        "cost": np.atleast_1d(observed.theta["cost"]),
        "increment": np.atleast_2d(observed.theta["increment"]),
        "discount": 0.9,
    }
    peer = pf.observation_residuals(single, theta, observed.panel, prior=pf.KnownPrior([1.0]))
    np.testing.assert_allclose(residuals_of(observed), peer, atol=1e-10)


@pytest.mark.full
def test_others_are_compared(estimate, panel, tmp_path):
    other = hidden_fit(panel, constraints="cost[good] = cost[bad]")
    html = written(estimate, tmp_path, others={EVIL: other})
    assert "Comparison" in titles(html)
    cells = Page(html).texts["th"]
    assert "this estimate" in cells
    assert EVIL in cells
    assert "EngineReplacement 2" in Page(written(estimate, tmp_path, others=[other])).texts["th"]


def test_others_that_cannot_be_compared_are_refused(estimate, observed, tmp_path):
    with pytest.raises(pf.EstimationError, match="different data"):
        written(estimate, tmp_path, others=[observed])
    with pytest.raises(pf.EstimationError, match="must be a list"):
        written(estimate, tmp_path, others=estimate)
    with pytest.raises(pf.EstimationError, match="to estimates"):
        written(estimate, tmp_path, others={"a": 1})


def test_what_has_not_converged_says_so_first(panel, tmp_path):
    with pytest.warns(pf.ConvergenceWarning):
        lost = hidden_fit(panel, EVIL_ENGINE, starts=1, start=FAR, estimator=HASTY)
    assert not lost.converged
    html = written(lost, tmp_path)
    assert 'class="unfinished"' in html
    assert "Not available: the tested estimate has not converged" in html
    assert titles(html) == SECTIONS


def test_without_its_model_an_estimate_still_tells_what_it_knows(estimate, tmp_path):
    estimate.save(tmp_path / "fit.zip")
    loaded = pf.load(tmp_path / "fit.zip")
    assert loaded.model is None
    html = written(loaded, tmp_path)
    assert f"{estimate.llf:,.3f}" in html
    assert "loaded without its model" in html


@pytest.mark.full
def test_heavier_diagnostics_come_when_they_are_asked_for(estimate, tmp_path):
    html = written(estimate, tmp_path, rank=True, profiles=["RC"])
    found = pf.identify(estimate).everything
    assert f"Rank {found.rank} of {found.dimension} parameters" in html
    assert 'id="figure-profile-1"' in html


def test_agents_others_and_the_title_are_chosen(estimate, tmp_path):
    html = written(estimate, tmp_path, agents=[1], title=EVIL, others={EVIL: estimate})
    assert Page(html).texts["title"] == [EVIL]
    assert "who did most" not in html
    assert "Comparison" in titles(html)
    assert {"this estimate", EVIL} <= set(Page(html).texts["th"])
    with pytest.raises(pf.ModelError, match="no agent 'x'"):
        written(estimate, tmp_path, agents=["x"])
    with pytest.raises(pf.EstimationError, match="no estimated parameter 'rc' to profile"):
        written(estimate, tmp_path, profiles=["rc"])


# ---- files -----------------------------------------------------------------------------------


def test_a_place_that_cannot_be_written_is_refused(estimate, tmp_path):
    with pytest.raises(pf.ReportError, match=r"no folder .*nowhere\. Make it first"):
        estimate.report(tmp_path / "nowhere" / "out.html")
    with pytest.raises(pf.ReportError, match=r"it is a folder\. Name a file"):
        estimate.report(tmp_path)
    with pytest.raises(pf.ReportError, match=r"cannot be written: .*[Nn]ame too long"):
        estimate.report(tmp_path / ("a" * 300))
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_written_whole_or_not_at_all(estimate, tmp_path, monkeypatch):
    path = tmp_path / "out.html"
    path.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(pf.ReportError, match="No space left on device"):
        estimate.report(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# ---- the page of the documentation -----------------------------------------------------------


@pytest.mark.full
def test_the_page_about_reports_runs(tmp_path, monkeypatch, capsys):
    page = Path(__file__).parents[1] / "docs" / "report.md"
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    assert capsys.readouterr().out.strip() == "out.html"
    plt.close("all")


def test_a_model_is_told_as_it_was_made_also_where_it_was_loaded(estimate):
    """Texts that come from a file are equal to the defaults without being the same objects."""

    def called(**means):
        setting = dataclasses.replace(estimate.setting, **means)
        return call_of(dataclasses.replace(estimate, setting=setting))

    reset = "".join(["at_", "zero"])
    engine = pf.models.EngineReplacement(bins=12, discount=0.95, reset=reset)
    assert called(model=engine).startswith(
        "pf.fit(pf.models.EngineReplacement(bins=12, discount=0.95), panel, pf.Joint(), "
    )
    assert called(model=pf.models.Tiger()).startswith("pf.fit(pf.models.Tiger(), panel, ")
    assert called(model=None).startswith("pf.fit(model, panel, ")
    rows = pf.KnownPrior(np.random.default_rng(0).dirichlet([1, 1], size=200))
    assert "prior=est.setting.prior, " in called(prior=rows)


def test_the_call_of_an_estimate_whose_arguments_were_not_stored_is_python_too(estimate):
    """Its search's start is missing, which the page says; values that were held are exact."""
    older = dataclasses.replace(estimate, arguments={})
    call = call_of(older)
    compile(call, "call", "eval")
    assert "fixed={'stay': [0.85, 0.95], 'increment': [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]}" in call
    assert "constraints" not in call
