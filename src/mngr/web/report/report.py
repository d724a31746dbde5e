"""Writes the report of a run: a folder of pages that opens from disk and loads nothing from a network."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import zipfile

from mngr.base import shell
from mngr.base.errors import MngrError, describe_file_error
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.web.report.first_page import render_index
from mngr.web.report.report_data import ReportFacts, load_facts
from mngr.web.report.task import render_task
from mngr.web.report.trends.trends import load_trends, render_trends
from mngr.web.static_files import copy_static

_PAGE_VERSION = 3  # Increase this when the same facts lead to another page.
_MIN_INTERVAL = 10.0  # Seconds between two reports of a running run.
_INTERVAL_FACTOR = 60  # The pause is at least this factor times the time of writing.


def write_report(local: Host, run: RunDir) -> str:
    """Write the pages that have changed, and return the path of the first one; raise MngrError if that fails."""
    facts = load_facts(run)
    report_dir = os.path.join(run.path, "report")
    try:
        os.makedirs(os.path.join(report_dir, "tasks"), exist_ok=True)
        copy_static(report_dir)
        for index, task in enumerate(facts.tasks):
            path = os.path.join(report_dir, "tasks", f"{task.slug}.html")
            fingerprint = _fingerprint_page(facts, index)
            if _find_fingerprint(path) != fingerprint:
                _replace_page(path, render_task(local, facts, index, fingerprint))
        index_path = os.path.join(report_dir, "index.html")
        trends = None if facts.plan.kind == "map" else load_trends(local, run.root, facts)
        if trends is not None:
            _replace_page(os.path.join(report_dir, "trends.html"), render_trends(facts, trends))
        _replace_page(index_path, render_index(facts, trends))
    except OSError as error:
        raise MngrError(
            f"cannot write the report: {describe_file_error(error)}", shell.suggest_disk_check(run.path)
        ) from None
    return index_path


def zip_report(index_path: str, target: str, name: str) -> int:
    """Write the folder of a report as one zip file, and return its size; raise MngrError if that fails."""
    report_dir = os.path.dirname(index_path)
    temporary = f"{target}.new"
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for folder, _, file_names in os.walk(report_dir):
                for file_name in sorted(file_names):
                    path = os.path.join(folder, file_name)
                    if not file_name.endswith(".new"):
                        archive.write(path, os.path.join(f"report-{name}", os.path.relpath(path, report_dir)))
        os.replace(temporary, target)
    except OSError as error:
        raise MngrError(
            f"cannot write {target}: {error.strerror}", "choose another file: mngr tmr report --export FILE"
        ) from None
    return os.path.getsize(target)


class LiveReport:
    """Writes the report of a run while it is running, rarely enough to cost almost nothing."""

    def __init__(self, local: Host, run: RunDir) -> None:
        self._local, self._run = local, run
        self._lock = threading.Lock()  # One writer at a time.
        self._next: threading.Timer | None = None
        self._not_before = 0.0
        self._is_over = False
        self.first: str | None = None  # The path of the first page, once it exists.

    def request_update(self) -> None:
        """Schedule the next writing of the report, unless one is scheduled."""
        if self._next is None and not self._is_over:
            self._next = threading.Timer(max(0.5, self._not_before - time.monotonic()), self._write_until_closed)
            self._next.daemon = True
            self._next.start()

    def close(self) -> None:
        """Write the final report."""
        self._is_over = True
        if self._next is not None:
            self._next.cancel()
        self._write_until_closed()

    def _write_until_closed(self) -> None:
        """Write the report once, and compute when it may be written again."""
        with self._lock:
            start_time = time.monotonic()
            self._next, self._not_before = None, start_time + _MIN_INTERVAL
            try:
                self.first = write_report(self._local, self._run)
            except Exception:  # A broken report must not stop the run; `mngr tmr report` shows the error.
                self.first = None
            spent = time.monotonic() - start_time
            self._not_before = time.monotonic() + max(_MIN_INTERVAL, spent * _INTERVAL_FACTOR)


def _fingerprint_page(facts: ReportFacts, index: int) -> str:
    """Return a hash of everything that the page of a task depends on."""
    task = facts.tasks[index]
    neighbour_titles = [other.title for other in facts.tasks[max(0, index - 1) : index + 2]]
    files = []
    for folder in (
        facts.run.task_path(task.slug),
        facts.run.task_path(task.slug, "receipt"),
        facts.run.task_path(task.slug, "outputs", "runs"),
    ):
        try:
            files += [(entry.name, entry.stat(follow_symlinks=False).st_mtime_ns) for entry in os.scandir(folder)]
        except OSError:
            continue
    inputs = (
        _PAGE_VERSION,
        neighbour_titles,
        task.journal_rows,
        len(task.baseline_runs),
        task.status.verdict,
        sorted(files),
        facts.is_live and not task.is_over,
    )
    return hashlib.sha256(repr(inputs).encode("utf-8", "replace")).hexdigest()[:20]


def _find_fingerprint(path: str) -> str | None:
    """Return the fingerprint in an existing page, or None."""
    try:
        with open(path, encoding="utf-8") as file:
            head = file.read(2000)
    except (OSError, ValueError):
        return None
    return head.partition('name="mngr-of" content="')[2].partition('"')[0] or None


def _replace_page(path: str, text: str) -> None:
    """Write a page so that readers see the old one or the new one, never a part."""
    temporary = f"{path}.{os.getpid()}.new"  # A run and a user may write at the same time.
    with open(temporary, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    os.replace(temporary, path)
