"""Writes the pages as files that can be opened, sent and kept, with nothing missing."""

from __future__ import annotations

import os
import shutil

from mngr.base.errors import MngrError
from mngr.web import artifacts, pages, player
from mngr.web.live import server, tutorial


def export(place: str, target: str, script: str | None = None) -> str:
    """All pages below `target`, which is new or one of ours; the path of the first page. `script` is the project's tutorial."""
    mark = os.path.join(target, "static", "page.css")
    if os.path.isdir(target) and os.listdir(target) and not os.path.isfile(mark):
        raise MngrError(f"{target} is there and holds something else", "name a new directory")
    names = artifacts.list_runs(place)
    _write(os.path.join(target, "index.html"), server.index(place, script))
    if script is not None and tutorial.exists(script):
        _write(os.path.join(target, tutorial.FILE), tutorial.page(script, place))
    for run in names[: server.SHOWN]:
        loaded = artifacts.load_run(place, run)
        _write(os.path.join(target, run, "index.html"), pages.run_page(loaded))
        for test in loaded.tests:
            _write(
                os.path.join(target, run, test.slug, "index.html"), server.test_page(place, run, test.slug)
            )
    copy_static(target)
    return os.path.join(target, "index.html")


def copy_static(target: str) -> None:
    """What all pages below `target` share, unless it is there."""
    place = os.path.join(target, "static")
    os.makedirs(place, exist_ok=True)
    for name in os.listdir(player.STATIC):
        source, copy = os.path.join(player.STATIC, name), os.path.join(place, name)
        try:
            is_there = os.stat(copy).st_mtime_ns == os.stat(source).st_mtime_ns
        except FileNotFoundError:
            is_there = False
        if not is_there:
            fresh = f"{copy}.{os.getpid()}.new"
            shutil.copyfile(source, fresh)
            shutil.copystat(source, fresh)
            os.replace(fresh, copy)


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
