"""The report of a run: a folder of pages that opens from disk and asks nobody for anything; written again as the run goes on."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import zipfile

from mngr.base.errors import MngrError
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.web.live.export import copy_static
from mngr.web.report.index import render_index
from mngr.web.report.run_facts import ReportFacts, load_facts
from mngr.web.report.task import render_task

_PAGE_VERSION = 1  # goes up when the same facts make another page
_MIN_INTERVAL = 10.0  # seconds between two reports of a run that goes on
_INTERVAL_FACTOR = 60  # times what it took passes before it is written again


def write_report(local: Host, run: RunDir) -> str:
    """Write it, or what has changed of it; the path of its first page. Raises MngrError."""
    facts = load_facts(run)
    where = os.path.join(run.path, "report")
    try:
        os.makedirs(os.path.join(where, "tasks"), exist_ok=True)
        copy_static(where)
        for at, one in enumerate(facts.tasks):
            path = os.path.join(where, "tasks", f"{one.slug}.html")
            of = _fingerprint_page(facts, at)
            if _find_fingerprint(path) != of:
                _replace_page(path, render_task(local, facts, at, of))
        first = os.path.join(where, "index.html")
        _replace_page(first, render_index(facts))
    except OSError as error:
        raise MngrError(f"the report cannot be written: {error}", "make room, then: mngr tmr report") from None
    return first


def export_report(first: str, target: str, name: str) -> int:
    """The folder of a report as one file for somebody else; its size. Raises MngrError."""
    above = os.path.dirname(first)
    fresh = f"{target}.new"
    try:
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as file:
            for folder, _, names in os.walk(above):
                for one in sorted(names):
                    path = os.path.join(folder, one)
                    if not one.endswith(".new"):
                        file.write(path, os.path.join(f"report-{name}", os.path.relpath(path, above)))
        os.replace(fresh, target)
    except OSError as error:
        raise MngrError(f"{target} cannot be written: {error.strerror}", "name another file") from None
    return os.path.getsize(target)


class LiveReport:
    """Writes the report of a run while it goes on, beside it and at a pace that costs next to nothing."""

    def __init__(self, local: Host, run: RunDir) -> None:
        self._local, self._run = local, run
        self._lock = threading.Lock()  # one writer at a time
        self._next: threading.Timer | None = None
        self._not_before = 0.0
        self._is_over = False
        self.first: str | None = None  # its first page, once there is one

    def request_update(self) -> None:
        """Something happened."""
        if self._next is None and not self._is_over:
            self._next = threading.Timer(max(0.5, self._not_before - time.monotonic()), self._write_until_closed)
            self._next.daemon = True
            self._next.start()

    def close(self) -> None:
        """Write it once more, as it stands in the end."""
        self._is_over = True
        if self._next is not None:
            self._next.cancel()
        self._write_until_closed()

    def _write_until_closed(self) -> None:
        with self._lock:
            began = time.monotonic()
            self._next, self._not_before = None, began + _MIN_INTERVAL
            try:
                self.first = write_report(self._local, self._run)
            except Exception:  # the run itself must not suffer; whoever asks for the report is told
                self.first = None
            spent = time.monotonic() - began
            self._not_before = time.monotonic() + max(_MIN_INTERVAL, spent * _INTERVAL_FACTOR)


def _fingerprint_page(facts: ReportFacts, at: int) -> str:
    """What a page is made of, in a few digits."""
    one = facts.tasks[at]
    around = [other.title for other in facts.tasks[max(0, at - 1) : at + 2]]
    files = []
    for folder in (
        facts.run.task_path(one.slug),
        facts.run.task_path(one.slug, "receipt"),
        facts.run.task_path(one.slug, "outputs", "runs"),
    ):
        try:
            files += [(e.name, e.stat(follow_symlinks=False).st_mtime_ns) for e in os.scandir(folder)]
        except OSError:
            continue
    what = (
        _PAGE_VERSION,
        around,
        one.journal_rows,
        one.status_row["verdict"],
        sorted(files),
        facts.is_live and one.status_row["outcome"] is None,
    )
    return hashlib.sha256(repr(what).encode("utf-8", "replace")).hexdigest()[:20]


def _find_fingerprint(path: str) -> str | None:
    """What the page that is there was made of."""
    try:
        with open(path, encoding="utf-8") as file:
            head = file.read(2000)
    except (OSError, ValueError):
        return None
    return head.partition('name="mngr-of" content="')[2].partition('"')[0] or None


def _replace_page(path: str, text: str) -> None:
    """Whoever looks sees the old page or the new one, never a part."""
    fresh = f"{path}.{os.getpid()}.new"  # a run and a person may write at the same time
    with open(fresh, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    os.replace(fresh, path)
