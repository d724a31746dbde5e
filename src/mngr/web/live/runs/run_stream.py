"""Sends the progress and the changes of a run to one client, and then each change."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator

from mngr.base.model import Struct
from mngr.mapreduce.run_dir import RunDir
from mngr.overview.follow_runs import RunCard
from mngr.web.live.event_stream import HEARTBEAT_SECONDS, OverviewChanges
from mngr.web.live.runs.run_changes import list_changes
from mngr.web.live.site import Site

_LOOK_SECONDS = 1.0  # between two looks at the files of the run and at the job


class RunProgress(Struct):
    """The progress of a run as its page shows it. `percent` is the share of finished tasks."""

    state: str
    progress: str
    percent: int
    lines: tuple[str, ...]


async def stream_run(site: Site, run: RunDir) -> AsyncIterator[tuple[str, object]]:
    """Yield the facts of a run, and again when they change."""
    overview_changes = OverviewChanges(site.follower)
    client = _RunClient(site, run)
    sent_at = time.monotonic()
    try:
        while True:
            change = await overview_changes.wait(_LOOK_SECONDS)
            if change is not None:
                client.card = next((card for card in change.overview.runs if card.name == run.name), None)
            event = await asyncio.to_thread(client.build_event)
            if event:
                sent_at = time.monotonic()
                yield "run", event
            elif time.monotonic() - sent_at > HEARTBEAT_SECONDS:
                sent_at = time.monotonic()
                yield "heartbeat", {}
    finally:
        overview_changes.close()


class _RunClient:
    """What one client shows of a run."""

    def __init__(self, site: Site, run: RunDir) -> None:
        self._site = site
        self._run = run
        self._sent: dict[str, str] = {}
        self._stamps: tuple[int, ...] | None = None
        self._changes_html = ""
        self.card: RunCard | None = None

    def build_event(self) -> dict[str, str]:
        """Return the parts of the page that changed."""
        card = self.card
        progress = None if card is None else describe_progress(card)
        tasks = () if card is None else card.tasks
        job = self._site.jobs.get(self._run.name)
        parts = {
            "progress": self._site.render("run_progress.html", progress=progress),
            "tasks": self._site.render("run_tasks.html", tasks=tasks),
            "job": self._site.render("run_job.html", job=job, lines=[] if job is None else job.read_lines()),
            "changes": self._render_changes(),
        }
        changed = {name: html for name, html in parts.items() if self._sent.get(name) != html}
        self._sent = parts
        return changed

    def _render_changes(self) -> str:
        """Return the list of changes. The files are read again only when they changed."""
        names = ("changes.json", "integration.json")
        stamps = tuple(_get_stamp(os.path.join(self._run.path, name)) for name in names)
        if stamps != self._stamps:
            self._stamps = stamps
            changes = list_changes(self._run)
            self._changes_html = self._site.render("run_changes.html", changes=changes, run=self._run.name)
        return self._changes_html


def describe_progress(run: RunCard) -> RunProgress:
    """Return the progress of a run, with the pace of one that is running."""
    facts, now = run.facts, time.time()
    if facts.preparation:
        progress = facts.preparation
    elif run.state == "running":
        progress = f"{facts.format_head(now)}, {facts.format_progress(now)}"
    else:
        progress = f"{facts.settled} of {facts.total} tasks finished"
    lines = facts.list_lines() + [f"root cause, {cause.state}: {cause.title}" for cause in facts.causes]
    if run.budget_usd is not None:
        lines.append(f"budget in the plan: ${run.budget_usd:.2f}")
    percent = 100 * facts.settled // facts.total if facts.total else 0
    return RunProgress(state=run.state, progress=progress, percent=percent, lines=tuple(lines))


def _get_stamp(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
