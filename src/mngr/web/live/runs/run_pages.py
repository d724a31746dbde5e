"""The pages of runs: their progress, their changes, which a person can leave out, and their report."""

from __future__ import annotations

import os

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from mngr.base.untrusted_json import get_text
from mngr.mapreduce.run_dir import RunDir, list_runs
from mngr.overview.untrusted_text import clean_line
from mngr.web.live.app_state import get_site, read_object
from mngr.web.live.event_stream import EventStream
from mngr.web.live.integrate_job import IntegrateJob
from mngr.web.live.runs.run_changes import list_changes
from mngr.web.live.runs.run_stream import stream_run
from mngr.web.live.security import RECORDING_POLICY
from mngr.web.live.site import Site
from mngr.web.live.static_pages import add_navigation, guess_type, read_file

_MAX_LISTED_RUNS = 200
_MAX_REASON = 1000


async def show_runs(request: Request) -> Response:
    """Return the page with all runs of the project, the latest first."""
    site = get_site(request)
    names = [] if site.root is None else list_runs(site.root)[::-1]
    listed, hidden_count = names[:_MAX_LISTED_RUNS], max(0, len(names) - _MAX_LISTED_RUNS)
    return HTMLResponse(site.render("runs.html", page="runs", names=listed, hidden_count=hidden_count))


async def show_run(request: Request) -> Response:
    """Return the page of one run. Its facts arrive as events."""
    site = get_site(request)
    run = _get_run(site, request)
    has_report = os.path.isfile(os.path.join(run.path, "report", "index.html"))
    return HTMLResponse(site.render("run.html", page="runs", run=run.name, has_report=has_report))


async def send_run(request: Request) -> Response:
    """Send the progress and the changes of a run, and then each change."""
    site = get_site(request)
    return EventStream(stream_run(site, _get_run(site, request)))


async def leave_out_change(request: Request) -> Response:
    """Start to rebuild the branch of a run without one change."""
    site = get_site(request)
    run = _get_run(site, request)
    row = await read_object(request)
    change = get_text(row, "change")
    if change not in [known.id for known in list_changes(run)]:
        return JSONResponse({"ok": False, "text": f"{run.name} has no such change"}, 400)
    job = site.jobs.get(run.name)
    if job is not None and job.is_running:
        return JSONResponse({"ok": False, "text": f"wait: {job.status}"}, 409)
    reason = clean_line(get_text(row, "reason"), _MAX_REASON).strip()
    job = site.jobs[run.name] = IntegrateJob(site.fleet.context, run.root, run.name, change, reason)
    return JSONResponse({"ok": True, "text": job.status})


async def show_report(request: Request) -> Response:
    """Return a file of the run's report."""
    site = get_site(request)
    run, path = _get_run(site, request), request.path_params["path"]
    if not path:
        return RedirectResponse(f"/runs/{run.name}/report/index.html", 301)
    data = read_file(os.path.join(run.path, "report"), path)
    if not path.endswith(".html"):
        return Response(data, media_type=guess_type(path))
    text = add_navigation(data.decode("utf-8", "replace"))
    return HTMLResponse(text, headers={"Content-Security-Policy": RECORDING_POLICY})


def _get_run(site: Site, request: Request) -> RunDir:
    """Return the run that the path names. Raise HTTPException when the project has no such run."""
    name = request.path_params["run"]
    if site.root is None or name not in list_runs(site.root):
        raise HTTPException(404, "the project has no such run")
    return RunDir(site.root, name)
