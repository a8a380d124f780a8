"""A browser without a window, where there is one, and what tests ask of it."""

import contextlib
import importlib.util
import shutil

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
SIZES = [(390, 844), (1280, 800)]
SCHEMES = ["light", "dark"]
needs_browser = pytest.mark.skipif(
    BROWSER is None or DRIVER is None or importlib.util.find_spec("selenium") is None,
    reason="needs selenium, of the dependency group test, and chromium and chromedriver",
)


@contextlib.contextmanager
def browser(profile):
    """A driver of chromium that keeps its logs; `profile` is a folder for it alone."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=DRIVER)
    )
    try:
        yield driver
    finally:
        driver.quit()


def show(driver, page, size=(1280, 800), scheme="light"):
    """Open a page on a screen of this size, in this scheme of colours."""
    from selenium.webdriver.support.ui import WebDriverWait

    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    # From a page of its own: on a busy machine the driver can take the end of the last visit to
    # the same address for the end of this one, and look before anything is drawn.
    driver.get("about:blank")
    driver.get(page)
    WebDriverWait(driver, timeout=60).until(
        lambda here: here.execute_script(
            "return location.href !== 'about:blank' && document.readyState === 'complete'"
        )
    )


def widths(driver):
    """How wide the page is, and how much of that is seen."""
    return driver.execute_script(
        "const e = document.documentElement; return [e.scrollWidth, e.clientWidth]"
    )


def points(driver):
    """The lines of the picture that moves, as they are drawn now."""
    lines = driver.find_elements("css selector", ".stage polyline")
    return [line.get_attribute("points") for line in lines]
