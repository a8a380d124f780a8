"""Beliefs and policies in a report, for every kind of model: what is shown is what is solved."""

import itertools
import json
import re

import matplotlib as mpl
import numpy as np
import pytest

import pomdpfit as pf
from browser import SCHEMES, SIZES, browser, needs_browser, points, show, widths
from pomdpfit.report import Explorer, Report, render
from pomdpfit.report.estimate._beliefs import beliefs_piece
from pomdpfit.report.estimate._policy import policy_piece, telling_observation
from report_kinds import CHOICES, KINDS, QUOTED
from test_report import Page

mpl.use("Agg")

HOME, END = "\ue011", "\ue010"  # keys, as the WebDriver protocol spells them


# Each is a model to compile: two that differ most are in the first tier.
FIRST = {"groups", "three states"}
PARAMS = [pytest.param(k, marks=() if k in FIRST else pytest.mark.full) for k in KINDS]


@pytest.fixture(scope="module", params=PARAMS)
def drawn(request):
    """The name of a kind, its estimate, and the two sections that differ from kind to kind."""
    estimate = KINDS[request.param]().written_down()
    return request.param, estimate, beliefs_piece(estimate, None), policy_piece(estimate)


def explorer_of(piece) -> Explorer:
    (found,) = [block for block in piece.section.blocks if isinstance(block, Explorer)]
    return found


def test_every_context_epoch_and_edge_can_be_chosen(drawn):
    name, _, _, policy = drawn
    given = [part.name for part in explorer_of(policy).slices]
    assert given == CHOICES.get(name, [given[0]])


def test_the_slider_has_every_observation(drawn):
    _, estimate, _, policy = drawn
    count = len(np.asarray(estimate.model.reward(estimate.model.example())))
    places = explorer_of(policy).places
    assert len(places) == count
    rows = [int(re.search(r"in ([\d,]+) rows", place)[1].replace(",", "")) for place in places]
    assert sum(rows) == estimate.panel.present.sum()


def test_the_slider_starts_where_something_else_than_usual_is_done():
    panel = pf.Panel.from_arrays([[0, 0, 1, 4, 5], [0, 1, 1, 2, 5]], [[0, 0, 0, 1], [0, 0, 0, 1]])
    assert telling_observation(panel) == 3  # actions 1 at 4 and at 2
    same = pf.Panel.from_arrays([[0, 1, 5]], [[1, 1]])
    assert telling_observation(same) in {0, 1}


def last_slice(name, estimate):
    """theta, epoch and ends of the edge of the last thing that can be chosen."""
    own = {n: v for n, v in estimate.theta.items() if n in estimate.model.space().parameters}
    own |= {"groups": {"group": 0.0}, "covariates": {"price": 1.3}}.get(name, {})
    return own, 5 if name == "finite horizon" else None, (-2, -1)


def test_the_picture_has_the_policy(drawn):
    name, estimate, _, policy = drawn
    theta, t, edge = last_slice(name, estimate)
    shown = explorer_of(policy)
    solution = pf.solve(estimate.model, theta, grid=estimate.setting.grid)
    share = np.array(shown.points)
    x = np.zeros((len(share), solution.primitives.states))
    x[:, edge[0]], x[:, edge[1]] = 1 - share, share
    z = len(shown.places) - 1
    expected = np.asarray(solution.policy(z, x, t)).T
    np.testing.assert_allclose(shown.slices[-1].values[z], expected, atol=1e-8)


def test_paths_are_those_of_the_filter(drawn):
    _, estimate, beliefs, _ = drawn
    (figure,) = beliefs.section.blocks
    panel = estimate.panel
    x = estimate.setting.likelihood(estimate.space).terms(estimate.theta).belief
    panels = [ax for ax in figure.figure.axes if ax.get_title()]
    assert len(panels) == 6
    for ax in panels:
        agent = int(ax.get_title().removeprefix("agent "))
        here = panel.present[agent]
        if x.shape[-1] == 2:
            np.testing.assert_allclose(ax.lines[0].get_ydata(), x[agent, here, 1])
            continue
        for s, area in enumerate(ax.collections):  # stacked: the upper edge is the sum so far
            top = x[agent, here, : s + 1].sum(axis=-1)
            heights = {(round(a, 9), round(b, 9)) for a, b in area.get_paths()[0].vertices}
            places = zip(np.flatnonzero(here).astype(float), np.round(top, 9), strict=True)
            assert set(places) <= heights


def test_the_page_is_sound_and_its_labels_are_text(drawn):
    name, _, beliefs, policy = drawn
    html = render(Report(name, "", {}, (), (beliefs.section, policy.section)), alone=True)
    page = Page(html)
    assert page.unbalanced == []
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", html, flags=re.DOTALL)
    assert [attributes for attributes, _ in scripts] == [' type="application/json"', ""]
    data = json.loads(scripts[0][1])
    if name == "quoted labels":
        assert QUOTED not in html
        assert data["lines"] == ['a"b', QUOTED]
        assert any(QUOTED in text for text in page.texts["figcaption"])
    options = [text.strip() for text in page.texts.get("option", [])]
    assert options == CHOICES.get(name, [])


# ---- in a browser ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.mark.full
@needs_browser
def test_controls_move_the_picture_on_every_screen(drawn, driver, tmp_path):
    name, _, beliefs, policy = drawn
    page = tmp_path / "page.html"
    report = Report(name, "", {}, (), (beliefs.section, policy.section))
    page.write_text(render(report, alone=True), "utf-8")
    data = explorer_of(policy)
    for size, scheme in itertools.product(SIZES, SCHEMES):
        show(driver, page.as_uri(), size, scheme)
        wide, shown = widths(driver)
        assert wide <= shown == size[0]
        seen = [points(driver)]
        slider = driver.find_element("css selector", ".explorer input")
        for key, place in ((HOME, 0), (END, -1)):
            slider.send_keys(key)
            told = driver.find_element("css selector", ".explorer output").text
            assert told == data.places[place]
            seen.append(points(driver))
        for option in driver.find_elements("css selector", ".explorer option")[1:]:
            option.click()
            seen.append(points(driver))
        moves = [np.ptp(part.values, axis=0).max() > 1e-3 for part in data.slices[:1]]
        assert (seen[1] != seen[2]) == any(moves)  # readings of the equipment change no choice
        assert all(a != b for a, b in itertools.pairwise(seen[2:]))
        assert driver.get_log("browser") == []
