"""Takes screenshots of a report in a real browser: `python scripts/photograph_report.py REPORT DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.browser import Browser


def main(report: Path, images: Path) -> None:
    """Photograph the first page of the report and the page of one repaired test."""
    pages = {
        "report.png": report / "index.html",
        "task.png": next(iter(sorted((report / "tasks").glob("test-list-sorted*.html")))),
    }
    with Browser() as browser:
        browser.resize(1280, 800)
        for name, page in pages.items():
            browser.open(page.resolve().as_uri())
            browser.wait("document.readyState === 'complete'")
            browser.photograph(images / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
