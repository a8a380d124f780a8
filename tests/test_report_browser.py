"""The report of an estimate in a browser: it runs, keeps to itself, and fits every screen."""

import json

import matplotlib as mpl
import pytest

from browser import SCHEMES, SIZES, browser, needs_browser, points, show, widths
from small_hidden import EVIL, EVIL_ENGINE, hidden_fit, hidden_panel

selenium = pytest.importorskip("selenium", reason="needs selenium, of the dependency group test")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

mpl.use("Agg")

pytestmark = [needs_browser, pytest.mark.full]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    estimate = hidden_fit(hidden_panel(), EVIL_ENGINE, starts=1)
    return estimate.report(tmp_path_factory.mktemp("report") / "out.html").as_uri()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def requests(driver, page):
    """What the page has asked for since the last look, beside images that it holds itself."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    asked = [each["request"]["url"] for each in sent if each["documentURL"] == page]
    return [url for url in asked if not url.startswith("data:")]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_it_loads_quietly_and_fits_the_screen(driver, page, size, scheme):
    show(driver, page, size, scheme)
    assert driver.get_log("browser") == []  # errors, and what the policy has stopped
    assert requests(driver, page) == [page]
    wide, shown = widths(driver)
    assert shown == size[0]
    assert wide <= shown
    assert len(points(driver)) == 2


def test_no_picture_is_cut_on_a_phone(driver, page):
    show(driver, page, size=(390, 844))
    beyond = driver.execute_script(
        "return [...document.querySelectorAll('.card')].map(c => c.scrollWidth - c.clientWidth)"
    )
    assert len(beyond) > 5
    assert max(beyond) <= 0
    assert requests(driver, page) == [page]


def test_the_slider_moves_the_picture(driver, page):
    show(driver, page)
    slider = driver.find_element(By.CSS_SELECTOR, ".explorer input")
    told = driver.find_element(By.CSS_SELECTOR, ".explorer output")
    assert requests(driver, page) == [page]
    slider.send_keys(Keys.HOME)
    first = points(driver)
    assert told.text.startswith("z = 0 ")
    slider.send_keys(Keys.ARROW_RIGHT)
    second = points(driver)
    assert told.text.startswith("z = 1 ")
    assert first != second
    slider.send_keys(Keys.END)
    assert told.text.startswith("z = 5 ")
    assert points(driver) != second
    assert requests(driver, page) == []
    assert driver.get_log("browser") == []


def test_the_picture_follows_the_width(driver, page):
    show(driver, page)
    wide = points(driver)
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 100))")
    assert points(driver) != wide


def test_code_in_labels_does_not_run(driver, page):
    show(driver, page)
    keys = [item.text for item in driver.find_elements(By.CSS_SELECTOR, ".keys li")]
    assert keys == ["a$b$c", EVIL]
    assert driver.execute_script("return document.scripts.length") == 2


def test_the_policy_stops_what_is_not_of_the_page(driver, page):
    """The policy is in force: a script put in by hand does not run, and an image is not fetched."""
    show(driver, page)
    driver.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.appendChild(s);"
    )
    assert driver.execute_script("return window.ran") is None
    assert any("Content Security Policy" in entry["message"] for entry in driver.get_log("browser"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ink_differs_from_paper(driver, page, scheme):
    """Text and axes of pictures: contrast 4.5 and more with what is behind them (WCAG AA)."""
    show(driver, page, scheme=scheme)
    found = driver.execute_script(
        """
        const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const light = (c) => {
          const [r, g, b] = rgb(c).map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ratio = (a, b) => {
          const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
          return (x + 0.05) / (y + 0.05);
        };
        const style = (selector) => getComputedStyle(document.querySelector(selector));
        const card = style(".figure:not(.explorer) .card").backgroundColor;
        const svg = style(".canvas svg");
        const axis = getComputedStyle(
          [...document.querySelectorAll(".canvas path")].find(
            (p) => (p.getAttribute("style") || "").includes("stroke: #000000")));
        const patch = getComputedStyle(
          [...document.querySelectorAll(".canvas path")].find(
            (p) => (p.getAttribute("style") || "").includes("fill: #ffffff")));
        return {
          text: ratio(style("body").color, style("body").backgroundColor),
          letters: ratio(svg.fill, patch.fill),
          axis: ratio(axis.stroke, patch.fill),
          moving: ratio(style(".stage text").fill, style(".explorer .card").backgroundColor),
          paper: ratio(card, patch.fill),
        };
        """
    )
    assert found.pop("paper") == pytest.approx(1)  # no white patches on a dark card
    assert min(found.values()) >= 4.5, found
