"""JupyterLab and a headless Chromium, for tests that look at what people see."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the extra `dev`")
NOT_YET = pytest.importorskip("selenium.common.exceptions").WebDriverException
pytest.importorskip("jupyterlab", reason="needs the extra `notebooks`")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if CHROMIUM is None or shutil.which("chromedriver") is None:
    pytest.skip("needs Chromium and its driver (Debian: chromium-driver)", allow_module_level=True)

# Where to keep the pictures: SCREENSHOTS=docs/images.
PICTURES = os.environ.get("SCREENSHOTS")

_HEADLESS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")

_SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # all cells, those out of sight too
    "apputils-extension/notification": {"fetchNews": "false"},
}

_PASTE = """
const data = new DataTransfer();
data.setData("text/plain", arguments[1]);
arguments[0].dispatchEvent(
  new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
"""


@contextlib.contextmanager
def jupyter(folder: Path, scratch: Path) -> Iterator[str]:
    """JupyterLab as somebody starts it in a folder; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for plugin, values in _SETTINGS.items():
        path = scratch / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(scratch / "settings"),
        "JUPYTER_DATA_DIR": str(scratch / "data"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "run"),
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "LC_ALL": "C.UTF-8",
    }
    options = [f"--ServerApp.port={port}", "--IdentityProvider.token=", "--no-browser",
               "--allow-root", "--ServerApp.open_browser=False"]  # fmt: skip
    with (scratch / "jupyter.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter", "lab", *options],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            until(lambda: _answers(f"{address}/api/status"), 120)
            yield address
        finally:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(20)
            server.kill()


def _answers(address: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(urllib.request.urlopen(address, timeout=5).status == 200)
    return False


def until(ready: Callable[[], Any], limit_s: float = 90) -> Any:
    """Wait for something to be there or true."""
    deadline = time.monotonic() + limit_s
    while True:
        found = None
        with contextlib.suppress(NOT_YET):
            found = ready()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.3)


class Browser:
    """A window."""

    def __init__(self, scratch: Path, width: int = 1280, height: int = 800):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        data = f"--user-data-dir={scratch / 'chromium'}"
        for word in (*_HEADLESS, f"--window-size={width},{height}", data):
            options.add_argument(word)
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options, service)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self.driver.quit()

    def find(self, css: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", css))

    def open(self, address: str) -> None:
        self.driver.get(address)

    def text(self) -> str:
        return str(self.driver.find_element("tag name", "body").text)

    def picture(self, name: str, scratch: Path, of: str = "body") -> None:
        """Keep what is seen of an element, small."""
        from PIL import Image  # matplotlib brings it

        (element,) = self.find(of)
        whole = Image.open(io.BytesIO(element.screenshot_as_png))
        folder = Path(PICTURES) if PICTURES else scratch
        folder.mkdir(parents=True, exist_ok=True)
        whole.convert("RGB").quantize(64).save(folder / f"{name}.png", optimize=True)


class Notebook:
    """A notebook that is open in JupyterLab."""

    def __init__(self, browser: Browser, address: str, name: str):
        self.browser = browser
        browser.open(f"{address}/lab/tree/{name}")
        until(lambda: browser.find(".jp-NotebookPanel .jp-CodeCell .cm-content"), 120)
        until(lambda: "Idle" in browser.text() or browser.find("[data-status='idle']"), 120)

    def cell(self, beginning: str) -> Any:
        """The code cell whose text begins so."""
        return until(
            lambda: next(
                (cell for cell in self._cells() if _source(cell).startswith(beginning)), None
            )
        )

    def _cells(self) -> list[Any]:
        return self.browser.find(".jp-CodeCell")

    def fill(self, beginning: str, text: str) -> None:
        """Put a text in the place of a cell's, as one pastes it."""
        keys = webdriver.Keys
        editor = self.cell(beginning).find_element("css selector", ".cm-content")
        self._see(editor)
        editor.click()
        editor.send_keys(keys.CONTROL, "a")
        self.browser.driver.execute_script(_PASTE, editor, text)

    def run(self, beginning: str) -> None:
        keys = webdriver.Keys
        editor = self.cell(beginning).find_element("css selector", ".cm-content")
        self._see(editor)
        editor.click()
        editor.send_keys(keys.CONTROL, keys.ENTER)

    def run_all(self) -> None:
        """By the menu."""
        labels = self.browser.find(".lm-MenuBar-itemLabel")
        next(one for one in labels if one.text == "Run").click()
        until(lambda: self.browser.find("[data-command='runmenu:run-all']"))[0].click()

    def output(self, beginning: str) -> str:
        found = self.cell(beginning).find_elements("css selector", ".jp-OutputArea-output")
        return "\n".join(one.text for one in found)

    def show(self, beginning: str) -> None:
        """Bring a cell to the top."""
        self._see(self.cell(beginning), "start")
        time.sleep(1)

    def _see(self, element: Any, place: str = "center") -> None:
        self.browser.driver.execute_script(
            "arguments[0].scrollIntoView({block: arguments[1]})", element, place
        )


def _source(cell: Any) -> str:
    content = cell.find_element("css selector", ".cm-content")
    return str(content.find_element("css selector", ".cm-line").get_property("textContent"))
