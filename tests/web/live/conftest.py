"""A Chromium for the tests of the live page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, driven by Playwright. Each test opens pages of its own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "there is no Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
