"""Writes the pages as files that can be opened, sent and kept, with nothing missing."""

from __future__ import annotations

import os
import shutil

from mngr.base.errors import MngrError
from mngr.web import artifacts, pages, terminal_player
from mngr.web.live import server, tutorial


def export_pages(place: str, target: str, script: str | None = None) -> str:
    """All pages below `target`, which is new or one of ours; the path of the first page. `script` is the project's tutorial."""
    mark = os.path.join(target, "static", "page.css")
    if os.path.isdir(target) and os.listdir(target) and not os.path.isfile(mark):
        raise MngrError(f"{target} is there and holds something else", "name a new directory")
    names = artifacts.list_runs(place)
    _write_page(os.path.join(target, "index.html"), server.render_index(place, script))
    if script is not None and tutorial.has_script(script):
        _write_page(os.path.join(target, tutorial.PAGE_FILE), tutorial.render_tutorial(script, place))
    for run in names[: server.MAX_LISTED_RUNS]:
        loaded = artifacts.load_run(place, run)
        _write_page(os.path.join(target, run, "index.html"), pages.render_run(loaded))
        for test in loaded.tests:
            _write_page(os.path.join(target, run, test.slug, "index.html"), server.render_test(place, run, test.slug))
    copy_static(target)
    return os.path.join(target, "index.html")


def copy_static(target: str) -> None:
    """What all pages below `target` share, unless it is there."""
    place = os.path.join(target, "static")
    os.makedirs(place, exist_ok=True)
    for name in os.listdir(terminal_player.STATIC_DIR):
        source, copy = os.path.join(terminal_player.STATIC_DIR, name), os.path.join(place, name)
        try:
            is_there = os.stat(copy).st_mtime_ns == os.stat(source).st_mtime_ns
        except FileNotFoundError:
            is_there = False
        if not is_there:
            fresh = f"{copy}.{os.getpid()}.new"
            shutil.copyfile(source, fresh)
            shutil.copystat(source, fresh)
            os.replace(fresh, copy)


def _write_page(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
