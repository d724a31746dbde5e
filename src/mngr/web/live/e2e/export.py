"""Writes the pages as files that work without a e2e_paths."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError
from mngr.web import artifacts, e2e_run_pages
from mngr.web.live.e2e import e2e_paths, tutorial
from mngr.web.static_files import copy_static


def export_pages(artifacts_dir: str, target: str, script: str | None = None) -> str:
    """Write all pages below `target`, and return the path of the first one.

    `target` must be new, empty or an earlier export. `script` is the path of the project's tutorial.
    """
    marker = os.path.join(target, "static", "page.css")
    if os.path.isdir(target) and os.listdir(target) and not os.path.isfile(marker):
        raise MngrError(f"{target} exists and holds other files", "choose a new directory: mngr web --export DIR")
    run_names = artifacts.list_runs(artifacts_dir)
    _write_page(os.path.join(target, "index.html"), e2e_paths.render_index(artifacts_dir, script))
    if script is not None and tutorial.has_readable_block(script):
        _write_page(os.path.join(target, tutorial.PAGE_FILE), tutorial.render_tutorial(script, artifacts_dir))
    for run in run_names[: e2e_paths.MAX_LISTED_RUNS]:
        loaded = artifacts.load_run(artifacts_dir, run)
        _write_page(os.path.join(target, run, "index.html"), e2e_run_pages.render_run(loaded))
        for test in loaded.tests:
            _write_page(
                os.path.join(target, run, test.slug, "index.html"), e2e_paths.render_test(artifacts_dir, run, test.slug)
            )
    copy_static(target)
    return os.path.join(target, "index.html")


def _write_page(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
