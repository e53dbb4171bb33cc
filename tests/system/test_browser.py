"""The pages of a class in a real browser: by mouse, by keyboard, and on a phone.

    SCREENSHOTS=docs/images python -m pytest tests/system/test_browser.py

takes the pictures of docs/images anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from grader.course import ROOT

HANA = "hana-softmax-over-queries"
PAGES = ["class.html", f"{HANA}/report.html", "emil-untouched/report.html"]
OPEN_ALL = "for (const d of document.querySelectorAll('details')) d.open = true"
OVERFLOW = """
const wide = document.documentElement.clientWidth;
return [document.documentElement.scrollWidth - wide,
        [...document.querySelectorAll('body *')]
          .filter(e => e.getBoundingClientRect().right > wide + 1 && !e.closest('.scroll'))
          .map(e => e.outerHTML.slice(0, 100))];
"""
# Only pictures may be scrolled sideways: nobody should have to, to read a sentence.
CUT = """
return [...document.querySelectorAll('.scroll')]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && !e.querySelector(':scope > .picture'))
  .map(e => e.outerHTML.slice(0, 200));
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux"),
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="needs chromium and chromium-driver",
    ),
]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample class, graded; where somebody has done so already, as GRADED says."""
    if os.environ.get("GRADED"):
        return Path(os.environ["GRADED"]).resolve()
    out = tmp_path_factory.mktemp("class") / "grades"
    command = [sys.executable, "-m", "grader", "grade", "--out", str(out), "--lang", "en"]
    command += ["--only", "attention", "--only", "masks", "--limit", "3"]
    environment = os.environ | {"GRADER_SECRET": "of the tests"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    profile = tmp_path_factory.mktemp("profile")
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", f"--user-data-dir={profile}"):  # fmt: skip
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options, service)
    yield driver
    driver.quit()


def look(browser: WebDriver, page: Path, width=1000, height=800, dark=False) -> WebDriver:
    """Open a page in a window, or on a phone, of this size."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [scheme]})
    browser.get(page.as_uri())
    return browser


@pytest.mark.parametrize("page", PAGES)
def test_clicked_through(out, browser, page) -> None:
    look(browser, out / page)
    for details in browser.find_elements(By.CSS_SELECTOR, "main details"):
        summary = details.find_element(By.TAG_NAME, "summary")
        if summary.is_displayed():
            before = details.get_attribute("open")
            browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", summary)
            summary.click()
            assert details.get_attribute("open") != before
    for link in browser.find_elements(By.CSS_SELECTOR, "nav a"):
        link.click()
        target = browser.current_url.rpartition("#")[2]
        assert browser.find_element(By.ID, target).is_displayed()
        assert browser.find_element(By.ID, target).rect["y"] >= 0
    assert browser.get_log("browser") == []


def test_from_the_class_to_a_student(out, browser) -> None:
    look(browser, out / "class.html")
    browser.find_element(By.LINK_TEXT, HANA).click()
    assert browser.current_url == (out / HANA / "report.html").as_uri()
    assert browser.find_element(By.TAG_NAME, "h1").text == HANA
    browser.find_element(By.LINK_TEXT, "attention.scaled_dot_product_attention").click()
    assert "softmax over the queries" in browser.find_element(By.CSS_SELECTOR, ".reason").text
    assert browser.get_log("browser") == []


def test_by_keyboard(out, browser) -> None:
    look(browser, out / HANA / "report.html")
    skip = browser.switch_to.active_element
    skip.send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the report"
    assert skip.rect["x"] >= 0
    skip.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.tag_name == "main"
    summary = browser.find_element(By.CSS_SELECTOR, "main summary")
    before = summary.find_element(By.XPATH, "..").get_attribute("open")
    summary.send_keys(Keys.ENTER)
    assert summary.find_element(By.XPATH, "..").get_attribute("open") != before


@pytest.mark.parametrize("page", PAGES)
def test_nothing_runs_over_the_edge_of_a_phone(out, browser, page) -> None:
    look(browser, out / page, 375, 667)
    for _ in range(2):  # as it comes, and with all of it open
        assert browser.execute_script(OVERFLOW) == [0, []]
        assert browser.execute_script(CUT) == []
        browser.execute_script(OPEN_ALL)


@pytest.mark.parametrize("page", PAGES)
def test_dark_where_the_system_is(out, browser, page) -> None:
    def ground(dark: bool) -> str:
        look(browser, out / page, dark=dark)
        body = browser.find_element(By.TAG_NAME, "body")
        return str(body.value_of_css_property("background-color"))

    assert ground(dark=False) == "rgba(255, 255, 255, 1)"
    assert ground(dark=True) == "rgba(22, 23, 27, 1)"


def test_print_shows_what_is_folded(out, browser) -> None:
    look(browser, out / "ada-perfect" / "report.html")
    seen = (
        "return document.querySelector('details:not([open]) table')"
        ".checkVisibility({contentVisibilityAuto: true})"
    )
    assert browser.execute_script(seen) is False
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    WebDriverWait(browser, 10).until(lambda browser: browser.execute_script(seen))


@pytest.mark.parametrize(
    "name, page",
    [
        ("class-report", "class.html"),
        ("student-report", f"{HANA}/report.html"),
    ],
)
def test_screenshots(out, browser, tmp_path, name, page) -> None:
    look(browser, out / page, 860, 720)
    if page.startswith(HANA):
        browser.find_element(By.LINK_TEXT, "attention.scaled_dot_product_attention").click()
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    path = folder / f"{name}.png"
    assert browser.save_screenshot(str(path))
    Image.open(path).quantize(64).save(path, optimize=True)
    assert 10_000 < path.stat().st_size < 100_000
