"""Writes the pages as files that work without a server."""

from __future__ import annotations

import os
import shutil

from mngr.base.errors import MngrError
from mngr.web import artifacts, e2e_run_pages, player_or_last_screen
from mngr.web.live import server, tutorial


def export_pages(artifacts_dir: str, target: str, script: str | None = None) -> str:
    """Write all pages below `target`, and return the path of the first one.

    `target` must be new, empty or an earlier export. `script` is the path of the project's tutorial.
    """
    marker = os.path.join(target, "static", "page.css")
    if os.path.isdir(target) and os.listdir(target) and not os.path.isfile(marker):
        raise MngrError(f"{target} exists and holds other files", "choose a new directory: mngr web --export DIR")
    run_names = artifacts.list_runs(artifacts_dir)
    _write_page(os.path.join(target, "index.html"), server.render_index(artifacts_dir, script))
    if script is not None and tutorial.has_script(script):
        _write_page(os.path.join(target, tutorial.PAGE_FILE), tutorial.render_tutorial(script, artifacts_dir))
    for run in run_names[: server.MAX_LISTED_RUNS]:
        loaded = artifacts.load_run(artifacts_dir, run)
        _write_page(os.path.join(target, run, "index.html"), e2e_run_pages.render_run(loaded))
        for test in loaded.tests:
            _write_page(
                os.path.join(target, run, test.slug, "index.html"), server.render_test(artifacts_dir, run, test.slug)
            )
    copy_static(target)
    return os.path.join(target, "index.html")


def copy_static(target: str) -> None:
    """Copy the files that all pages share to `target`, unless they are up to date there."""
    static_dir = os.path.join(target, "static")
    os.makedirs(static_dir, exist_ok=True)
    for name in os.listdir(player_or_last_screen.STATIC_DIR):
        source, copy = os.path.join(player_or_last_screen.STATIC_DIR, name), os.path.join(static_dir, name)
        try:
            is_current = os.stat(copy).st_mtime_ns == os.stat(source).st_mtime_ns
        except FileNotFoundError:
            is_current = False
        if not is_current:
            temporary = f"{copy}.{os.getpid()}.new"
            shutil.copyfile(source, temporary)
            shutil.copystat(source, temporary)
            os.replace(temporary, copy)


def _write_page(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
