"""A real browser for the tests in this folder: the one that CHROMIUM names, or a Chromium or Chrome on the path."""

import os
import shutil

import pytest


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if not found:
        pytest.skip("no browser: install Chromium, or name one in the environment variable CHROMIUM")
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=root)
        yield browser
        browser.close()
