"""Reads the artifacts of e2e test runs. Tests wrote these files, so nothing in them is trusted."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from mngr.base.errors import NotFound
from mngr.base.model import Struct
from mngr.base.paths import open_plain_file
from mngr.base.untrusted_json import as_object, find_int, find_number, get_objects, get_text, parse_json
from mngr.e2e.asciicast import redact_recording
from mngr.e2e.redact_secrets import Redactor

MAX_SHOWN_BYTES = 2_000_000  # The most bytes of a transcript or a recording on a page.
_MAX_STEPS = 500  # Of a test.
_MAX_FILES, _MAX_DIFF_LINES = 50, 120  # Of a step; of a file.
STATUS_ORDER = ("failed", "running", "passed")  # The order in which pages list them.
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")


class Recording(Struct):
    """A recording of a terminal, as asciicast v2."""

    name: str
    text: str
    is_cut: bool = False


class E2eTest(Struct):
    """One test of a run."""

    slug: str  # The name of its directory.
    name: str  # The name that pytest uses.
    status: str
    doc: str = ""
    file: str = ""
    line: int | None = None
    seconds: float = 0.0
    failure: str = ""
    blocks: list[str] = []
    allowed: list[str] = []
    is_observed: bool = False
    recordings: list[str] = []

    @property
    def first_line(self) -> str:
        """The first line of the description."""
        return self.doc.strip().partition("\n")[0]

    @property
    def location(self) -> str:
        """The file and the line of the test."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


class FileChange(Struct):
    """A file that a command changed."""

    path: str
    change: str  # added | changed | removed
    diff: list[str]  # The lines of a unified diff; empty for a file that is large or no text.


class TestStep(Struct):
    """A command of a test, or keys that the test pressed in a terminal."""

    __test__ = False  # pytest must not collect this class.

    line: int  # Of the transcript, counted from 0.
    at: float  # Seconds since the beginning of the test.
    terminal: str  # The recording that begins here, or nothing.
    files: list[FileChange]


class E2eRun(Struct):
    """All tests of one run."""

    name: str
    at: str
    tests: list[E2eTest]


def list_runs(artifacts_dir: str) -> list[str]:
    """Return the names of all runs, the latest first; raise NotFound if there are no artifacts."""
    try:
        entries = [
            entry
            for entry in os.scandir(artifacts_dir)
            if entry.is_dir(follow_symlinks=False) and _RUN_NAME.fullmatch(entry.name)
        ]
    except FileNotFoundError:
        raise NotFound(
            f"no artifacts of e2e tests in {artifacts_dir}", "run tests that use the e2e fixture: pytest"
        ) from None
    return sorted((entry.name for entry in entries), reverse=True)


def load_run(artifacts_dir: str, name: str) -> E2eRun:
    """Return one run with its tests; raise NotFound if there is none."""
    run_dir = _resolve_inside(artifacts_dir, name)
    run_time = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(run_dir).st_mtime))
    tests = [test for slug in sorted(os.listdir(run_dir)) if (test := _load_test(run_dir, slug)) is not None]
    return E2eRun(name=name, at=run_time, tests=sorted(tests, key=lambda test: (_rank_status(test.status), test.name)))


def load_test(artifacts_dir: str, run: str, slug: str) -> E2eTest:
    """Return one test of a run; raise NotFound if there is none."""
    test = _load_test(_resolve_inside(artifacts_dir, run), slug)
    if test is None:
        raise NotFound(f"the run {run} has no test {slug!r}")
    return test


def read_transcript(artifacts_dir: str, run: str, slug: str) -> str:
    """Return the transcript of a test; a long one without its middle."""
    return _read_limited(os.path.join(_resolve_inside(_resolve_inside(artifacts_dir, run), slug), "transcript.txt"))[0]


def read_steps(artifacts_dir: str, run: str, slug: str) -> list[TestStep]:
    """Return the steps of a test in the order of the transcript; none if the transcript is not shown as a whole."""
    directory = _resolve_inside(_resolve_inside(artifacts_dir, run), slug)
    text, is_cut = _read_limited(os.path.join(directory, "steps.jsonl"))
    if is_cut or _read_limited(os.path.join(directory, "transcript.txt"))[1]:
        return []
    steps = {}
    for row_text in text.splitlines()[:_MAX_STEPS]:
        try:
            row = as_object(parse_json(row_text))
        except ValueError:
            continue
        line, at = find_int(row, "line"), find_number(row, "at")
        if line is not None and line >= 0 and at is not None:
            files = [_build_file_change(each) for each in get_objects(row, "files")[:_MAX_FILES]]
            steps[line] = TestStep(line=line, at=at, terminal=get_text(row, "terminal"), files=files)
    return [steps[line] for line in sorted(steps)]


def _build_file_change(row: Mapping[str, object]) -> FileChange:
    diff = _list_texts(row.get("diff"))[:_MAX_DIFF_LINES]
    return FileChange(path=get_text(row, "path"), change=get_text(row, "change"), diff=diff)


def read_recordings(artifacts_dir: str, run: str, test: E2eTest) -> Iterator[Recording]:
    """Yield the terminal recordings of a test, without secrets."""
    for name in test.recordings:
        text, is_cut = _read_limited(
            os.path.join(_resolve_inside(_resolve_inside(artifacts_dir, run), test.slug), name)
        )
        yield Recording(name=name.removesuffix(".cast"), text=redact_recording(text, _get_redactor()), is_cut=is_cut)


@functools.cache
def _get_redactor() -> Redactor:
    return Redactor(os.environ)


def _resolve_inside(parent: str, name: str) -> str:
    """Return the path of a directory inside another; raise NotFound for links and unsafe names."""
    path = os.path.join(parent, name)
    if not _RUN_NAME.fullmatch(name) or os.path.islink(path) or not os.path.isdir(path):
        raise NotFound(f"there is no {name!r} in {parent}")
    return path


def _load_test(run_dir: str, slug: str) -> E2eTest | None:
    """Return one test of a run directory, or None if there is no such test."""
    directory = os.path.join(run_dir, slug)
    if not _RUN_NAME.fullmatch(slug) or os.path.islink(directory) or not os.path.isdir(directory):
        return None
    try:
        with open_plain_file(os.path.join(directory, "meta.json")) as file:
            meta = parse_json(file.read(MAX_SHOWN_BYTES).decode("utf-8", "replace"))
    except (OSError, ValueError):
        meta = {}
    if not isinstance(meta, dict):
        meta = {}
    allowed = meta.get("allowed") if isinstance(meta.get("allowed"), dict) else {}
    assert isinstance(allowed, dict)
    status = meta.get("status")
    line, seconds = meta.get("line"), meta.get("seconds")
    return E2eTest(
        slug=slug,
        name=_text_or_empty(meta.get("test")) or slug,
        status=status if status in STATUS_ORDER else "running",
        doc=_text_or_empty(meta.get("doc")),
        file=_text_or_empty(meta.get("file")),
        line=line if isinstance(line, int) else None,
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        failure=_text_or_empty(meta.get("failure")),
        blocks=_list_texts(meta.get("blocks")),
        allowed=_list_texts(allowed.get("env")) + _list_texts(allowed.get("paths")),
        is_observed=meta.get("observed") is True,
        recordings=sorted(
            name for name in os.listdir(directory) if name.endswith(".cast") and _RUN_NAME.fullmatch(name)
        ),
    )


def _read_limited(path: str) -> tuple[str, bool]:
    """Return the text of a file, and whether a part of it is missing."""
    try:
        with open_plain_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= MAX_SHOWN_BYTES:
                return file.read(MAX_SHOWN_BYTES).decode("utf-8", "replace"), False
            head = file.read(MAX_SHOWN_BYTES // 2)
            file.seek(size - MAX_SHOWN_BYTES // 2)
            tail = file.read(MAX_SHOWN_BYTES // 2)
    except OSError:
        return "", False
    if path.endswith(".cast"):  # A recording keeps whole lines from its beginning.
        return head.decode("utf-8", "replace").rpartition("\n")[0] + "\n", True
    gap = f"\n# [{size - MAX_SHOWN_BYTES} bytes are not shown]\n"
    return head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace"), True


def _rank_status(status: str) -> int:
    return STATUS_ORDER.index(status) if status in STATUS_ORDER else len(STATUS_ORDER)


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list_texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
