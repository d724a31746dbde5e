"""Hooks of mkdocs: add the pages that lie outside docs/ to the site and adapt their links."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# Files of the repository, and their place in the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/mngr-example/README.md": "project/example-plugin.md",
    "src/mngr/testkit/sample/README.md": "project/sample.md",
    "tutorial.sh": "project/tutorial.sh",
    "LICENSE": "project/LICENSE.txt",
    "tests/support/targets.py": "project/targets.py.txt",
}
SOURCES = {place: source for source, place in PAGES.items()}
FENCE = re.compile(r"^(`{3,}\w+) \w+$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def find_page(source: str) -> str | None:
    """Return the place in the site of a file of the repository."""
    if source in PAGES:
        return PAGES[source]
    return source.removeprefix("docs/") if source.startswith("docs/") else None


def adapt_links(text: str, place: str) -> str:
    """Return the Markdown of a page whose links lead to other pages of the site."""
    source = SOURCES.get(place, f"docs/{place}")

    def adapt(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        if "://" in link:
            return match[0]
        target = find_page(posixpath.normpath(posixpath.join(posixpath.dirname(source), link)))
        if target is None:
            return match[0]
        return before + posixpath.relpath(target, posixpath.dirname(place) or ".") + after

    return LINK.sub(adapt, text)


def list_pages(folder: str, named: str) -> list[str]:
    """Return the pages of a folder of docs that the navigation does not name."""
    pages = sorted((ROOT / "docs" / folder).glob("*.md"))
    return [place for path in pages if (place := f"{folder}/{path.name}") not in named]


def fill_navigation(nav: Any, lists: dict[str, list[str]]) -> Any:
    """Return the navigation with each placeholder replaced by its list of pages."""
    if isinstance(nav, list):
        return [fill_navigation(item, lists) for item in nav]
    if isinstance(nav, dict):
        return {title: fill_navigation(item, lists) for title, item in nav.items()}
    return lists.get(nav, nav)


def on_config(config: Any) -> Any:
    """Fill in the parts of the navigation that follow from the files."""
    named = str(config.nav)
    config.nav = fill_navigation(
        config.nav, {"COMMANDS": list_pages("reference", named), "DECISIONS": list_pages("adr", named)}
    )
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the files that lie outside docs/."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found]

    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Adapt the links of each page, and remove the words after a block's language, which only the tests read."""
    return adapt_links(FENCE.sub(r"\1", markdown), page.file.src_uri)
