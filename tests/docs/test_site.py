"""The documentation site builds without warnings, loads nothing from other servers, and its search works from disk."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.site_pages import adapt_links

from tests.support.browser import Browser
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    completed = subprocess.run(
        ["sh", ROOT / "scripts/site.sh", directory],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout
    return directory


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as chromium:
        yield chromium


def test_no_page_loads_something_from_another_server(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="?https?:|<link[^>]*rel="?stylesheet[^>]*href="?https?:')
    assert [str(page) for page in site.rglob("*.html") if loads.search(page.read_text())] == []


def test_the_search_works_from_disk(site: Path, browser: Browser) -> None:
    browser.open((site / "guide/modal.html").as_uri())
    browser.ask("document.querySelector('.md-search__input').focus()")
    browser.ask(
        "(box => {box.value = 'undestroy'; box.dispatchEvent(new Event('keyup', {bubbles: true}));})"
        "(document.querySelector('.md-search__input'))"
    )
    assert browser.wait("document.querySelectorAll('.md-search-result__item').length") > 1
    assert [url for url in browser.fetched if not url.startswith(("file:", "data:", "about:"))] == []


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    assert adapt_links("[a](../../SECURITY.md#x)", "guide/sandbox.md") == "[a](../project/security.md#x)"
    assert adapt_links("[a](docs/glossary.md)", "index.md") == "[a](glossary.md)"
    assert adapt_links("[a](https://example.com/x.md)", "index.md") == "[a](https://example.com/x.md)"
