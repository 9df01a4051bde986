"""A browser for the tests of this folder: Debian's Chromium, or the one that CHROMIUM names.
Nothing is downloaded.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import ROOT

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """Chromium without a window; the tests are skipped where there is none."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed, and CHROMIUM names no other")
    from playwright.sync_api import sync_playwright  # slow, and of no use without a browser

    with sync_playwright() as playwright:
        root = hasattr(os, "geteuid") and os.geteuid() == 0  # whom Chromium's sandbox refuses
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Open the page of a file on such a screen; afterwards, no error was logged and nothing fetched from elsewhere."""
    contexts, asked, errors = [], [], []

    def opened(path: Path, width: int, scheme: str, script: str = ""):
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce"))
        page = contexts[-1].new_page()
        page.add_init_script(script)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == [] and [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture(scope="session")
def screens() -> Path:
    """Where screenshots go, to be looked at."""
    folder = ROOT / "build" / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
