"""Renders the page of e2e test runs or of the tutorial that belongs to a path."""

from __future__ import annotations

from mngr.base.errors import NotFound
from mngr.web import artifacts, e2e_run_pages
from mngr.web.live.e2e import tutorial

MAX_LISTED_RUNS = 200  # The most runs on the first page.


def render_path(artifacts_dir: str, path: str, script: str | None = None) -> str:
    """Return the page at a path; raise NotFound if there is none. `script` is the path of the project's tutorial."""
    parts = [part for part in path.split("/") if part]
    if parts[-1:] == ["index.html"]:
        parts.pop()
    if not parts:
        return render_index(artifacts_dir, script)
    if parts == [tutorial.PAGE_FILE] and script is not None:
        return tutorial.render_tutorial(script, artifacts_dir)
    if len(parts) == 1:
        return e2e_run_pages.render_run(artifacts.load_run(artifacts_dir, parts[0]))
    if len(parts) == 2:
        return render_test(artifacts_dir, *parts)
    raise NotFound(f"page not found: {path}")


def render_index(artifacts_dir: str, script: str | None = None) -> str:
    """Return the page with all runs, the latest first."""
    names = artifacts.list_runs(artifacts_dir)
    runs = [artifacts.load_run(artifacts_dir, name) for name in names[:MAX_LISTED_RUNS]]
    tutorial_page = tutorial.PAGE_FILE if tutorial.has_readable_block(script) else None
    return e2e_run_pages.render_index(runs, max(0, len(names) - MAX_LISTED_RUNS), tutorial=tutorial_page)


def render_test(artifacts_dir: str, run: str, slug: str) -> str:
    """Return the page of one test with its transcript and recordings."""
    test = artifacts.load_test(artifacts_dir, run, slug)
    transcript = artifacts.read_transcript(artifacts_dir, run, slug)
    steps = artifacts.read_steps(artifacts_dir, run, slug)
    recordings = list(artifacts.read_recordings(artifacts_dir, run, test))
    return e2e_run_pages.render_test(run, test, transcript, recordings, steps)
